// RUN: not layout-opt %s --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// Missing, unexpected, misplaced and unreadable expectations all fail, each where it stands.

// CHECK: expectations.mlir:[[#]]:1: error: unexpected error: unknown operation 'layout.nothing'
// CHECK: expectations.mlir:[[#]]:1: error: unexpected error: unknown operation 'layout.elsewhere'
// CHECK: expectations.mlir:[[#]]:1: error: unexpected error: unknown operation 'layout.other'

layout.nothing

// -----

// expected-error@+1 {{unknown operation}}

layout.elsewhere

// -----

// expected-error@+1 {{another text}}
layout.other

// -----

func.func @right() {
  // expected-remark@+1 {{nobody says this}}
  func.return
}

// CHECK: expectations.mlir:[[#]]:4: error: expected error "unknown operation" was not produced
// CHECK: expectations.mlir:[[#]]:4: error: expected error "another text" was not produced
// CHECK: expectations.mlir:[[#]]:6: error: expected remark "nobody says this" was not produced
