// layout-opt -p layout-optimize --validate=strip
func.func @f(%x : tensor<4x4xf32>) {
  %a = layout.reorder %x : tensor<4x4xf32> -> tensor<4x4xi8>
  func.return
}
