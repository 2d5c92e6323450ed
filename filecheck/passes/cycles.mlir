// RUN: layout-opt %s --split-input-file --verify-diagnostics -p 'layout-propagate{target=blocked8}'

// The body of a module has no order, so its ops may use each other's results; a cycle of values has no layouts.

// expected-error @+1 {{nn.relu depends on its own result: no layout can be chosen in a cycle}}
%a = nn.relu %a : tensor<8xf32, #layout.any>

// -----

// expected-error @+1 {{nn.relu depends on its own result}}
%a = nn.relu %c : tensor<8xf32, #layout.any>
%b = nn.exp %a : tensor<8xf32, #layout.any>
%c = nn.sqrt %b : tensor<8xf32, #layout.any>
%d = nn.sqrt %c : tensor<8xf32, #layout.any>

// -----

// Inside a function there is an order, and the verifier keeps it.
func.func @f() {
  // expected-error @+1 {{operand #0 does not dominate this use: %a is defined later}}
  %a = nn.relu %a : tensor<8xf32, #layout.any>
  func.return
}

// -----

// A later result is no cycle.
%b = nn.relu %a : tensor<8xf32, #layout.any>
%a = nn.constant dense<1.0> : tensor<8xf32, #layout.any>
