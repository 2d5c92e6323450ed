// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

#nhwc = #layout.format<(n, c, h, w) : [n, h, w, c]>

// CHECK-LABEL: func.func @gather
func.func @gather(%x: tensor<10x8xf32>, %i: tensor<2x3xi64>, %one: tensor<i32>) {
  // CHECK-NEXT: %0 = nn.gather %x, %i : (tensor<10x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
  %0 = nn.gather %x, %i axis = 0 : (tensor<10x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
  // CHECK-NEXT: %1 = nn.gather %x, %one axis = 1 : (tensor<10x8xf32>, tensor<i32>) -> tensor<10xf32>
  %1 = nn.gather %x, %one axis = 1 : (tensor<10x8xf32>, tensor<i32>) -> tensor<10xf32>
  func.return
}

// CHECK-LABEL: func.func @gather_rows
func.func @gather_rows(%x: tensor<2x3x4x5xf32, #nhwc>, %i: tensor<7xi64>) {
  // CHECK-NEXT: %0 = nn.gather %x, %i axis = 2 : (tensor<2x3x4x5xf32, #nhwc>, tensor<7xi64>) -> tensor<2x3x7x5xf32, #nhwc>
  %0 = nn.gather %x, %i axis = 2 : (tensor<2x3x4x5xf32, #nhwc>, tensor<7xi64>) -> tensor<2x3x7x5xf32, #nhwc>
  func.return
}

// CHECK-LABEL: func.func @arg_max
func.func @arg_max(%x: tensor<2x3x4xf32>) {
  // CHECK-NEXT: %0 = nn.arg_max %x : (tensor<2x3x4xf32>) -> tensor<1x3x4xi64>
  %0 = nn.arg_max %x axis = 0 keepdims = true : (tensor<2x3x4xf32>) -> tensor<1x3x4xi64>
  // CHECK-NEXT: %1 = nn.arg_min %x axis = 1 keepdims = false select_last = true : (tensor<2x3x4xf32>) -> tensor<2x4xi64>
  %1 = nn.arg_min %x axis = 1 keepdims = false select_last = true : (tensor<2x3x4xf32>) -> tensor<2x4xi64>
  func.return
}
