// RUN: layout-opt %s --split-input-file --verify-diagnostics

// Errors of the parser.

// expected-error@+1 {{expected an operation}}
}

// -----

// expected-error@below {{unknown operation 'layout.nothing'}}
layout.nothing

// -----

// expected-error@+1 {{pad policy 'one' is none of undef, zero, zp or a number}}
func.func @attribute(%a: tensor<2x8xf32, #layout.format<(n, c) : [n, c], pad = one>>) {
  func.return
}

// -----

// expected-error@+1 {{unexpected}}
func.func @tag(%a: tensor<2x8xf32, #layout.tag<n-c>>) {
  func.return
}

// -----

func.func @unfinished(%a: f32) {
  func.return
// expected-error@+2 {{unexpected token in block definition, found the end of the file}}

// -----

// expected-error@+1 {{unknown operation 'layout.reoder': did you mean 'layout.reorder'}}
layout.reoder

// -----

// expected-error@+1 {{unknown operation 'stranger.op': there is no dialect 'stranger'}}
"stranger.op"() : () -> ()

// -----

// Errors of the verifier: all of them, each at its own op.

func.func @verifier(%a: tensor<2x8xf32>, %c: f32) {
  // expected-error@below {{'layout.reorder' op}}
  %b = layout.reorder %a : tensor<2x8xf32> -> tensor<2x9xf32>
  %d = arith.mulf %e, %e : f32 // expected-error-re {{operand #{{[01]}} does not dominate this use}}
  %e = arith.addf %c, %c : f32
  func.return
}

// -----

func.func @no_terminator() {
  // expected-error@+1 {{'arith.constant' op ends the body of 'func.func' and is no terminator}}
  %a = arith.constant 1.0 : f32
}
