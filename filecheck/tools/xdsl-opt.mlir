// REQUIRES: xdsl-opt
// The stock tool knows our dialects and passes once the package is installed, and reads what layout-opt prints.
// RUN: layout-opt %s | xdsl-opt | filecheck %s
// RUN: xdsl-opt %s -p layout-strip | filecheck %s --check-prefix=STRIP

// CHECK:      %b = layout.reorder %a
// CHECK-SAME: #layout.format<(n, c) : [n, c, c:8], pad = zero>
// STRIP-NOT: layout
// STRIP: func.func @reorder(%a: tensor<2x8xf32>) -> tensor<2x8xf32>
// STRIP-NOT: layout
func.func @reorder(%a: tensor<2x8xf32>) -> tensor<2x8xf32, #layout.tag<nC8c>> {
  %b = layout.reorder %a : tensor<2x8xf32> -> tensor<2x8xf32, #layout.tag<nC8c>>
  func.return %b : tensor<2x8xf32, #layout.tag<nC8c>>
}
