// RUN: not layout-opt %s 2>&1 | filecheck %s
// RUN: not layout-opt %s 2>&1 | filecheck %s --check-prefix=QUIET

// Every wrong op is reported, at its name, with its line and a caret. Nothing is printed as a result.
// QUIET-NOT: Traceback
// QUIET-NOT: builtin.module

// CHECK:      diagnostics.mlir:[[#]]:8: error: 'layout.reorder' op
// CHECK-NEXT:   %b = layout.reorder %a : tensor<2x8xf32> -> tensor<2x9xf32>
// CHECK-NEXT:        ^
// CHECK-NEXT: diagnostics.mlir:[[#]]:8: error: 'arith.addf' op
// CHECK-NEXT:   %d = "arith.addf"(%c, %x)
// CHECK-NEXT:        ^
// CHECK-NEXT: diagnostics.mlir:[[#]]:8: error: 'arith.mulf' op operand #0 does not dominate this use: %f is defined later
// CHECK-NEXT:   %e = arith.mulf %f, %f : f32
// CHECK-NEXT:        ^

func.func @wrong(%a: tensor<2x8xf32>, %c: f32, %x: f64) {
  %b = layout.reorder %a : tensor<2x8xf32> -> tensor<2x9xf32>
  %d = "arith.addf"(%c, %x) : (f32, f64) -> f32
  %e = arith.mulf %f, %f : f32
  %f = arith.addf %c, %c : f32
  func.return
}
