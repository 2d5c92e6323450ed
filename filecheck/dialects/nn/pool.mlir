// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
#undef = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>

// CHECK-LABEL: func.func @max_pool
func.func @max_pool(%x: tensor<1x3x8x8xf32>, %y: tensor<1x3x8xui8>) {
  // CHECK-NEXT: %0 = nn.max_pool %x kernel = [3, 2] strides = [2, 2] pads = [1, 0, 1, 0] dilations = [1, 2] ceil_mode = true : (tensor<1x3x8x8xf32>) -> tensor<1x3x5x4xf32>
  %0 = nn.max_pool %x kernel = [3, 2] strides = [2, 2] pads = [1, 0, 1, 0] dilations = [1, 2] ceil_mode = true : (tensor<1x3x8x8xf32>) -> tensor<1x3x5x4xf32>
  // CHECK-NEXT: %1 = nn.max_pool %y kernel = [1] : tensor<1x3x8xui8>
  %1 = nn.max_pool %y kernel = [1] strides = [1] pads = [0, 0] dilations = [1] ceil_mode = false : tensor<1x3x8xui8>
  func.return
}

// CHECK-LABEL: func.func @avg_pool
func.func @avg_pool(%x: tensor<1x3x8x8xf32>) {
  // CHECK-NEXT: %0 = nn.avg_pool %x kernel = [3, 3] pads = [1, 1, 1, 1] count_include_pad = true : tensor<1x3x8x8xf32>
  %0 = nn.avg_pool %x kernel = [3, 3] pads = [1, 1, 1, 1] count_include_pad = true : tensor<1x3x8x8xf32>
  func.return
}

// CHECK-LABEL: func.func @global
func.func @global(%x: tensor<1x3x8x8x2xf32>) {
  // CHECK-NEXT: %0 = nn.global_avg_pool %x : (tensor<1x3x8x8x2xf32>) -> tensor<1x3x1x1x1xf32>
  %0 = nn.global_avg_pool %x : (tensor<1x3x8x8x2xf32>) -> tensor<1x3x1x1x1xf32>
  // CHECK-NEXT: %1 = nn.global_max_pool %x : (tensor<1x3x8x8x2xf32>) -> tensor<1x3x1x1x1xf32>
  %1 = nn.global_max_pool %x : (tensor<1x3x8x8x2xf32>) -> tensor<1x3x1x1x1xf32>
  func.return
}

// CHECK-LABEL: func.func @pads_are_not_read
func.func @pads_are_not_read(%x: tensor<1x17x8x8xf32, #undef>) {
  // CHECK-NEXT: %0 = nn.max_pool %x kernel = [2, 2] : (tensor<1x17x8x8xf32, #nChw8c_undef>) -> tensor<1x17x7x7xf32, #nChw8c>
  %0 = nn.max_pool %x kernel = [2, 2] : (tensor<1x17x8x8xf32, #undef>) -> tensor<1x17x7x7xf32, #nChw8c>
  func.return
}
