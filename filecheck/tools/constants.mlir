// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s
// RUN: layout-opt %s --elide-constants=2 | filecheck %s --check-prefix=ELIDED
// RUN: layout-opt %s --elide-constants=2 | layout-opt | filecheck %s --check-prefix=AGAIN
// RUN: layout-opt %s -t 'mlir{elide-constants=2}' | filecheck %s --check-prefix=ELIDED

// ELIDED:     // 1 constant is elided: this program can be read and transformed, but not run.
// ELIDED-NOT: elided:
// AGAIN:      // 1 constant is elided: this program can be read and transformed, but not run.

// CHECK-LABEL: func.func @constants
func.func @constants() {
  // CHECK-NEXT: %list = nn.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>
  // ELIDED:     %list = nn.constant dense_resource<__elided__> : tensor<3xf32>
  // AGAIN:      %list = nn.constant dense_resource<__elided__> : tensor<3xf32>
  %list = nn.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  // One element says it all.
  // CHECK-NEXT:  %splat = nn.constant dense<5.000000e-01> : tensor<1000000xf32>
  // ELIDED-NEXT: %splat = nn.constant dense<5.000000e-01> : tensor<1000000xf32>
  // AGAIN-NEXT:  %splat = nn.constant dense<5.000000e-01> : tensor<1000000xf32>
  %splat = nn.constant dense<0.5> : tensor<1000000xf32>
  // Not a number: bits are kept.
  // CHECK-NEXT: %nan = nn.constant dense<"0x0000C07F"> : tensor<2xf32>
  %nan = nn.constant dense<"0x0000C07F"> : tensor<2xf32>
  // CHECK-NEXT: %infinity = nn.constant dense<"0x0000807F0000803F"> : tensor<2xf32>
  %infinity = nn.constant dense<"0x0000807F0000803F"> : tensor<2xf32>
  // Equal numbers, but other bits.
  // CHECK-NEXT: %zeros = nn.constant dense<"0x0000000000000080"> : tensor<2xf32>
  %zeros = nn.constant dense<[0.0, -0.0]> : tensor<2xf32>
  // An integer in a float type: a list would print it as the bits of the float.
  // CHECK-NEXT: %whole = nn.constant dense<"0xA379EB4C"> : tensor<2xf32>
  %whole = nn.constant dense<123456789.0> : tensor<2xf32>
  // CHECK-NEXT: %none = nn.constant dense<> : tensor<0x4xf32>
  %none = nn.constant dense<> : tensor<0x4xf32>
  func.return
}
