// layout-opt -p layout-optimize --validate=execute
func.func @f(%x : tensor<2x4xf32>) -> tensor<7xf32> {
  %y = tensor.collapse_shape %x [[0, 1]] : tensor<2x4xf32> into tensor<7xf32>
  func.return %y : tensor<7xf32>
}
