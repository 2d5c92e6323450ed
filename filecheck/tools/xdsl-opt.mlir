// REQUIRES: xdsl-opt
// The stock tool knows our dialects and passes once the package is installed, and reads what layout-opt prints.
// RUN: layout-opt %s | xdsl-opt | filecheck %s
// RUN: xdsl-opt %s -p layout-strip | filecheck %s --check-prefix=STRIP
// Its users see remarks and errors as text. (The shell of the text tests has no `not`.)
// RUN: xdsl-opt %s -p 'layout-explain{target=nope}' > %t 2>&1 || true
// RUN: filecheck %s --check-prefix=ERROR < %t

// CHECK:      %b = layout.reorder %a
// CHECK-SAME: #layout.format<(n, c) : [n, c, c:8], pad = zero>
// ERROR-NOT: Traceback
// ERROR: error: unknown target 'nope'
// STRIP-NOT: layout
// STRIP: func.func @reorder(%a: tensor<2x8xf32>) -> tensor<2x8xf32>
// STRIP-NOT: layout
func.func @reorder(%a: tensor<2x8xf32>) -> tensor<2x8xf32, #layout.tag<nC8c>> {
  %b = layout.reorder %a : tensor<2x8xf32> -> tensor<2x8xf32, #layout.tag<nC8c>>
  func.return %b : tensor<2x8xf32, #layout.tag<nC8c>>
}
