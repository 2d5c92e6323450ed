// layout-opt -p layout-optimize
func.func @f(%x : tensor<1x2x4x4xf32>, %w : tensor<2x2x1x1xf32>, %o : tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %y = linalg.conv_2d_nchw_fchw {strides = dense<1> : tensor<8xi64>, dilations = dense<1> : tensor<2xi64>} ins(%x, %w : tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) outs(%o : tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}
