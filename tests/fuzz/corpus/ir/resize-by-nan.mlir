// layout-opt -p layout-optimize
func.func @f(%x : tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %y = nn.resize %x scales = [nan, 1.0, 1.0, 1.0] : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}
