// RUN: layout-opt %s -p 'layout-propagate{target=blocked8}' | filecheck %s
// RUN: layout-opt %s -p 'layout-propagate{target=blocked8},layout-fold-reorders' | filecheck %s --check-prefix=FOLDED
// RUN: layout-opt %s -p 'layout-propagate{target=blocked8},layout-strip' | filecheck %s --check-prefix=STRIPPED
// RUN: layout-opt %s -p 'layout-propagate{target=blocked8},convert-layout-to-physical' | filecheck %s --check-prefix=PHYSICAL
// RUN: layout-opt %s | layout-opt | filecheck %s --check-prefix=ROUND

// The name of the option that is chosen stays with the op, for who generates code.

#nhwc = #layout.tag<nhwc>
#nchw = #layout.tag<nchw>

// The cheaper of two kernels that take the same formats.
// CHECK-LABEL: func.func @chosen(
// CHECK: nn.relu %x {layout.chosen = "relu_vector"} : tensor<1x8x4x4xf32, #nhwc>
// ROUND-LABEL: func.func @chosen(
// ROUND: cost = 4, in_place = [0 -> 0], name = "relu_vector">
// STRIPPED-LABEL: func.func @chosen(
// STRIPPED: nn.relu %x : tensor<1x8x4x4xf32>
// PHYSICAL-LABEL: func.func @chosen(
// PHYSICAL: nn.relu %{{[a-z0-9_]+}} : tensor<1x4x4x8xf32>
func.func @chosen(%x : tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any> {
  %y = nn.exp %x : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any>
  %a = nn.relu %x {layout.options = [
      #layout.option<ins = [#nhwc], outs = [#nhwc], cost = 9, name = "relu_scalar">,
      #layout.option<ins = [#nhwc], outs = [#nhwc], cost = 4, name = "relu_vector">,
      #layout.option<ins = [#nhwc], outs = [#nhwc], cost = 4, in_place = [0 -> 0], name = "relu_vector">]}
    : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any>
  %b = nn.add %a, %y : tensor<1x8x4x4xf32, #layout.any>
  func.return %b : tensor<1x8x4x4xf32, #layout.any>
}

// An option without a name leaves nothing, not even the name of an earlier choice.
// CHECK-LABEL: func.func @negative_no_name(
// CHECK: nn.relu %x : tensor<1x8x4x4xf32, #nhwc>
func.func @negative_no_name(%x : tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any> {
  %a = nn.relu %x {layout.chosen = "old", layout.options = [#layout.option<ins = [#nhwc], outs = [#nhwc], cost = 9>]}
    : (tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #layout.any>
  func.return %a : tensor<1x8x4x4xf32, #layout.any>
}

// An op with a chosen kernel keeps its formats when reorders are folded: another format would be another kernel.
// FOLDED-LABEL: func.func @negative_reformat(
// FOLDED-COUNT-2: layout.reorder
// FOLDED-LABEL: func.func @reformat(
// FOLDED-NOT: layout.reorder
func.func @negative_reformat(%x : tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #nhwc> {
  %a = layout.reorder %x : tensor<1x8x4x4xf32, #nhwc> -> tensor<1x8x4x4xf32, #nchw>
  %b = nn.relu %a {layout.chosen = "relu_rows"} : tensor<1x8x4x4xf32, #nchw>
  %c = layout.reorder %b : tensor<1x8x4x4xf32, #nchw> -> tensor<1x8x4x4xf32, #nhwc>
  func.return %c : tensor<1x8x4x4xf32, #nhwc>
}
func.func @reformat(%x : tensor<1x8x4x4xf32, #nhwc>) -> tensor<1x8x4x4xf32, #nhwc> {
  %a = layout.reorder %x : tensor<1x8x4x4xf32, #nhwc> -> tensor<1x8x4x4xf32, #nchw>
  %b = nn.relu %a : tensor<1x8x4x4xf32, #nchw>
  %c = layout.reorder %b : tensor<1x8x4x4xf32, #nchw> -> tensor<1x8x4x4xf32, #nhwc>
  func.return %c : tensor<1x8x4x4xf32, #nhwc>
}
