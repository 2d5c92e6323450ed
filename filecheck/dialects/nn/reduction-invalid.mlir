// RUN: layout-opt %s --split-input-file --verify-diagnostics

func.func @negative_axis(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{axis = 2 is no dim of 2x3: not in 0..1}}
  %0 = nn.reduce_sum %x axes = [0, 2] : (tensor<2x3xf32>) -> tensor<1x1xf32>
  func.return
}

// -----

func.func @negative_order(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{axes = [1, 0] are not ascending and distinct}}
  %0 = nn.reduce_sum %x axes = [1, 0] : (tensor<2x3xf32>) -> tensor<1x1xf32>
  func.return
}

// -----

func.func @negative_keepdims(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{shape mismatch between the inferred result and the declared one: 2 != 2x1}}
  %0 = nn.reduce_sum %x axes = [1] keepdims = false : (tensor<2x3xf32>) -> tensor<2x1xf32>
  func.return
}

// -----

#low = #layout.format<(n, c) : [n, c, c:8], pad = -inf>
func.func @negative_sum_pads(%x: tensor<2x17xf32, #low>) {
  // expected-error@+1 {{nn.reduce_sum reduces over dim 1 of operand 0, pads included, so they must hold 0, but the format is (n, c) : [n, c, c:8], pad = -inf; use layout.fill_pads}}
  %0 = nn.reduce_sum %x axes = [1] keepdims = false : (tensor<2x17xf32, #low>) -> tensor<2xf32>
  func.return
}

// -----

#zero = #layout.format<(n, c) : [n, c, c:8], pad = zero>
func.func @negative_max_pads(%x: tensor<2x17xf32, #zero>) {
  // expected-error@+1 {{so they must hold -inf}}
  %0 = nn.reduce_max %x axes = [1] keepdims = false : (tensor<2x17xf32, #zero>) -> tensor<2xf32>
  func.return
}

// -----

#zero = #layout.format<(n, c) : [n, c, c:8], pad = zero>
func.func @negative_prod_pads(%x: tensor<2x17xf32, #zero>) {
  // expected-error@+1 {{so they must hold 1}}
  %0 = nn.reduce_prod %x axes = [1] keepdims = false : (tensor<2x17xf32, #zero>) -> tensor<2xf32>
  func.return
}

// -----

#ab = #layout.format<(a, b) : [a, b]>
#ba = #layout.format<(a, b) : [b, a]>
func.func @negative_mixed_formats(%x: tensor<2x3x4xf32, #layout.format<(a, b, c) : [c, b, a]>>) {
  // expected-error@+1 {{nn.reduce_sum needs one format}}
  %0 = nn.reduce_sum %x axes = [0] : (tensor<2x3x4xf32, #layout.format<(a, b, c) : [c, b, a]>>) -> tensor<1x3x4xf32>
  func.return
}

// -----

func.func @negative_element_type(%x: tensor<2x3xi1>) {
  // expected-error@+1 {{element type i1 of operand 0 is not supported by nn.reduce_sum, expected one of f16, bf16, f32, f64, i32, ui32, i64, ui64}}
  %0 = nn.reduce_sum %x : (tensor<2x3xi1>) -> tensor<1x1xi1>
  func.return
}

// -----

#zero = #layout.format<(n, c) : [n, c, c:8], pad = zero>
func.func @negative_log_sum_exp_pads(%x: tensor<2x17xf32, #zero>) {
  // expected-error@+1 {{so they must hold -inf}}
  %0 = nn.reduce_log_sum_exp %x axes = [1] keepdims = false : (tensor<2x17xf32, #zero>) -> tensor<2xf32>
  func.return
}

// -----

#one = #layout.format<(n, c) : [n, c, c:8], pad = 1>
func.func @negative_sum_square_pads(%x: tensor<2x17xf32, #one>) {
  // expected-error@+1 {{so they must hold 0}}
  %0 = nn.reduce_sum_square %x axes = [1] keepdims = false : (tensor<2x17xf32, #one>) -> tensor<2xf32>
  func.return
}

// -----

func.func @negative_l2_element_type(%x: tensor<2x3xi32>) {
  // expected-error@+1 {{element type i32 of operand 0 is not supported by nn.reduce_l2, expected one of f16, bf16, f32, f64}}
  %0 = nn.reduce_l2 %x : (tensor<2x3xi32>) -> tensor<1x1xi32>
  func.return
}

// -----

func.func @negative_cum_sum_axis(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{axis = 2 is no dim of 2x3: not in 0..1}}
  %0 = nn.cum_sum %x axis = 2 : tensor<2x3xf32>
  func.return
}
