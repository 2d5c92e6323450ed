// layout-opt -p convert-layout-to-kernel
func.func @f(%x : tensor<?x3xf32, #layout.format<(a, b) : [a, b, a:2147483647]>>) -> tensor<?x3xf32, #layout.format<(a, b) : [a, b, a:6]>> {
  %y = layout.reorder %x : tensor<?x3xf32, #layout.format<(a, b) : [a, b, a:2147483647]>> -> tensor<?x3xf32, #layout.format<(a, b) : [a, b, a:6]>>
  func.return %y : tensor<?x3xf32, #layout.format<(a, b) : [a, b, a:6]>>
}
