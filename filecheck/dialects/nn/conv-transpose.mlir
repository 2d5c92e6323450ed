// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

#nhwc = #layout.format<(n, c, h, w) : [n, h, w, c]>

// CHECK-LABEL: func.func @conv_transpose
func.func @conv_transpose(%x: tensor<2x6x5x4xf32>, %w: tensor<6x3x3x3xf32>, %b: tensor<3xf32>) {
  // CHECK-NEXT: %0 = nn.conv_transpose %x, %w : (tensor<2x6x5x4xf32>, tensor<6x3x3x3xf32>) -> tensor<2x3x7x6xf32>
  %0 = nn.conv_transpose %x, %w strides = [1, 1] group = 1 : (tensor<2x6x5x4xf32>, tensor<6x3x3x3xf32>) -> tensor<2x3x7x6xf32>
  // CHECK-NEXT: %1 = nn.conv_transpose %x, %w, %b strides = [2, 2] pads = [1, 1, 1, 1] output_padding = [1, 1] : (tensor<2x6x5x4xf32>, tensor<6x3x3x3xf32>, tensor<3xf32>) -> tensor<2x3x10x8xf32>
  %1 = nn.conv_transpose %x, %w, %b strides = [2, 2] pads = [1, 1, 1, 1] output_padding = [1, 1] : (tensor<2x6x5x4xf32>, tensor<6x3x3x3xf32>, tensor<3xf32>) -> tensor<2x3x10x8xf32>
  // CHECK-NEXT: %2 = nn.conv_transpose %x, %w dilations = [2, 1] group = 2 : (tensor<2x6x5x4xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x9x6xf32>
  %2 = nn.conv_transpose %x, %w dilations = [2, 1] group = 2 : (tensor<2x6x5x4xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x9x6xf32>
  func.return
}

// CHECK-LABEL: func.func @channels_last
func.func @channels_last(%x: tensor<2x6x5x4xf32, #nhwc>, %w: tensor<6x3x3x3xf32>) {
  // CHECK-NEXT: nn.conv_transpose %x, %w : (tensor<2x6x5x4xf32, #nhwc>, tensor<6x3x3x3xf32>) -> tensor<2x3x7x6xf32, #nhwc>
  %0 = nn.conv_transpose %x, %w : (tensor<2x6x5x4xf32, #nhwc>, tensor<6x3x3x3xf32>) -> tensor<2x3x7x6xf32, #nhwc>
  func.return
}
