// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

#zero = #layout.format<(n, c) : [n, c, c:8], pad = zero>
#one = #layout.format<(n, c) : [n, c, c:8], pad = 1>
#low = #layout.format<(n, c) : [n, c, c:8], pad = -inf>
#high = #layout.format<(n, c) : [n, c, c:8], pad = inf>
#least = #layout.format<(n, c) : [n, c, c:8], pad = -128>

// CHECK-LABEL: func.func @reductions
func.func @reductions(%x: tensor<2x3x4xf32>) {
  // CHECK-NEXT: %0 = nn.reduce_sum %x axes = [0, 2] : (tensor<2x3x4xf32>) -> tensor<1x3x1xf32>
  %0 = nn.reduce_sum %x axes = [0, 2] keepdims = true : (tensor<2x3x4xf32>) -> tensor<1x3x1xf32>
  // CHECK-NEXT: %1 = nn.reduce_mean %x axes = [1] keepdims = false : (tensor<2x3x4xf32>) -> tensor<2x4xf32>
  %1 = nn.reduce_mean %x axes = [1] keepdims = false : (tensor<2x3x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: %2 = nn.reduce_max %x keepdims = false : (tensor<2x3x4xf32>) -> tensor<f32>
  %2 = nn.reduce_max %x axes = [0, 1, 2] keepdims = false : (tensor<2x3x4xf32>) -> tensor<f32>
  // CHECK-NEXT: %3 = nn.reduce_min %x : (tensor<2x3x4xf32>) -> tensor<1x1x1xf32>
  %3 = nn.reduce_min %x : (tensor<2x3x4xf32>) -> tensor<1x1x1xf32>
  // CHECK-NEXT: %4 = nn.reduce_prod %x axes = [] : tensor<2x3x4xf32>
  %4 = nn.reduce_prod %x axes = [] : tensor<2x3x4xf32>
  func.return
}

// CHECK-LABEL: func.func @neutral_pads
func.func @neutral_pads(%z: tensor<2x17xf32, #zero>, %o: tensor<2x17xf32, #one>, %l: tensor<2x17xf32, #low>, %h: tensor<2x17xf32, #high>, %i: tensor<2x17xi8, #least>) {
  // CHECK-NEXT: nn.reduce_sum
  %0 = nn.reduce_sum %z axes = [1] keepdims = false : (tensor<2x17xf32, #zero>) -> tensor<2xf32>
  // CHECK-NEXT: nn.reduce_mean
  %1 = nn.reduce_mean %z axes = [1] keepdims = false : (tensor<2x17xf32, #zero>) -> tensor<2xf32>
  // CHECK-NEXT: nn.reduce_prod
  %2 = nn.reduce_prod %o axes = [1] keepdims = false : (tensor<2x17xf32, #one>) -> tensor<2xf32>
  // CHECK-NEXT: nn.reduce_max
  %3 = nn.reduce_max %l axes = [1] keepdims = false : (tensor<2x17xf32, #low>) -> tensor<2xf32>
  // CHECK-NEXT: nn.reduce_min
  %4 = nn.reduce_min %h axes = [1] keepdims = false : (tensor<2x17xf32, #high>) -> tensor<2xf32>
  // CHECK-NEXT: nn.reduce_max
  %5 = nn.reduce_max %i axes = [1] keepdims = false : (tensor<2x17xi8, #least>) -> tensor<2xi8>
  // Pads of a dim that stays are not read.
  // CHECK-NEXT: nn.reduce_max
  %6 = nn.reduce_max %z axes = [0] keepdims = false : (tensor<2x17xf32, #zero>) -> tensor<17xf32>
  func.return
}

// CHECK-LABEL: func.func @norms
func.func @norms(%x: tensor<2x3x4xf32>, %z: tensor<2x17xf32, #zero>, %l: tensor<2x17xf32, #low>) {
  // CHECK-NEXT: %0 = nn.reduce_l1 %x axes = [1] : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>
  %0 = nn.reduce_l1 %x axes = [1] : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>
  // CHECK-NEXT: %1 = nn.reduce_l2 %x keepdims = false : (tensor<2x3x4xf32>) -> tensor<f32>
  %1 = nn.reduce_l2 %x keepdims = false : (tensor<2x3x4xf32>) -> tensor<f32>
  // CHECK-NEXT: %2 = nn.reduce_sum_square %z axes = [1] keepdims = false
  %2 = nn.reduce_sum_square %z axes = [1] keepdims = false : (tensor<2x17xf32, #zero>) -> tensor<2xf32>
  // CHECK-NEXT: %3 = nn.reduce_log_sum %z axes = [1] keepdims = false
  %3 = nn.reduce_log_sum %z axes = [1] keepdims = false : (tensor<2x17xf32, #zero>) -> tensor<2xf32>
  // CHECK-NEXT: %4 = nn.reduce_log_sum_exp %l axes = [1] keepdims = false
  %4 = nn.reduce_log_sum_exp %l axes = [1] keepdims = false : (tensor<2x17xf32, #low>) -> tensor<2xf32>
  func.return
}

// CHECK-LABEL: func.func @cum_sum
func.func @cum_sum(%x: tensor<2x3xi64>) {
  // CHECK-NEXT: %0 = nn.cum_sum %x axis = 1 : tensor<2x3xi64>
  %0 = nn.cum_sum %x axis = 1 exclusive = false : tensor<2x3xi64>
  // CHECK-NEXT: %1 = nn.cum_sum %x axis = 0 exclusive = true reverse = true : tensor<2x3xi64>
  %1 = nn.cum_sum %x axis = 0 exclusive = true reverse = true : tensor<2x3xi64>
  func.return
}
