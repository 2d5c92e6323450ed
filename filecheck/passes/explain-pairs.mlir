// RUN: layout-opt %s -p 'layout-explain{target=ort-nchwc8}' --split-input-file --verify-diagnostics

// One of the two alone would only move the reorder between them.
#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>
#weights = #layout.tag<OIhw8i8o>
func.func @two_ops_lack_it(%x : tensor<1x64x32x32xf32, #nChw8c>) -> tensor<1x64x32x32xf32, #nChw8c> {
  %w = nn.constant dense<0.5> : tensor<64x64x1x1xf32, #weights>
  %a = nn.conv %x, %w : (tensor<1x64x32x32xf32, #nChw8c>, tensor<64x64x1x1xf32, #weights>) -> tensor<1x64x32x32xf32, #nChw8c>
  // expected-remark@+1 {{ns less in all if nn.exp and nn.leaky_relu accepted nChw8c}}
  %b = layout.reorder %a : tensor<1x64x32x32xf32, #nChw8c> -> tensor<1x64x32x32xf32, #nchw>
  %c = nn.exp %b : tensor<1x64x32x32xf32, #nchw>
  %d = nn.leaky_relu %c : tensor<1x64x32x32xf32, #nchw>
  // expected-remark@+1 {{ns less in all if nn.exp and nn.leaky_relu accepted nChw8c}}
  %e = layout.reorder %d : tensor<1x64x32x32xf32, #nchw> -> tensor<1x64x32x32xf32, #nChw8c>
  %f = nn.conv %e, %w : (tensor<1x64x32x32xf32, #nChw8c>, tensor<64x64x1x1xf32, #weights>) -> tensor<1x64x32x32xf32, #nChw8c>
  func.return %f : tensor<1x64x32x32xf32, #nChw8c>
}

// -----

// Relu runs in blocks already: one capability is less to ask for than two.
#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>
#weights = #layout.tag<OIhw8i8o>
func.func @negative_one_is_enough(%x : tensor<1x64x32x32xf32, #nChw8c>) -> tensor<1x64x32x32xf32, #nChw8c> {
  %w = nn.constant dense<0.5> : tensor<64x64x1x1xf32, #weights>
  %a = nn.conv %x, %w : (tensor<1x64x32x32xf32, #nChw8c>, tensor<64x64x1x1xf32, #weights>) -> tensor<1x64x32x32xf32, #nChw8c>
  // expected-remark@+1 {{ns less in all if nn.exp accepted nChw8c}}
  %b = layout.reorder %a : tensor<1x64x32x32xf32, #nChw8c> -> tensor<1x64x32x32xf32, #nchw>
  %c = nn.exp %b : tensor<1x64x32x32xf32, #nchw>
  %d = nn.relu %c : tensor<1x64x32x32xf32, #nchw>
  // expected-remark@+1 {{a reorder of another value would cost the same}}
  %e = layout.reorder %d : tensor<1x64x32x32xf32, #nchw> -> tensor<1x64x32x32xf32, #nChw8c>
  %f = nn.conv %e, %w : (tensor<1x64x32x32xf32, #nChw8c>, tensor<64x64x1x1xf32, #weights>) -> tensor<1x64x32x32xf32, #nChw8c>
  func.return %f : tensor<1x64x32x32xf32, #nChw8c>
}
