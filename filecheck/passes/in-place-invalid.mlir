// RUN: layout-opt %s --split-input-file --verify-diagnostics -p 'layout-propagate{target=blocked8}'

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>
func.func @two_formats(%x : tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{layout.options[0] in_place pairs format (n, c, h, w) : [n, h, w, c] with (n, c, h, w) : [n, c, h, w]: one buffer has one format}}
  %b = "test.op"(%x) {layout.options = [#layout.option<ins = [#nhwc], outs = [#nchw], cost = 4, in_place = [0 -> 0]>]} : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any>
  func.return %b : tensor<1x8x4x4xf32, #layout.any>
}

// -----

#nhwc = #layout.tag<nhwc>
func.func @no_such_operand(%x : tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{layout.options[0] in_place pairs operand 1 with result 0: the op has 1 and 1}}
  %b = "test.op"(%x) {layout.options = [#layout.option<ins = [#nhwc], outs = [#nhwc], cost = 4, in_place = [1 -> 0]>]} : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any>
  func.return %b : tensor<1x8x4x4xf32, #layout.any>
}

// -----

#nhwc = #layout.tag<nhwc>
func.func @nothing_else(%x : tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any> {
  // expected-error @+1 {{layout.options: every option writes over an operand, but operand 0 is an argument, whose buffer belongs to someone else}}
  %b = "test.op"(%x) {layout.options = [#layout.option<ins = [#nhwc], outs = [#nhwc], cost = 4, in_place = [0 -> 0]>]} : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any>
  func.return %b : tensor<1x8x4x4xf32, #layout.any>
}
