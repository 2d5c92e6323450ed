// RUN: layout-opt %s -p layout-fold-reorders | filecheck %s

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>
#nChw8c = #layout.tag<nChw8c>
#nChw16c = #layout.tag<nChw16c>
#open = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>

// ----------------------------------------------------------------------------------------------------------------
// One op
// ----------------------------------------------------------------------------------------------------------------

// CHECK-LABEL: func.func @same_type(
// CHECK-NEXT:    func.return %x
func.func @same_type(%x : tensor<2x17x5x4xf32, #nchw>) -> tensor<2x17x5x4xf32, #nchw> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nchw>
  func.return %a : tensor<2x17x5x4xf32, #nchw>
}

// One pixel: nhwc and nchw are the same bytes.
// CHECK-LABEL: func.func @free_reorder(
// CHECK-NEXT:    %a = layout.cast %x
// CHECK-NEXT:    func.return %a
func.func @free_reorder(%x : tensor<2x16x1x1xf32, #nchw>) -> tensor<2x16x1x1xf32, #nhwc> {
  %a = layout.reorder %x : tensor<2x16x1x1xf32, #nchw> -> tensor<2x16x1x1xf32, #nhwc>
  func.return %a : tensor<2x16x1x1xf32, #nhwc>
}

// CHECK-LABEL: func.func @negative_free_reorder(
// CHECK-NEXT:    %a = layout.reorder %x
func.func @negative_free_reorder(%x : tensor<2x16x2x1xf32, #nchw>) -> tensor<2x16x2x1xf32, #nhwc> {
  %a = layout.reorder %x : tensor<2x16x2x1xf32, #nchw> -> tensor<2x16x2x1xf32, #nhwc>
  func.return %a : tensor<2x16x2x1xf32, #nhwc>
}

// CHECK-LABEL: func.func @pads_only(
// CHECK-NEXT:    %a = layout.fill_pads %x
func.func @pads_only(%x : tensor<2x17x5x4xf32, #open>) -> tensor<2x17x5x4xf32, #nChw8c> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #open> -> tensor<2x17x5x4xf32, #nChw8c>
  func.return %a : tensor<2x17x5x4xf32, #nChw8c>
}

// Elements move, so the reorder is one.
// CHECK-LABEL: func.func @negative_pads_and_elements(
// CHECK-NEXT:    %a = layout.reorder %x
func.func @negative_pads_and_elements(%x : tensor<2x17x5x4xf32, #open>) -> tensor<2x17x5x4xf32, #nChw16c> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #open> -> tensor<2x17x5x4xf32, #nChw16c>
  func.return %a : tensor<2x17x5x4xf32, #nChw16c>
}

// Stored alike, but the elements are converted.
// CHECK-LABEL: func.func @negative_pads_and_conversion(
// CHECK-NEXT:    %a = layout.reorder %x
func.func @negative_pads_and_conversion(%x : tensor<2x17x5x4xf32, #open>) -> tensor<2x17x5x4xf16, #nChw8c> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #open> -> tensor<2x17x5x4xf16, #nChw8c>
  func.return %a : tensor<2x17x5x4xf16, #nChw8c>
}

// Promising less is free.
// CHECK-LABEL: func.func @pads_forgotten(
// CHECK-NEXT:    %a = layout.cast %x
func.func @pads_forgotten(%x : tensor<2x17x5x4xf32, #nChw8c>) -> tensor<2x17x5x4xf32, #open> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nChw8c> -> tensor<2x17x5x4xf32, #open>
  func.return %a : tensor<2x17x5x4xf32, #open>
}

// With 16 channels there are no pads, so nothing has to be filled.
// CHECK-LABEL: func.func @no_pads_to_fill(
// CHECK-NEXT:    %a = layout.cast %x
func.func @no_pads_to_fill(%x : tensor<2x16x5x4xf32, #open>) -> tensor<2x16x5x4xf32, #nChw8c> {
  %a = layout.fill_pads %x : tensor<2x16x5x4xf32, #open> -> tensor<2x16x5x4xf32, #nChw8c>
  func.return %a : tensor<2x16x5x4xf32, #nChw8c>
}

// CHECK-LABEL: func.func @dead(
// CHECK-NEXT:    func.return
func.func @dead(%x : tensor<2x17x5x4xf32, #nchw>) {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
  %b = layout.reorder %a : tensor<2x17x5x4xf32, #nhwc> -> tensor<2x17x5x4xf32, #nChw8c>
  func.return
}

