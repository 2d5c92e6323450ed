// layout-opt -p convert-layout-to-kernel
func.func @f(%x : tensor<?x3xf32, #layout.format<(a, b) : [a, b, a:1000003]>>) -> tensor<?x3xf32, #layout.format<(a, b) : [a, b, a:999983]>> {
  %y = layout.reorder %x : tensor<?x3xf32, #layout.format<(a, b) : [a, b, a:1000003]>> -> tensor<?x3xf32, #layout.format<(a, b) : [a, b, a:999983]>>
  func.return %y : tensor<?x3xf32, #layout.format<(a, b) : [a, b, a:999983]>>
}
