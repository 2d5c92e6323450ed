// RUN: layout-opt %s -p layout-legalize-pads | filecheck %s

#nChw8c = #layout.tag<nChw8c>
#open = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>
#weights = #layout.tag<OIhw8i8o>

// A reorder that only changes pads becomes a fill, and stays because the convolution adds pads up.
// CHECK-LABEL: func.func @filled_for_conv(
// CHECK-NEXT:    %z = layout.fill_pads %x : tensor<1x17x4x4xf32, #nChw8c_undef> -> tensor<1x17x4x4xf32, #nChw8c>
// CHECK-NEXT:    %y = nn.conv %z, %w
func.func @filled_for_conv(%x : tensor<1x17x4x4xf32, #open>, %w : tensor<8x17x1x1xf32, #weights>) -> tensor<1x8x4x4xf32, #nChw8c> {
  %z = layout.reorder %x : tensor<1x17x4x4xf32, #open> -> tensor<1x17x4x4xf32, #nChw8c>
  %y = nn.conv %z, %w : (tensor<1x17x4x4xf32, #nChw8c>, tensor<8x17x1x1xf32, #weights>) -> tensor<1x8x4x4xf32, #nChw8c>
  func.return %y : tensor<1x8x4x4xf32, #nChw8c>
}

// Relu of zeros is zero: the fill behind it finds its work done.
// CHECK-LABEL: func.func @relu_keeps_zero(
// CHECK-NEXT:    %r = nn.relu %x : tensor<1x17x4x4xf32, #nChw8c>
// CHECK-NEXT:    %y = nn.conv %r, %w
func.func @relu_keeps_zero(%x : tensor<1x17x4x4xf32, #nChw8c>, %w : tensor<8x17x1x1xf32, #weights>) -> tensor<1x8x4x4xf32, #nChw8c> {
  %r = nn.relu %x : (tensor<1x17x4x4xf32, #nChw8c>) -> tensor<1x17x4x4xf32, #open>
  %z = layout.fill_pads %r : tensor<1x17x4x4xf32, #open> -> tensor<1x17x4x4xf32, #nChw8c>
  %y = nn.conv %z, %w : (tensor<1x17x4x4xf32, #nChw8c>, tensor<8x17x1x1xf32, #weights>) -> tensor<1x8x4x4xf32, #nChw8c>
  func.return %y : tensor<1x8x4x4xf32, #nChw8c>
}

// Exp of zeros is one: the type says so, and the fill stays.
// CHECK-LABEL: func.func @negative_exp_needs_fill(
// CHECK-NEXT:    %r = nn.exp %x : (tensor<1x17x4x4xf32, #nChw8c>) -> tensor<1x17x4x4xf32, #nChw8c_{{.*}}>
// CHECK-NEXT:    %z = layout.fill_pads %r
// CHECK-NEXT:    %y = nn.conv %z, %w
func.func @negative_exp_needs_fill(%x : tensor<1x17x4x4xf32, #nChw8c>, %w : tensor<8x17x1x1xf32, #weights>) -> tensor<1x8x4x4xf32, #nChw8c> {
  %r = nn.exp %x : (tensor<1x17x4x4xf32, #nChw8c>) -> tensor<1x17x4x4xf32, #open>
  %z = layout.fill_pads %r : tensor<1x17x4x4xf32, #open> -> tensor<1x17x4x4xf32, #nChw8c>
  %y = nn.conv %z, %w : (tensor<1x17x4x4xf32, #nChw8c>, tensor<8x17x1x1xf32, #weights>) -> tensor<1x8x4x4xf32, #nChw8c>
  func.return %y : tensor<1x8x4x4xf32, #nChw8c>
}

// A pool reads no channel pads.
// CHECK-LABEL: func.func @unneeded_fill(
// CHECK-NEXT:    %y = nn.max_pool %x
func.func @unneeded_fill(%x : tensor<1x17x4x4xf32, #open>) -> tensor<1x17x2x2xf32, #nChw8c> {
  %z = layout.fill_pads %x : tensor<1x17x4x4xf32, #open> -> tensor<1x17x4x4xf32, #nChw8c>
  %y = nn.max_pool %z kernel = [2, 2] strides = [2, 2] : (tensor<1x17x4x4xf32, #nChw8c>) -> tensor<1x17x2x2xf32, #nChw8c>
  func.return %y : tensor<1x17x2x2xf32, #nChw8c>
}

// The signature promises zeros.
// CHECK-LABEL: func.func @negative_promised_to_the_caller(
// CHECK-NEXT:    %z = layout.fill_pads %x
// CHECK-NEXT:    func.return %z
func.func @negative_promised_to_the_caller(%x : tensor<1x17x4x4xf32, #open>) -> tensor<1x17x4x4xf32, #nChw8c> {
  %z = layout.fill_pads %x : tensor<1x17x4x4xf32, #open> -> tensor<1x17x4x4xf32, #nChw8c>
  func.return %z : tensor<1x17x4x4xf32, #nChw8c>
}
