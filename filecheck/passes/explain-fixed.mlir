// RUN: layout-opt %s -p 'layout-explain{target=ort-nchwc}' --allow-unregistered-dialect --verify-diagnostics --split-input-file

#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>

// An op without a model runs in the layouts that were chosen for it, whatever the kernels of the target take; it is
// the same whether its dialect is known here (test) or not.
func.func @stays(%x : tensor<1x16x8x8xf32, #nchw>) -> tensor<1x16x8x8xf32, #nchw> {
  // expected-remark@+1 {{nchw -> nChw8c moves 8192 bytes, because the caller makes the one and test.op needs the other; there is no program without it as long as test.op stays}}
  %a = layout.reorder %x : tensor<1x16x8x8xf32, #nchw> -> tensor<1x16x8x8xf32, #nChw8c>
  %b = "test.op"(%a) : (tensor<1x16x8x8xf32, #nChw8c>) -> tensor<1x16x8x8xf32, #nchw>
  func.return %b : tensor<1x16x8x8xf32, #nchw>
}

// -----

#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>

func.func @stays_unregistered(%x : tensor<1x16x8x8xf32, #nchw>) -> tensor<1x16x8x8xf32, #nchw> {
  // expected-remark@+1 {{there is no program without it as long as other.op stays}}
  %a = layout.reorder %x : tensor<1x16x8x8xf32, #nchw> -> tensor<1x16x8x8xf32, #nChw8c>
  %b = "other.op"(%a) : (tensor<1x16x8x8xf32, #nChw8c>) -> tensor<1x16x8x8xf32, #nchw>
  func.return %b : tensor<1x16x8x8xf32, #nchw>
}

// -----

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>

// An op with a model may run otherwise.
func.func @negative_relu(%x : tensor<1x16x8x8xf32, #nchw>) -> tensor<1x16x8x8xf32, #nhwc> {
  // expected-remark@+1 {{because the caller makes the one and nn.relu needs the other; a reorder of another value would cost the same}}
  %a = layout.reorder %x : tensor<1x16x8x8xf32, #nchw> -> tensor<1x16x8x8xf32, #nhwc>
  %b = nn.relu %a : tensor<1x16x8x8xf32, #nhwc>
  func.return %b : tensor<1x16x8x8xf32, #nhwc>
}
