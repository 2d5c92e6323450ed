// RUN: layout-opt %s --split-input-file --verify-diagnostics

func.func @negative_axis(%x: tensor<10x8xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{axis = 2 is no dim of 10x8: not in 0..1}}
  %0 = nn.gather %x, %i axis = 2 : (tensor<10x8xf32>, tensor<3xi64>) -> tensor<10x8xf32>
  func.return
}

// -----

func.func @negative_gather_shape(%x: tensor<10x8xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{shape mismatch between the inferred result and the declared one: 3x8 != 10x3}}
  %0 = nn.gather %x, %i : (tensor<10x8xf32>, tensor<3xi64>) -> tensor<10x3xf32>
  func.return
}

// -----

func.func @negative_indices(%x: tensor<10x8xf32>, %i: tensor<3xf32>) {
  // expected-error@+1 {{the indices of nn.gather have element type f32, expected one of i32, i64}}
  %0 = nn.gather %x, %i : (tensor<10x8xf32>, tensor<3xf32>) -> tensor<3x8xf32>
  func.return
}

// -----

func.func @negative_gather_element_type(%x: tensor<10x8xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{element type mismatch between operand 0 and the result: f32 != f64}}
  %0 = nn.gather %x, %i : (tensor<10x8xf32>, tensor<3xi64>) -> tensor<3x8xf64>
  func.return
}

// -----

#nhwc = #layout.format<(n, c, h, w) : [n, h, w, c]>
#nchw = #layout.format<(n, c, h, w) : [n, c, h, w]>
func.func @negative_gather_formats(%x: tensor<2x3x4x5xf32, #nhwc>, %i: tensor<7xi64>) {
  // expected-error@+1 {{nn.gather needs one format, but operand 0 has (n, c, h, w) : [n, h, w, c]}}
  %0 = nn.gather %x, %i axis = 2 : (tensor<2x3x4x5xf32, #nhwc>, tensor<7xi64>) -> tensor<2x3x7x5xf32, #nchw>
  func.return
}

// -----

func.func @negative_arg_max_result(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{the result of nn.arg_max has element type f32, expected i64}}
  %0 = nn.arg_max %x : (tensor<2x3xf32>) -> tensor<1x3xf32>
  func.return
}

// -----

func.func @negative_arg_max_of_none(%x: tensor<2x0xf32>) {
  // expected-error@+1 {{dim 1 of operand 0 has no elements, of which none is the chosen one}}
  %0 = nn.arg_max %x axis = 1 : (tensor<2x0xf32>) -> tensor<2x1xi64>
  func.return
}

// -----

func.func @negative_arg_max_of_truth_values(%x: tensor<2x3xi1>) {
  // expected-error@+1 {{element type i1 of operand 0 is not supported by nn.arg_max}}
  %0 = nn.arg_max %x : (tensor<2x3xi1>) -> tensor<1x3xi64>
  func.return
}
