// RUN: layout-opt %s --split-input-file --verify-diagnostics

func.func @negative_parameter(%x: tensor<2x3x4x4xf32>, %p: tensor<3xf32>, %q: tensor<2xf32>) {
  // expected-error@+1 {{shape mismatch between mean and the channels of 2x3x4x4: 2 != 3}}
  %0 = nn.batch_norm %x, %p, %p, %q, %p : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<3xf32>) -> tensor<2x3x4x4xf32>
  func.return
}

// -----

func.func @negative_batch_norm_rank(%x: tensor<3xf32>, %p: tensor<3xf32>) {
  // expected-error@+1 {{nn.batch_norm needs a channel dim 1, but operand 0 is 3}}
  %0 = nn.batch_norm %x, %p, %p, %p, %p : tensor<3xf32>
  func.return
}

// -----

func.func @negative_lrn_rank(%x: tensor<3xf32>) {
  // expected-error@+1 {{nn.lrn needs a channel dim 1, but operand 0 is 3}}
  %0 = nn.lrn %x size = 3 : tensor<3xf32>
  func.return
}

// -----

func.func @negative_lrn_size(%x: tensor<2x3x4x4xf32>) {
  // expected-error@+1 {{size = 0 is below 1}}
  %0 = nn.lrn %x size = 0 : tensor<2x3x4x4xf32>
  func.return
}

// -----

#undef = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>
func.func @negative_lrn_pads(%x: tensor<2x17x4x4xf32, #undef>) {
  // expected-error@+1 {{nn.lrn reduces over dim 1 of operand 0, pads included, so they must hold 0}}
  %0 = nn.lrn %x size = 3 : tensor<2x17x4x4xf32, #undef>
  func.return
}

// -----

func.func @negative_axis(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{axis = 2 is no dim of 2x3: not in 0..1}}
  %0 = nn.softmax %x axis = 2 : tensor<2x3xf32>
  func.return
}

// -----

#nc = #layout.format<(n, c) : [n, c, c:8], pad = zero>
func.func @negative_softmax_pads(%x: tensor<2x17xf32, #nc>) {
  // expected-error@+1 {{nn.softmax reduces over dim 1 of operand 0, pads included, so they must hold -inf}}
  %0 = nn.softmax %x : tensor<2x17xf32, #nc>
  func.return
}
