// RUN: layout-opt %s -t 'mlir{for-irdl=true}' | filecheck %s
// RUN: layout-opt %s -t 'mlir{for-irdl=true}' | layout-opt | filecheck %s --check-prefix=BACK

// CHECK: #nchw = #layout.format<"(n, c, h, w) : [n, c, h, w]">
// CHECK-NEXT: #nhwc = #layout.format<"(n, c, h, w) : [n, h, w, c]">
// BACK: #nchw = #layout.format<(n, c, h, w) : [n, c, h, w]>
func.func @f(%x: tensor<2x3x4x5xf32, #layout.tag<nchw>>) -> tensor<2x3x4x5xf32, #layout.tag<nhwc>> {
  // CHECK: %a = "nn.softmax"(%x) {axis = 1 : i64} : (tensor<2x3x4x5xf32, #nchw>) -> tensor<2x3x4x5xf32, #nchw>
  // BACK: %a = nn.softmax %x axis = 1 : tensor<2x3x4x5xf32, #nchw>
  %a = nn.softmax %x axis = 1 : tensor<2x3x4x5xf32, #layout.tag<nchw>>
  // CHECK: %y = "layout.reorder"(%a)
  %y = layout.reorder %a : tensor<2x3x4x5xf32, #layout.tag<nchw>> -> tensor<2x3x4x5xf32, #layout.tag<nhwc>>
  func.return %y : tensor<2x3x4x5xf32, #layout.tag<nhwc>>
}
