// RUN: layout-opt %s -p 'layout-explain{target=blocked8}' --split-input-file --allow-unregistered-dialect --verify-diagnostics

#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>

// The convolution wants blocks; running it in the plain format would be dearer than the reorder.
func.func @forced(%x : tensor<1x64x56x56xf32, #nchw>, %w : tensor<64x64x3x3xf32, #layout.tag<OIhw8i8o>>) -> tensor<1x64x56x56xf32, #nChw8c> {
  // expected-remark@+1 {{nchw -> nChw8c moves 1605632 bytes, because the caller makes the one and nn.conv needs the other; doing without would cost}}
  %a = layout.reorder %x : tensor<1x64x56x56xf32, #nchw> -> tensor<1x64x56x56xf32, #nChw8c>
  %b = nn.conv %a, %w pads = [1, 1, 1, 1] : (tensor<1x64x56x56xf32, #nChw8c>, tensor<64x64x3x3xf32, #layout.tag<OIhw8i8o>>) -> tensor<1x64x56x56xf32, #nChw8c>
  func.return %b : tensor<1x64x56x56xf32, #nChw8c>
}

// -----

// A signature leaves no choice.
func.func @no_other_program(%x : tensor<1x64x8x8xf32, #layout.tag<nchw>>) -> tensor<1x64x8x8xf32, #layout.tag<nhwc>> {
  // expected-remark@+1 {{because the caller makes the one and the result of @no_other_program needs the other; there is no program without it}}
  %a = layout.reorder %x : tensor<1x64x8x8xf32, #layout.tag<nchw>> -> tensor<1x64x8x8xf32, #layout.tag<nhwc>>
  func.return %a : tensor<1x64x8x8xf32, #layout.tag<nhwc>>
}

// -----

// What also changes the elements is computation, whatever lies behind it.
func.func @negative_other_elements(%x : tensor<1x64x8x8xi8, #layout.tag<nchw>>) -> tensor<1x64x8x8xi8, #layout.tag<nhwc>> {
  %a = layout.reorder %x scale = [0.5, 0.25] : tensor<1x64x8x8xi8, #layout.tag<nchw>> -> tensor<1x64x8x8xi8, #layout.tag<nhwc>>
  func.return %a : tensor<1x64x8x8xi8, #layout.tag<nhwc>>
}

// -----

// Nothing is moved, so there is nothing to explain.
func.func @negative_free(%x : tensor<1x64x1x1xf32, #layout.tag<nchw>>) -> tensor<1x64x1x1xf32, #layout.tag<nhwc>> {
  %a = layout.reorder %x : tensor<1x64x1x1xf32, #layout.tag<nchw>> -> tensor<1x64x1x1xf32, #layout.tag<nhwc>>
  func.return %a : tensor<1x64x1x1xf32, #layout.tag<nhwc>>
}

// -----

// Of an op of nobody's dialect only what was chosen for it is known.
func.func @not_known_otherwise(%x : tensor<1x16x8x8xf32, #layout.tag<nchw>>) -> tensor<1x16x8x8xf32, #layout.tag<nchw>> {
  // expected-remark@+1 {{because the caller makes the one and foo.b needs the other; there is no program without it as long as foo.b stays}}
  %0 = layout.reorder %x : tensor<1x16x8x8xf32, #layout.tag<nchw>> -> tensor<1x16x8x8xf32, #layout.tag<nhwc>>
  %b = "foo.b"(%0) : (tensor<1x16x8x8xf32, #layout.tag<nhwc>>) -> tensor<1x16x8x8xf32, #layout.tag<nchw>>
  func.return %b : tensor<1x16x8x8xf32, #layout.tag<nchw>>
}
