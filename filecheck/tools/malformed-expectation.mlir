// RUN: not layout-opt %s --verify-diagnostics 2>&1 | filecheck %s

// CHECK: malformed-expectation.mlir:[[#]]:3: error: malformed expectation

func.func @right() {
  // expected-error {single braces would never match}
  func.return
}