// CHECK-LABEL: func.func @negative_to_be_chosen(
// CHECK-NEXT:    %a = layout.reorder %x
func.func @negative_to_be_chosen(%x : tensor<2x17x5x4xf32, #nchw>) -> tensor<2x17x5x4xf32, #layout.any> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #layout.any>
  func.return %a : tensor<2x17x5x4xf32, #layout.any>
}

// ----------------------------------------------------------------------------------------------------------------
// Chains
// ----------------------------------------------------------------------------------------------------------------

// CHECK-LABEL: func.func @inverse_pair(
// CHECK-NEXT:    func.return %x
func.func @inverse_pair(%x : tensor<2x17x5x4xf32, #nchw>) -> tensor<2x17x5x4xf32, #nchw> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nChw8c>
  %b = layout.reorder %a : tensor<2x17x5x4xf32, #nChw8c> -> tensor<2x17x5x4xf32, #nchw>
  func.return %b : tensor<2x17x5x4xf32, #nchw>
}

// CHECK-LABEL: func.func @chain(
// CHECK-NEXT:    %b = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
// CHECK-NEXT:    func.return %b
func.func @chain(%x : tensor<2x17x5x4xf32, #nchw>) -> tensor<2x17x5x4xf32, #nhwc> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nChw8c>
  %b = layout.reorder %a : tensor<2x17x5x4xf32, #nChw8c> -> tensor<2x17x5x4xf32, #nhwc>
  func.return %b : tensor<2x17x5x4xf32, #nhwc>
}

// A reorder writes the pads itself.
// CHECK-LABEL: func.func @fill_behind_reorder(
// CHECK-NEXT:    %b = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nChw8c>
// CHECK-NEXT:    func.return %b
func.func @fill_behind_reorder(%x : tensor<2x17x5x4xf32, #nchw>) -> tensor<2x17x5x4xf32, #nChw8c> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #open>
  %b = layout.fill_pads %a : tensor<2x17x5x4xf32, #open> -> tensor<2x17x5x4xf32, #nChw8c>
  func.return %b : tensor<2x17x5x4xf32, #nChw8c>
}

// A conversion between element types is not folded away.
// CHECK-LABEL: func.func @negative_conversion(
// CHECK-NEXT:    %a = layout.reorder %x
// CHECK-NEXT:    %b = layout.reorder %a
func.func @negative_conversion(%x : tensor<2x17xf32>) -> tensor<2x17xf32> {
  %a = layout.reorder %x : tensor<2x17xf32> -> tensor<2x17xi8>
  %b = layout.reorder %a : tensor<2x17xi8> -> tensor<2x17xf32>
  func.return %b : tensor<2x17xf32>
}

// ----------------------------------------------------------------------------------------------------------------
// Sharing
// ----------------------------------------------------------------------------------------------------------------

// CHECK-LABEL: func.func @shared(
// CHECK-NEXT:    %a = layout.reorder %x
// CHECK-NEXT:    func.return %a, %a
func.func @shared(%x : tensor<2x17x5x4xf32, #nchw>) -> (tensor<2x17x5x4xf32, #nhwc>, tensor<2x17x5x4xf32, #nhwc>) {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
  %b = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
  func.return %a, %b : tensor<2x17x5x4xf32, #nhwc>, tensor<2x17x5x4xf32, #nhwc>
}

// Two branches, of which one runs: neither sees what the other makes.
// CHECK-LABEL: func.func @negative_other_numbers(
// CHECK-NEXT:    %a = layout.reorder %x scale = [0.05, 0.1] :
// CHECK-NEXT:    %b = layout.reorder %a scale = [0.1, 0.05] :
func.func @negative_other_numbers(%x : tensor<2x17xi8>) -> tensor<2x17xi8> {
  %a = layout.reorder %x scale = [0.05, 0.1] : tensor<2x17xi8> -> tensor<2x17xi8>
  %b = layout.reorder %a scale = [0.1, 0.05] : tensor<2x17xi8> -> tensor<2x17xi8>
  func.return %b : tensor<2x17xi8>
}

