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

// -----

func.func @negative_layer_norm_axes(%x: tensor<2x5x8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{axes = [2, 1] are not ascending and distinct}}
  %0 = nn.layer_norm %x, %s axes = [2, 1] : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
  func.return
}

// -----

func.func @negative_layer_norm_axis(%x: tensor<2x5x8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{axis = 3 is no dim of 2x5x8: not in 0..2}}
  %0 = nn.rms_norm %x, %s axes = [3] : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
  func.return
}

// -----

func.func @negative_layer_norm_scale(%x: tensor<2x1x8xf32>, %s: tensor<5x8xf32>) {
  // expected-error@+1 {{scale of shape 5x8 does not broadcast to 2x1x8}}
  %0 = nn.layer_norm %x, %s : (tensor<2x1x8xf32>, tensor<5x8xf32>) -> tensor<2x1x8xf32>
  func.return
}

// -----

func.func @negative_layer_norm_bias(%x: tensor<2x5x8xf32>, %s: tensor<8xf32>, %b: tensor<3x2x5x8xf32>) {
  // expected-error@+1 {{bias of shape 3x2x5x8 does not broadcast to 2x5x8}}
  %0 = nn.layer_norm %x, %s, %b : (tensor<2x5x8xf32>, tensor<8xf32>, tensor<3x2x5x8xf32>) -> tensor<2x5x8xf32>
  func.return
}

// -----

func.func @negative_layer_norm_element(%x: tensor<2x5xi32>, %s: tensor<5xi32>) {
  // expected-error@+1 {{element type i32 of operand 0 is not supported by nn.layer_norm, expected one of f16, bf16, f32, f64}}
  %0 = nn.layer_norm %x, %s : (tensor<2x5xi32>, tensor<5xi32>) -> tensor<2x5xi32>
  func.return
}

// -----

#nhwc = #layout.format<(n, c, h, w) : [n, h, w, c]>
#nchw = #layout.format<(n, c, h, w) : [n, c, h, w]>
func.func @negative_layer_norm_formats(%x: tensor<2x5x4x4xf32, #nhwc>, %s: tensor<4xf32>) {
  // expected-error@+1 {{nn.layer_norm needs one format, but operand 0 has (n, c, h, w) : [n, h, w, c]}}
  %0 = nn.layer_norm %x, %s : (tensor<2x5x4x4xf32, #nhwc>, tensor<4xf32>) -> tensor<2x5x4x4xf32, #nchw>
  func.return
}

// -----

func.func @negative_groups(%x: tensor<2x6x4xf32>, %p: tensor<6xf32>) {
  // expected-error@+1 {{groups = 4 does not divide the 6 channels of 2x6x4}}
  %0 = nn.group_norm %x, %p, %p groups = 4 : (tensor<2x6x4xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x4xf32>
  func.return
}

// -----

func.func @negative_group_norm_bias(%x: tensor<2x6x4xf32>, %p: tensor<6xf32>, %q: tensor<3xf32>) {
  // expected-error@+1 {{shape mismatch between bias and the channels of 2x6x4: 3 != 6}}
  %0 = nn.group_norm %x, %p, %q groups = 3 : (tensor<2x6x4xf32>, tensor<6xf32>, tensor<3xf32>) -> tensor<2x6x4xf32>
  func.return
}

// -----

func.func @negative_group_norm_rank(%x: tensor<6xf32>) {
  // expected-error@+1 {{nn.group_norm needs a channel dim 1, but operand 0 is 6}}
  %0 = nn.group_norm %x, %x, %x groups = 3 : tensor<6xf32>
  func.return
}
