// RUN: layout-opt %s --split-input-file --verify-diagnostics

func.func @negative_broadcast(%x: tensor<2x3xf32>, %y: tensor<2xf32>) {
  // expected-error@+1 {{shapes 2x3 and 2 do not broadcast: 3 != 2 in dim 1}}
  %0 = nn.add %x, %y : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @negative_result(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{shape mismatch between the inferred result and the declared one: 2x3 != 3x2}}
  %0 = nn.exp %x : (tensor<2x3xf32>) -> tensor<3x2xf32>
  func.return
}

// -----

func.func @negative_element(%x: tensor<2x3xf32>, %y: tensor<2x3xi32>) {
  // expected-error@+1 {{element type mismatch between operand 0 and operand 1: f32 != i32}}
  %0 = nn.add %x, %y : (tensor<2x3xf32>, tensor<2x3xi32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @negative_result_element(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{element type mismatch between operand 0 and the result: f32 != f64}}
  %0 = nn.exp %x : (tensor<2x3xf32>) -> tensor<2x3xf64>
  func.return
}

// -----

func.func @negative_unsupported_element(%x: tensor<2x3xi4>) {
  // expected-error@+1 {{element type i4 of operand 0 is not supported by nn.add, expected one of f16, bf16, f32, f64, i8, ui8, i16, ui16, i32, ui32, i64, ui64}}
  %0 = nn.add %x, %x : tensor<2x3xi4>
  func.return
}

// -----

#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
#nhwc = #layout.format<(n, c, h, w) : [n, h, w, c]>
func.func @negative_mixed_formats(%x: tensor<1x16x8x8xf32, #nChw8c>, %y: tensor<1x16x8x8xf32, #nhwc>) {
  // expected-error@+1 {{nn.add needs one format, but operand 1 has (n, c, h, w) : [n, h, w, c] and the result has (n, c, h, w) : [n, c, h, w, c:8], pad = zero; insert a layout.reorder}}
  %0 = nn.add %x, %y : (tensor<1x16x8x8xf32, #nChw8c>, tensor<1x16x8x8xf32, #nhwc>) -> tensor<1x16x8x8xf32, #nChw8c>
  func.return
}

// -----

#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
func.func @negative_claim(%x: tensor<1x17x8x8xf32, #nChw8c>) {
  // expected-error@+1 {{the result claims (n, c, h, w) : [n, c, h, w, c:8], pad = zero, but nn.exp leaves 1 in its pads; declare pad = undef and use layout.fill_pads}}
  %0 = nn.exp %x : tensor<1x17x8x8xf32, #nChw8c>
  func.return
}

// -----

#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
func.func @negative_claim_of_nan(%x: tensor<1x17x8x8xf32, #nChw8c>) {
  // expected-error@+1 {{but nn.div leaves values that are not known in its pads}}
  %0 = nn.div %x, %x : tensor<1x17x8x8xf32, #nChw8c>
  func.return
}

// -----

#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
func.func @negative_claim_of_broadcast(%x: tensor<1x17x8x8xf32, #nChw8c>, %y: tensor<1xf32>) {
  // expected-error@+1 {{but nn.mul leaves values that are not known in its pads}}
  %0 = nn.mul %x, %y : (tensor<1x17x8x8xf32, #nChw8c>, tensor<1xf32>) -> tensor<1x17x8x8xf32, #nChw8c>
  func.return
}

// -----

#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
#undef = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>
func.func @negative_claim_of_undef(%x: tensor<1x17x8x8xf32, #undef>) {
  // expected-error@+1 {{but nn.abs leaves values that are not known in its pads}}
  %0 = nn.abs %x : (tensor<1x17x8x8xf32, #undef>) -> tensor<1x17x8x8xf32, #nChw8c>
  func.return
}

// -----

func.func @negative_not_a_tensor(%x: f32) {
  // expected-error@+1 {{operand 'x' at position 0 does not verify: f32 should be of base attribute tensor}}
  %0 = nn.abs %x : f32
  func.return
}

// -----

func.func @negative_word(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{approximate = cosh is unknown, expected one of none, tanh}}
  %0 = nn.gelu %x approximate = cosh : tensor<2x3xf32>
  func.return
}

// -----

func.func @negative_word_generic(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{approximate = cosh is unknown, expected one of none, tanh}}
  %0 = "nn.gelu"(%x) <{approximate = "cosh"}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @negative_no_number(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{literal expected}}
  %0 = nn.elu %x alpha = big : tensor<2x3xf32>
  func.return
}

// -----

func.func @negative_attribute(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{nn.relu has no attribute alpha, its attributes: none}}
  %0 = nn.relu %x alpha = 0.1 : tensor<2x3xf32>
  func.return
}

// -----

func.func @negative_unsigned(%x: tensor<2x3xui8>) {
  // expected-error@+1 {{element type ui8 of operand 0 is not supported by nn.relu, expected one of f16, bf16, f32, f64, i8, i16, i32, i64}}
  %0 = nn.relu %x : tensor<2x3xui8>
  func.return
}

// -----

func.func @negative_prelu_slope(%x: tensor<1x3xf32>, %slope: tensor<2x3xf32>) {
  // expected-error@+1 {{the slope of shape 2x3 does not broadcast to 1x3}}
  %0 = nn.prelu %x, %slope : (tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<1x3xf32>
  func.return
}

// -----

func.func @negative_comparison_of_two_types(%x: tensor<2xf32>, %i: tensor<2xi32>) {
  // expected-error@+1 {{element type mismatch between operand 0 and operand 1: f32 != i32}}
  %0 = nn.less %x, %i : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xi1>
  func.return
}

// -----

func.func @negative_result_of_a_comparison(%x: tensor<2xf32>) {
  // expected-error@+1 {{the result of nn.equal has element type f32, expected i1}}
  %0 = nn.equal %x, %x : tensor<2xf32>
  func.return
}

// -----

func.func @negative_order_of_truth_values(%x: tensor<2xi1>) {
  // expected-error@+1 {{element type i1 of operand 0 is not supported by nn.greater}}
  %0 = nn.greater %x, %x : tensor<2xi1>
  func.return
}

// -----

func.func @negative_and_of_numbers(%x: tensor<2xi32>) {
  // expected-error@+1 {{element type i32 of operand 0 is not supported by nn.and, expected one of i1}}
  %0 = nn.and %x, %x : tensor<2xi32>
  func.return
}

// -----

func.func @negative_condition(%x: tensor<2xf32>) {
  // expected-error@+1 {{operand 0 of nn.where has element type f32, expected i1}}
  %0 = nn.where %x, %x, %x : tensor<2xf32>
  func.return
}

// -----

func.func @negative_where_of_two_types(%c: tensor<2xi1>, %x: tensor<2xf32>, %y: tensor<2xf64>) {
  // expected-error@+1 {{element type mismatch between operand 1 and operand 2: f32 != f64}}
  %0 = nn.where %c, %x, %y : (tensor<2xi1>, tensor<2xf32>, tensor<2xf64>) -> tensor<2xf32>
  func.return
}

// -----

#nhwc = #layout.format<(n, c, h, w) : [n, h, w, c]>
#nchw = #layout.format<(n, c, h, w) : [n, c, h, w]>
func.func @negative_formats_of_where(%c: tensor<2x3x4x4xi1, #nhwc>, %x: tensor<2x3x4x4xf32, #nchw>) {
  // expected-error@+1 {{nn.where needs one format, but operand 0 has (n, c, h, w) : [n, h, w, c]}}
  %0 = nn.where %c, %x, %x : (tensor<2x3x4x4xi1, #nhwc>, tensor<2x3x4x4xf32, #nchw>, tensor<2x3x4x4xf32, #nchw>) -> tensor<2x3x4x4xf32, #nchw>
  func.return
}
