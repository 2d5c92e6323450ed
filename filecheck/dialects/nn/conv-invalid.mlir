// RUN: layout-opt %s --split-input-file --verify-diagnostics

func.func @negative_rank(%x: tensor<1x3xf32>, %w: tensor<4x3xf32>) {
  // expected-error@+1 {{nn.conv works on rank 3 to 5 (batch, channels, 1 to 3 spatial dims), but operand 0 is 1x3: rank 2}}
  %0 = nn.conv %x, %w : (tensor<1x3xf32>, tensor<4x3xf32>) -> tensor<1x4xf32>
  func.return
}

// -----

func.func @negative_weight_rank(%x: tensor<1x3x5x5xf32>, %w: tensor<4x3x3xf32>) {
  // expected-error@+1 {{rank mismatch between input 1x3x5x5 and weight 4x3x3: 4 != 3}}
  %0 = nn.conv %x, %w : (tensor<1x3x5x5xf32>, tensor<4x3x3xf32>) -> tensor<1x4x3x3xf32>
  func.return
}

// -----

func.func @negative_channels(%x: tensor<1x6x5x5xf32>, %w: tensor<4x2x3x3xf32>) {
  // expected-error@+1 {{channels mismatch between input 1x6x5x5 and weight 4x2x3x3 in 2 groups: 6 != 2 * 2}}
  %0 = nn.conv %x, %w group = 2 : (tensor<1x6x5x5xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x3x3xf32>
  func.return
}

// -----

func.func @negative_group(%x: tensor<1x6x5x5xf32>, %w: tensor<4x2x3x3xf32>) {
  // expected-error@+1 {{group = 3 does not divide the 4 output channels of weight 4x2x3x3}}
  %0 = nn.conv %x, %w group = 3 : (tensor<1x6x5x5xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x3x3xf32>
  func.return
}

// -----

func.func @negative_group_zero(%x: tensor<1x6x5x5xf32>, %w: tensor<4x2x3x3xf32>) {
  // expected-error@+1 {{group = 0 is below 1}}
  %0 = nn.conv %x, %w group = 0 : (tensor<1x6x5x5xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x3x3xf32>
  func.return
}

// -----

func.func @negative_bias(%x: tensor<1x3x5x5xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<3xf32>) {
  // expected-error@+1 {{shape mismatch between bias 3 and output channels of weight 4x3x3x3: 3 != 4}}
  %0 = nn.conv %x, %w, %b : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>, tensor<3xf32>) -> tensor<1x4x3x3xf32>
  func.return
}

// -----

func.func @negative_strides(%x: tensor<1x3x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error@+1 {{strides = [1, 1, 1] does not fit 2 spatial dims: 3 != 2 entries}}
  %0 = nn.conv %x, %w strides = [1, 1, 1] : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x3x3xf32>
  func.return
}

// -----

func.func @negative_pads(%x: tensor<1x3x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error@+1 {{pads = [1, 1] does not fit 2 spatial dims: 2 != 4 entries}}
  %0 = nn.conv %x, %w pads = [1, 1] : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x5x5xf32>
  func.return
}

// -----

func.func @negative_dilation(%x: tensor<1x3x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error@+1 {{dilations = [0, 1] has an entry below 1}}
  %0 = nn.conv %x, %w dilations = [0, 1] : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x5x3xf32>
  func.return
}

// -----

func.func @negative_kernel(%x: tensor<1x3x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error@+1 {{window and extent do not fit in spatial dim 1: kernel 3 dilated to 9 > extent 5 padded to 7}}
  %0 = nn.conv %x, %w pads = [0, 1, 0, 1] dilations = [1, 4] : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x3x1xf32>
  func.return
}

// -----

func.func @negative_result(%x: tensor<1x3x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error@+1 {{shape mismatch between the inferred result and the declared one: 1x4x3x3 != 1x4x5x5}}
  %0 = nn.conv %x, %w : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x5x5xf32>
  func.return
}

// -----

func.func @negative_element_types(%x: tensor<1x3x5x5xf32>, %w: tensor<4x3x3x3xf16>) {
  // expected-error@+1 {{element type mismatch between operand 0 and operand 1: f32 != f16}}
  %0 = nn.conv %x, %w : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf16>) -> tensor<1x4x3x3xf32>
  func.return
}

// -----

func.func @negative_element_type(%x: tensor<1x3x5x5xi32>, %w: tensor<4x3x3x3xi32>) {
  // expected-error@+1 {{element type i32 of operand 0 is not supported by nn.conv, expected one of f16, bf16, f32, f64}}
  %0 = nn.conv %x, %w : (tensor<1x3x5x5xi32>, tensor<4x3x3x3xi32>) -> tensor<1x4x3x3xi32>
  func.return
}

// -----

func.func @negative_dynamic(%x: tensor<?x3x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error@+1 {{operand 0 has a dynamic dim in tensor<?x3x5x5xf32>}}
  %0 = nn.conv %x, %w : (tensor<?x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<?x4x3x3xf32>
  func.return
}

// -----

#undef = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>
func.func @negative_dirty_channels(%x: tensor<1x17x5x5xf32, #undef>, %w: tensor<16x17x1x1xf32>) {
  // expected-error@+1 {{nn.conv reduces over dim 1 of operand 0, pads included, so they must hold 0, but the format is (n, c, h, w) : [n, c, h, w, c:8]; use layout.fill_pads}}
  %0 = nn.conv %x, %w : (tensor<1x17x5x5xf32, #undef>, tensor<16x17x1x1xf32>) -> tensor<1x16x5x5xf32>
  func.return
}

// -----

#ones = #layout.format<(o, i, h, w) : [o, i, h, w, i:8], pad = 1>
func.func @negative_dirty_weight(%x: tensor<1x17x5x5xf32>, %w: tensor<16x17x1x1xf32, #ones>) {
  // expected-error@+1 {{nn.conv reduces over dim 1 of operand 1, pads included, so they must hold 0}}
  %0 = nn.conv %x, %w : (tensor<1x17x5x5xf32>, tensor<16x17x1x1xf32, #ones>) -> tensor<1x16x5x5xf32>
  func.return
}

// -----

#ones = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = 1>
func.func @negative_claim(%x: tensor<1x4x5x5xf32>, %w: tensor<17x4x1x1xf32>) {
  // expected-error@+1 {{the result claims (n, c, h, w) : [n, c, h, w, c:8], pad = 1, but nn.conv leaves 0 in its pads; declare pad = undef and use layout.fill_pads}}
  %0 = nn.conv %x, %w : (tensor<1x4x5x5xf32>, tensor<17x4x1x1xf32>) -> tensor<1x17x5x5xf32, #ones>
  func.return
}

// -----

#nhc = #layout.format<(n, h, c) : [n, h, c]>
func.func @negative_format_rank(%x: tensor<1x3x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error@+1 {{rank mismatch between format (n, h, c) and tensor shape 1x4x3x3: 3 != 4}}
  %0 = nn.conv %x, %w : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x3x3xf32, #nhc>
  func.return
}

// -----

func.func @negative_unknown_attribute(%x: tensor<1x3x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error@+1 {{nn.conv has no attribute stride, its attributes: strides, pads, dilations, group}}
  %0 = nn.conv %x, %w stride = [1, 1] : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x3x3xf32>
  func.return
}

// -----

func.func @negative_repeated_attribute(%x: tensor<1x3x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error@+1 {{group is given twice}}
  %0 = nn.conv %x, %w group = 1 group = 1 : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x3x3xf32>
  func.return
}

// -----

func.func @negative_operand_count(%x: tensor<1x3x5x5xf32>) {
  // expected-error@+1 {{nn.conv takes 2 to 3 operands, not 1}}
  %0 = nn.conv %x : (tensor<1x3x5x5xf32>) -> tensor<1x4x3x3xf32>
  func.return
}

// -----

func.func @negative_type_count(%x: tensor<1x3x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error@+1 {{2 operands and 1 result, but types of 1 operands and 1 results}}
  %0 = nn.conv %x, %w : (tensor<1x3x5x5xf32>) -> tensor<1x4x3x3xf32>
  func.return
}