// There and back is not nothing: what lies between is rounded, and saturates.
// CHECK-LABEL: func.func @negative_channels(
// CHECK-NEXT:    %a = layout.reorder %x scale = [1, [0.05, 0.1]] zero_point = [0, [3, -3]] dim = 0 :
// CHECK-NEXT:    %b = layout.reorder %a scale = {{\[}}[0.05, 0.1], 1] zero_point = {{\[}}[3, -3], 0] dim = 0 :
func.func @negative_channels(%x : tensor<2x17xf32>) -> tensor<2x17xf32> {
  %a = layout.reorder %x scale = [1, [0.05, 0.1]] zero_point = [0, [3, -3]] dim = 0 : tensor<2x17xf32> -> tensor<2x17xi8>
  %b = layout.reorder %a scale = [[0.05, 0.1], 1] zero_point = [[3, -3], 0] dim = 0 : tensor<2x17xi8> -> tensor<2x17xf32>
  func.return %b : tensor<2x17xf32>
}

// Numbers that are neutral for every channel are none.
// CHECK-LABEL: func.func @neutral_channels(
// CHECK-NEXT:    func.return %x
func.func @neutral_channels(%x : tensor<2x17xi8, #layout.tag<ab>>) -> tensor<2x17xi8, #layout.tag<ab>> {
  %a = layout.reorder %x scale = [1, [1, 1]] dim = 0 : tensor<2x17xi8, #layout.tag<ab>> -> tensor<2x17xi8, #layout.tag<ba>>
  %b = layout.reorder %a : tensor<2x17xi8, #layout.tag<ba>> -> tensor<2x17xi8, #layout.tag<ab>>
  func.return %b : tensor<2x17xi8, #layout.tag<ab>>
}

// The same layout of the same value, but other elements.
// CHECK-LABEL: func.func @negative_shared_with_other_numbers(
// CHECK-NEXT:    %a = layout.reorder %x scale = [1, [0.5, 0.25]] dim = 0 :
// CHECK-NEXT:    %b = layout.reorder %x :
// CHECK-NEXT:    func.return %a, %b :
func.func @negative_shared_with_other_numbers(%x : tensor<2x17xi8, #layout.tag<ab>>) -> (tensor<2x17xi8, #layout.tag<ba>>, tensor<2x17xi8, #layout.tag<ba>>) {
  %a = layout.reorder %x scale = [1, [0.5, 0.25]] dim = 0 : tensor<2x17xi8, #layout.tag<ab>> -> tensor<2x17xi8, #layout.tag<ba>>
  %b = layout.reorder %x : tensor<2x17xi8, #layout.tag<ab>> -> tensor<2x17xi8, #layout.tag<ba>>
  func.return %a, %b : tensor<2x17xi8, #layout.tag<ba>>, tensor<2x17xi8, #layout.tag<ba>>
}

// CHECK-LABEL: func.func @negative_shared_between_branches(
// CHECK:           %a = layout.reorder %x
// CHECK:         } else {
// CHECK-NEXT:      %b = layout.reorder %x
func.func @negative_shared_between_branches(%p : i1, %x : tensor<2x17x5x4xf32, #nchw>, %y : tensor<2x17x5x4xf32, #nhwc>) -> tensor<2x17x5x4xf32, #nhwc> {
  %r = scf.if %p -> (tensor<2x17x5x4xf32, #nhwc>) {
    %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
    %c = nn.add %a, %y : tensor<2x17x5x4xf32, #nhwc>
    scf.yield %c : tensor<2x17x5x4xf32, #nhwc>
  } else {
    %b = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
    scf.yield %b : tensor<2x17x5x4xf32, #nhwc>
  }
  func.return %r : tensor<2x17x5x4xf32, #nhwc>
}

// The same value in two layouts, and two values in one.
// CHECK-LABEL: func.func @negative_shared(
// CHECK-NEXT:    %a = layout.reorder %x
// CHECK-NEXT:    %b = layout.reorder %x
// CHECK-NEXT:    %c = layout.reorder %y
// CHECK-NEXT:    func.return %a, %b, %c
func.func @negative_shared(%x : tensor<2x17x5x4xf32, #nchw>, %y : tensor<2x17x5x4xf32, #nchw>) -> (tensor<2x17x5x4xf32, #nhwc>, tensor<2x17x5x4xf32, #nChw8c>, tensor<2x17x5x4xf32, #nhwc>) {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
  %b = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nChw8c>
  %c = layout.reorder %y : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
  func.return %a, %b, %c : tensor<2x17x5x4xf32, #nhwc>, tensor<2x17x5x4xf32, #nChw8c>, tensor<2x17x5x4xf32, #nhwc>
}

// ----------------------------------------------------------------------------------------------------------------
// Through elementwise ops
// ----------------------------------------------------------------------------------------------------------------

