// layout-opt --allow-unregistered-dialect -p layout-propagate
func.func @f(%x : tensor<4x4xf32>, %z : tensor<?x4xindex>) -> tensor<4x4xf32> {
  %o = "my.op"(%z) : (tensor<?x4xindex>) -> tensor<4x4xcomplex<f32>>
  %1 = layout.reorder %x : tensor<4x4xf32> -> tensor<4x4xf32, #layout.any>
  %2 = layout.reorder %1 : tensor<4x4xf32, #layout.any> -> tensor<4x4xf32>
  func.return %2 : tensor<4x4xf32>
}
