// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | filecheck %s --check-prefix=GENERIC

// Formats are named by their tag, in the order of first use; dim names tell the equal formats of an activation
// and a weight apart; another pad policy shows in the name; what has no tag is numbered.
// CHECK:      #nchw = #layout.format<(n, c, h, w) : [n, c, h, w]>
// CHECK-NEXT: #oihw = #layout.format<(o, i, h, w) : [o, i, h, w]>
// CHECK-NEXT: #nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
// CHECK-NEXT: #nChw8c_undef = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>
// CHECK-NEXT: #nChw8c_padm1 = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = -1>
// CHECK-NEXT: #nChw8c_pad0_1 = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = 0.1>
// CHECK-NEXT: #fmt0 = #layout.format<(n, c, h, w) : [n, c, h*20, w]>
// CHECK-NEXT: #fmt1 = #layout.format<(n, c, h, w) : [n, c, h*24, w]>
// CHECK-NEXT: builtin.module {

// GENERIC: "func.func"() <{sym_name = "names", function_type = (tensor<2x8x5x4xf32, #nchw>

#mine = #layout.format<(n, c, h, w) : [n, c, h, w]>

// CHECK-NEXT: func.func @names(%a: tensor<2x8x5x4xf32, #nchw>, %w: tensor<2x8x5x4xf32, #oihw>) {
// CHECK-NEXT:   %b = layout.reorder %a : tensor<2x8x5x4xf32, #nchw> -> tensor<2x8x5x4xf32, #nChw8c>
// CHECK-NEXT:   %c = layout.reorder %a : tensor<2x8x5x4xf32, #nchw> -> tensor<2x8x5x4xf32, #nChw8c_undef>
// CHECK-NEXT:   %d = layout.reorder %a : tensor<2x8x5x4xf32, #nchw> -> tensor<2x8x5x4xf32, #nChw8c_padm1>
// CHECK-NEXT:   %e = layout.reorder %a : tensor<2x8x5x4xf32, #nchw> -> tensor<2x8x5x4xf32, #nChw8c_pad0_1>
// CHECK-NEXT:   %f = layout.reorder %a : tensor<2x8x5x4xf32, #nchw> -> tensor<2x8x5x4xf32, #fmt0>
// CHECK-NEXT:   %g = layout.reorder %a : tensor<2x8x5x4xf32, #nchw> -> tensor<2x8x5x4xf32, #fmt1>
// CHECK-NEXT:   %h = layout.reorder %a : tensor<2x8x5x4xf32, #nchw> -> tensor<2x8x5x4xf32, #layout.any>
func.func @names(%a: tensor<2x8x5x4xf32, #mine>, %w: tensor<2x8x5x4xf32, #layout.tag<oihw>>) {
  %b = layout.reorder %a : tensor<2x8x5x4xf32, #mine> -> tensor<2x8x5x4xf32, #layout.tag<nChw8c>>
  %c = layout.reorder %a : tensor<2x8x5x4xf32, #mine> -> tensor<2x8x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>>
  %d = layout.reorder %a : tensor<2x8x5x4xf32, #mine> -> tensor<2x8x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = -1>>
  %e = layout.reorder %a : tensor<2x8x5x4xf32, #mine> -> tensor<2x8x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = 0.1>>
  %f = layout.reorder %a : tensor<2x8x5x4xf32, #mine> -> tensor<2x8x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h*20, w]>>
  %g = layout.reorder %a : tensor<2x8x5x4xf32, #mine> -> tensor<2x8x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h*24, w]>>
  %h = layout.reorder %a : tensor<2x8x5x4xf32, #mine> -> tensor<2x8x5x4xf32, #layout.any>
  func.return
}
