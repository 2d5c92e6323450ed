// RUN: layout-opt %s -p 'layout-propagate{target=blocked8}' --split-input-file | filecheck %s

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>

// Writing over %a is cheaper, and nothing needs it any more.
// CHECK-LABEL: func.func @last_use(
// CHECK:         %b = "test.op"(%a) {layout.in_place = {{\[\[0( : i64)?, 0( : i64)?\]\]}}} : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #nhwc>
func.func @last_use(%x : tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any> {
  %a = nn.relu %x : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any>
  %b = "test.op"(%a) {layout.options = [#layout.option<ins = [#nhwc], outs = [#nhwc], cost = 9>, #layout.option<ins = [#nhwc], outs = [#nhwc], cost = 4, in_place = [0 -> 0]>]} : (tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any>
  func.return %b : tensor<1x8x4x4xf32, #layout.any>
}

// A view of %a is read behind the op.
// CHECK-LABEL: func.func @negative_lives_on(
// CHECK:         %b = "test.op"(%a) : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #nhwc>
func.func @negative_lives_on(%x : tensor<1x8x4x4xf32, #nhwc>) -> (tensor<1x8x4x4xf32, #layout.any>, tensor<1x4x4x8xf32, #layout.any>) {
  %a = nn.relu %x : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any>
  %v = layout.permute %a perm = [0, 2, 3, 1] : tensor<1x8x4x4xf32, #layout.any> -> tensor<1x4x4x8xf32, #layout.any>
  %b = "test.op"(%a) {layout.options = [#layout.option<ins = [#nhwc], outs = [#nhwc], cost = 9>, #layout.option<ins = [#nhwc], outs = [#nhwc], cost = 4, in_place = [0 -> 0]>]} : (tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any>
  func.return %b, %v : tensor<1x8x4x4xf32, #layout.any>, tensor<1x4x4x8xf32, #layout.any>
}

// The caller has not given its buffer away.
// CHECK-LABEL: func.func @negative_argument(
// CHECK:         %b = "test.op"(%x) : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #nhwc>
func.func @negative_argument(%x : tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any> {
  %b = "test.op"(%x) {layout.options = [#layout.option<ins = [#nhwc], outs = [#nhwc], cost = 9>, #layout.option<ins = [#nhwc], outs = [#nhwc], cost = 4, in_place = [0 -> 0]>]} : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any>
  func.return %b : tensor<1x8x4x4xf32, #layout.any>
}

// What a branch hands on may be the buffer itself, and what a loop gives may be the buffer that it started with.
// CHECK-LABEL: func.func @negative_handed_on(
// CHECK:         %b = "test.op"(%a) : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #nhwc>
func.func @negative_handed_on(%p : i1, %x : tensor<1x8x4x4xf32, #nhwc>) -> (tensor<1x8x4x4xf32, #layout.any>, tensor<1x8x4x4xf32, #layout.any>) {
  %a = nn.relu %x : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any>
  %r = scf.if %p -> (tensor<1x8x4x4xf32, #layout.any>) {
    scf.yield %a : tensor<1x8x4x4xf32, #layout.any>
  } else {
    %e = nn.exp %x : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any>
    scf.yield %e : tensor<1x8x4x4xf32, #layout.any>
  }
  %b = "test.op"(%a) {layout.options = [#layout.option<ins = [#nhwc], outs = [#nhwc], cost = 9>, #layout.option<ins = [#nhwc], outs = [#nhwc], cost = 4, in_place = [0 -> 0]>]} : (tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any>
  func.return %b, %r : tensor<1x8x4x4xf32, #layout.any>, tensor<1x8x4x4xf32, #layout.any>
}

// CHECK-LABEL: func.func @negative_result_of_a_loop(
// CHECK:         %b = "test.op"(%r) : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #nhwc>
func.func @negative_result_of_a_loop(%n : index, %x : tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any> {
  %low = arith.constant 0 : index
  %step = arith.constant 1 : index
  %r = scf.for %i = %low to %n step %step iter_args(%a = %x) -> (tensor<1x8x4x4xf32, #nhwc>) {
    %c = nn.relu %a : tensor<1x8x4x4xf32, #nhwc>
    scf.yield %c : tensor<1x8x4x4xf32, #nhwc>
  }
  %b = "test.op"(%r) {layout.options = [#layout.option<ins = [#nhwc], outs = [#nhwc], cost = 9>, #layout.option<ins = [#nhwc], outs = [#nhwc], cost = 4, in_place = [0 -> 0]>]} : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any>
  func.return %b : tensor<1x8x4x4xf32, #layout.any>
}
