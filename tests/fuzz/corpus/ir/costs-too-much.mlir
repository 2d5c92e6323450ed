// layout-opt -p layout-propagate
func.func @f(%x : tensor<1152921504606846976xf32, #layout.any>) -> tensor<1152921504606846976xf32> {
  %1 = nn.relu %x : tensor<1152921504606846976xf32, #layout.any>
  %2 = layout.reorder %1 : tensor<1152921504606846976xf32, #layout.any> -> tensor<1152921504606846976xf32>
  func.return %2 : tensor<1152921504606846976xf32>
}
