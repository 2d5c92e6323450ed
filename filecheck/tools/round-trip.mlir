// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

// CHECK:      builtin.module {
// CHECK-NEXT:   func.func @sum(%a: f32, %b: f32) -> f32 {
// CHECK-NEXT:     %c = arith.addf %a, %b : f32
// CHECK-NEXT:     func.return %c : f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
func.func @sum(%a: f32, %b: f32) -> f32 {
  %c = arith.addf %a, %b : f32
  func.return %c : f32
}
