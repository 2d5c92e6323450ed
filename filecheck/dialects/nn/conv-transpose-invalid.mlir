// RUN: layout-opt %s --split-input-file --verify-diagnostics

func.func @negative_channels(%x: tensor<2x6x5x4xf32>, %w: tensor<5x3x3x3xf32>) {
  // expected-error@+1 {{channels mismatch between input 2x6x5x4 and weight 5x3x3x3: 6 != 5}}
  %0 = nn.conv_transpose %x, %w : (tensor<2x6x5x4xf32>, tensor<5x3x3x3xf32>) -> tensor<2x3x7x6xf32>
  func.return
}

// -----

func.func @negative_group(%x: tensor<2x6x5x4xf32>, %w: tensor<6x3x3x3xf32>) {
  // expected-error@+1 {{group = 4 does not divide the 6 channels of input 2x6x5x4}}
  %0 = nn.conv_transpose %x, %w group = 4 : (tensor<2x6x5x4xf32>, tensor<6x3x3x3xf32>) -> tensor<2x3x7x6xf32>
  func.return
}

// -----

func.func @negative_bias(%x: tensor<2x6x5x4xf32>, %w: tensor<6x3x3x3xf32>, %b: tensor<3xf32>) {
  // expected-error@+1 {{shape mismatch between bias 3 and output channels of weight 6x3x3x3: 3 != 6}}
  %0 = nn.conv_transpose %x, %w, %b group = 2 : (tensor<2x6x5x4xf32>, tensor<6x3x3x3xf32>, tensor<3xf32>) -> tensor<2x6x7x6xf32>
  func.return
}

// -----

func.func @negative_rank(%x: tensor<2x6x5x4xf32>, %w: tensor<6x3x3xf32>) {
  // expected-error@+1 {{rank mismatch between input 2x6x5x4 and weight 6x3x3: 4 != 3}}
  %0 = nn.conv_transpose %x, %w : (tensor<2x6x5x4xf32>, tensor<6x3x3xf32>) -> tensor<2x3x7x6xf32>
  func.return
}

// -----

func.func @negative_strides(%x: tensor<2x6x5x4xf32>, %w: tensor<6x3x3x3xf32>) {
  // expected-error@+1 {{strides = [0, 1] has an entry below 1}}
  %0 = nn.conv_transpose %x, %w strides = [0, 1] : (tensor<2x6x5x4xf32>, tensor<6x3x3x3xf32>) -> tensor<2x3x7x6xf32>
  func.return
}

// -----

func.func @negative_output_padding(%x: tensor<2x6x5x4xf32>, %w: tensor<6x3x3x3xf32>) {
  // expected-error@+1 {{output_padding = [1] does not fit 2 spatial dims: 1 != 2 entries}}
  %0 = nn.conv_transpose %x, %w output_padding = [1] : (tensor<2x6x5x4xf32>, tensor<6x3x3x3xf32>) -> tensor<2x3x7x6xf32>
  func.return
}

// -----

func.func @negative_pads(%x: tensor<2x6x5x4xf32>, %w: tensor<6x3x3x3xf32>) {
  // expected-error@+1 {{pads 4 and 3 leave nothing of spatial dim 0: its windows cover 7 elements}}
  %0 = nn.conv_transpose %x, %w pads = [4, 0, 3, 0] : (tensor<2x6x5x4xf32>, tensor<6x3x3x3xf32>) -> tensor<2x3x7x6xf32>
  func.return
}

// -----

#nhwc = #layout.format<(n, c, h, w) : [n, h, w, c]>
#nchw = #layout.format<(n, c, h, w) : [n, c, h, w]>
func.func @negative_formats(%x: tensor<2x6x5x4xf32, #nhwc>, %w: tensor<6x3x3x3xf32>) {
  // expected-error@+1 {{nn.conv_transpose needs one format, but operand 0 has (n, c, h, w) : [n, h, w, c]}}
  %0 = nn.conv_transpose %x, %w : (tensor<2x6x5x4xf32, #nhwc>, tensor<6x3x3x3xf32>) -> tensor<2x3x7x6xf32, #nchw>
  func.return
}