// CHECK-LABEL: func.func @through_relu(
// CHECK-NEXT:    %b = nn.relu %x : tensor<2x17x5x4xf32, #nchw>
// CHECK-NEXT:    func.return %b
func.func @through_relu(%x : tensor<2x17x5x4xf32, #nchw>) -> tensor<2x17x5x4xf32, #nchw> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nChw8c>
  %b = nn.relu %a : tensor<2x17x5x4xf32, #nChw8c>
  %c = layout.reorder %b : tensor<2x17x5x4xf32, #nChw8c> -> tensor<2x17x5x4xf32, #nchw>
  func.return %c : tensor<2x17x5x4xf32, #nchw>
}

// CHECK-LABEL: func.func @through_add(
// CHECK-NEXT:    %c = nn.add %x, %y : tensor<2x17x5x4xf32, #nchw>
// CHECK-NEXT:    func.return %c
func.func @through_add(%x : tensor<2x17x5x4xf32, #nchw>, %y : tensor<2x17x5x4xf32, #nchw>) -> tensor<2x17x5x4xf32, #nchw> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
  %b = layout.reorder %y : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
  %c = nn.add %a, %b : tensor<2x17x5x4xf32, #nhwc>
  %d = layout.reorder %c : tensor<2x17x5x4xf32, #nhwc> -> tensor<2x17x5x4xf32, #nchw>
  func.return %d : tensor<2x17x5x4xf32, #nchw>
}

// Exp of zero is one, so the pads are not what the result promises: filling them is cheaper than two reorders.
// CHECK-LABEL: func.func @through_exp(
// CHECK-NEXT:    %b = nn.exp %x
// CHECK-NEXT:    %c = layout.fill_pads %b
// CHECK-NEXT:    func.return %c
func.func @through_exp(%x : tensor<2x17x5x4xf32, #nChw8c>) -> tensor<2x17x5x4xf32, #nChw8c> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nChw8c> -> tensor<2x17x5x4xf32, #nchw>
  %b = nn.exp %a : tensor<2x17x5x4xf32, #nchw>
  %c = layout.reorder %b : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nChw8c>
  func.return %c : tensor<2x17x5x4xf32, #nChw8c>
}

// The middle is needed elsewhere: one reorder is left of two.
// CHECK-LABEL: func.func @two_uses(
// CHECK-NEXT:    %b = nn.relu %x
// CHECK-NEXT:    %0 = layout.reorder %b
// CHECK-NEXT:    func.return %b, %0
func.func @two_uses(%x : tensor<2x17x5x4xf32, #nchw>) -> (tensor<2x17x5x4xf32, #nchw>, tensor<2x17x5x4xf32, #nhwc>) {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
  %b = nn.relu %a : tensor<2x17x5x4xf32, #nhwc>
  %c = layout.reorder %b : tensor<2x17x5x4xf32, #nhwc> -> tensor<2x17x5x4xf32, #nchw>
  func.return %c, %b : tensor<2x17x5x4xf32, #nchw>, tensor<2x17x5x4xf32, #nhwc>
}

// Only one of two operands comes from there: moving the op would save nothing.
// CHECK-LABEL: func.func @negative_other_operand(
// CHECK-NEXT:    %a = layout.reorder %x
// CHECK-NEXT:    %b = nn.add %a, %y
// CHECK-NEXT:    func.return %b
func.func @negative_other_operand(%x : tensor<2x17x5x4xf32, #nchw>, %y : tensor<2x17x5x4xf32, #nhwc>) -> tensor<2x17x5x4xf32, #nhwc> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
  %b = nn.add %a, %y : tensor<2x17x5x4xf32, #nhwc>
  func.return %b : tensor<2x17x5x4xf32, #nhwc>
}

// Several ops in a row.
// CHECK-LABEL: func.func @through_a_chain(
// CHECK-NEXT:    %b = nn.relu %x
// CHECK-NEXT:    %c = nn.sigmoid %b
// CHECK-NEXT:    %d = nn.tanh %c
// CHECK-NEXT:    func.return %d
func.func @through_a_chain(%x : tensor<2x17x5x4xf32, #nchw>) -> tensor<2x17x5x4xf32, #nchw> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
  %b = nn.relu %a : tensor<2x17x5x4xf32, #nhwc>
  %c = nn.sigmoid %b : tensor<2x17x5x4xf32, #nhwc>
  %d = nn.tanh %c : tensor<2x17x5x4xf32, #nhwc>
  %e = layout.reorder %d : tensor<2x17x5x4xf32, #nhwc> -> tensor<2x17x5x4xf32, #nchw>
  func.return %e : tensor<2x17x5x4xf32, #nchw>
}
