// layout-opt -p convert-layout-to-kernel
func.func @f(%x : tensor<1099511627776x3xf32, #layout.format<(a, b) : [a, b]>>) -> tensor<1099511627776x3xf32, #layout.format<(a, b) : [a, b], lo = [1, 1]>> {
  %y = layout.reorder %x : tensor<1099511627776x3xf32, #layout.format<(a, b) : [a, b]>> -> tensor<1099511627776x3xf32, #layout.format<(a, b) : [a, b], lo = [1, 1]>>
  func.return %y : tensor<1099511627776x3xf32, #layout.format<(a, b) : [a, b], lo = [1, 1]>>
}
