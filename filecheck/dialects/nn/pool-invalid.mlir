// RUN: layout-opt %s --split-input-file --verify-diagnostics

func.func @negative_no_kernel(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{nn.max_pool needs attribute kernel, a list of integers}}
  %0 = nn.max_pool %x strides = [2, 2] : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  func.return
}

// -----

func.func @negative_no_kernel_generic(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{property 'kernel' expected in operation 'nn.max_pool'}}
  %0 = "nn.max_pool"(%x) : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  func.return
}

// -----

func.func @negative_rank(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{nn.global_avg_pool works on rank 3 to 5 (batch, channels, 1 to 3 spatial dims), but operand 0 is 8x8: rank 2}}
  %0 = nn.global_avg_pool %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return
}

// -----

func.func @negative_kernel(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{kernel = [2] does not fit 2 spatial dims: 1 != 2 entries}}
  %0 = nn.avg_pool %x kernel = [2] : (tensor<1x3x8x8xf32>) -> tensor<1x3x7x7xf32>
  func.return
}

// -----

func.func @negative_window(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{window and extent do not fit in spatial dim 0: kernel 9 dilated to 9 > extent 8 padded to 8}}
  %0 = nn.avg_pool %x kernel = [9, 2] : (tensor<1x3x8x8xf32>) -> tensor<1x3x0x7xf32>
  func.return
}

// -----

func.func @negative_element_type(%x: tensor<1x3x8x8xi8>) {
  // expected-error@+1 {{element type i8 of operand 0 is not supported by nn.avg_pool, expected one of f16, bf16, f32, f64}}
  %0 = nn.avg_pool %x kernel = [2, 2] : (tensor<1x3x8x8xi8>) -> tensor<1x3x7x7xi8>
  func.return
}

// -----

#nhwc = #layout.format<(n, c, h, w) : [n, h, w, c]>
#nchw = #layout.format<(n, c, h, w) : [n, c, h, w]>
func.func @negative_mixed_formats(%x: tensor<1x3x8x8xf32, #nhwc>) {
  // expected-error@+1 {{nn.max_pool needs one format, but operand 0 has (n, c, h, w) : [n, h, w, c] and the result has (n, c, h, w) : [n, c, h, w]; insert a layout.reorder}}
  %0 = nn.max_pool %x kernel = [2, 2] : (tensor<1x3x8x8xf32, #nhwc>) -> tensor<1x3x7x7xf32, #nchw>
  func.return
}

// -----

#nhwc = #layout.format<(n, c, h, w) : [n, h, w, c]>
func.func @negative_no_encoding_is_row_major(%x: tensor<1x3x8x8xf32, #nhwc>) {
  // expected-error@+1 {{nn.max_pool needs one format, but operand 0 has (n, c, h, w) : [n, h, w, c] and the result has (n, c, h, w) : [n, c, h, w]}}
  %0 = nn.max_pool %x kernel = [2, 2] : (tensor<1x3x8x8xf32, #nhwc>) -> tensor<1x3x7x7xf32>
  func.return
}

// -----

func.func @negative_opaque(%x: tensor<1x3x8x8xf32, #layout.opaque<"secret">>) {
  // expected-error@+1 {{nn.max_pool needs one format, but operand 0 has #layout.opaque<"secret"> and the result has (n, c, h, w) : [n, c, h, w]}}
  %0 = nn.max_pool %x kernel = [2, 2] : (tensor<1x3x8x8xf32, #layout.opaque<"secret">>) -> tensor<1x3x7x7xf32>
  func.return
}
