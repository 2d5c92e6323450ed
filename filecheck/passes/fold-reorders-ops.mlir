// RUN: layout-opt %s -p layout-fold-reorders | filecheck %s

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>
#nChw8c = #layout.tag<nChw8c>
#nc = #layout.tag<nc>

// ----------------------------------------------------------------------------------------------------------------
// Broadcast operands
// ----------------------------------------------------------------------------------------------------------------

// CHECK-LABEL: func.func @through_broadcast(
// CHECK-NEXT:    %b = nn.mul %x, %s
// CHECK-NEXT:    func.return %b
func.func @through_broadcast(%x : tensor<2x16x5x4xf32, #nchw>, %s : tensor<16x1x1xf32>) -> tensor<2x16x5x4xf32, #nchw> {
  %a = layout.reorder %x : tensor<2x16x5x4xf32, #nchw> -> tensor<2x16x5x4xf32, #nChw8c>
  %b = nn.mul %a, %s : (tensor<2x16x5x4xf32, #nChw8c>, tensor<16x1x1xf32>) -> tensor<2x16x5x4xf32, #nChw8c>
  %c = layout.reorder %b : tensor<2x16x5x4xf32, #nChw8c> -> tensor<2x16x5x4xf32, #nchw>
  func.return %c : tensor<2x16x5x4xf32, #nchw>
}

// The pads of the sum are not known, so those that the result promises are filled.
// CHECK-LABEL: func.func @negative_broadcast_spoils_pads(
// CHECK-NEXT:    %b = nn.add %x, %s {{.*}} -> tensor<2x17x5x4xf32, #nChw8c_undef>
// CHECK-NEXT:    %c = layout.fill_pads %b
// CHECK-NEXT:    func.return %c
func.func @negative_broadcast_spoils_pads(%x : tensor<2x17x5x4xf32, #nChw8c>, %s : tensor<17x1x1xf32>) -> tensor<2x17x5x4xf32, #nChw8c> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nChw8c> -> tensor<2x17x5x4xf32, #nchw>
  %b = nn.add %a, %s : (tensor<2x17x5x4xf32, #nchw>, tensor<17x1x1xf32>) -> tensor<2x17x5x4xf32, #nchw>
  %c = layout.reorder %b : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nChw8c>
  func.return %c : tensor<2x17x5x4xf32, #nChw8c>
}

// ----------------------------------------------------------------------------------------------------------------
// Concat, slice, pad
// ----------------------------------------------------------------------------------------------------------------

// CHECK-LABEL: func.func @through_concat(
// CHECK-NEXT:    %c = nn.concat %x, %y axis = 1
// CHECK-NEXT:    func.return %c
func.func @through_concat(%x : tensor<2x16x5x4xf32, #nChw8c>, %y : tensor<2x8x5x4xf32, #nChw8c>) -> tensor<2x24x5x4xf32, #nChw8c> {
  %a = layout.reorder %x : tensor<2x16x5x4xf32, #nChw8c> -> tensor<2x16x5x4xf32, #nchw>
  %b = layout.reorder %y : tensor<2x8x5x4xf32, #nChw8c> -> tensor<2x8x5x4xf32, #nchw>
  %c = nn.concat %a, %b axis = 1 : (tensor<2x16x5x4xf32, #nchw>, tensor<2x8x5x4xf32, #nchw>) -> tensor<2x24x5x4xf32, #nchw>
  %d = layout.reorder %c : tensor<2x24x5x4xf32, #nchw> -> tensor<2x24x5x4xf32, #nChw8c>
  func.return %d : tensor<2x24x5x4xf32, #nChw8c>
}

// The first part ends inside of a block.
// CHECK-LABEL: func.func @negative_concat_inside_a_block(
// CHECK-NEXT:    %a = layout.reorder %x
// CHECK-NEXT:    %b = layout.reorder %y
// CHECK-NEXT:    %c = nn.concat %a, %b axis = 1
// CHECK-NEXT:    %d = layout.reorder %c
func.func @negative_concat_inside_a_block(%x : tensor<2x12x5x4xf32, #nChw8c>, %y : tensor<2x8x5x4xf32, #nChw8c>) -> tensor<2x20x5x4xf32, #nChw8c> {
  %a = layout.reorder %x : tensor<2x12x5x4xf32, #nChw8c> -> tensor<2x12x5x4xf32, #nchw>
  %b = layout.reorder %y : tensor<2x8x5x4xf32, #nChw8c> -> tensor<2x8x5x4xf32, #nchw>
  %c = nn.concat %a, %b axis = 1 : (tensor<2x12x5x4xf32, #nchw>, tensor<2x8x5x4xf32, #nchw>) -> tensor<2x20x5x4xf32, #nchw>
  %d = layout.reorder %c : tensor<2x20x5x4xf32, #nchw> -> tensor<2x20x5x4xf32, #nChw8c>
  func.return %d : tensor<2x20x5x4xf32, #nChw8c>
}

// A slice is smaller than what it is cut from, so reordering what is cut out costs less.
// CHECK-LABEL: func.func @behind_slice(
// CHECK-NEXT:    %b = nn.slice %x
// CHECK-NEXT:    %0 = layout.reorder %b : tensor<2x16x2x2xf32, #nchw> -> tensor<2x16x2x2xf32, #nChw8c>
// CHECK-NEXT:    func.return %0
func.func @behind_slice(%x : tensor<2x16x50x40xf32, #nchw>) -> tensor<2x16x2x2xf32, #nChw8c> {
  %a = layout.reorder %x : tensor<2x16x50x40xf32, #nchw> -> tensor<2x16x50x40xf32, #nChw8c>
  %b = nn.slice %a starts = [0, 0, 1, 1] sizes = [2, 16, 2, 2] : (tensor<2x16x50x40xf32, #nChw8c>) -> tensor<2x16x2x2xf32, #nChw8c>
  func.return %b : tensor<2x16x2x2xf32, #nChw8c>
}

// Channels are cut inside of a block, which the blocked Format does not allow.
// CHECK-LABEL: func.func @negative_slice_of_a_blocked_dim(
// CHECK-NEXT:    %a = layout.reorder %x
// CHECK-NEXT:    %b = nn.slice %a
func.func @negative_slice_of_a_blocked_dim(%x : tensor<2x16x50x40xf32, #nChw8c>) -> tensor<2x3x50x40xf32, #nchw> {
  %a = layout.reorder %x : tensor<2x16x50x40xf32, #nChw8c> -> tensor<2x16x50x40xf32, #nchw>
  %b = nn.slice %a starts = [0, 2, 0, 0] sizes = [2, 3, 50, 40] : (tensor<2x16x50x40xf32, #nchw>) -> tensor<2x3x50x40xf32, #nchw>
  func.return %b : tensor<2x3x50x40xf32, #nchw>
}

// CHECK-LABEL: func.func @in_front_of_pad(
// CHECK-NEXT:    %0 = layout.reorder %x : tensor<2x16x50x40xf32, #nchw> -> tensor<2x16x50x40xf32, #nChw8c>
// CHECK-NEXT:    %a = nn.pad %0
// CHECK-NEXT:    func.return %a
func.func @in_front_of_pad(%x : tensor<2x16x50x40xf32, #nchw>) -> tensor<2x16x60x60xf32, #nChw8c> {
  %a = nn.pad %x pads = [0, 0, 5, 10, 0, 0, 5, 10] : (tensor<2x16x50x40xf32, #nchw>) -> tensor<2x16x60x60xf32, #nchw>
  %b = layout.reorder %a : tensor<2x16x60x60xf32, #nchw> -> tensor<2x16x60x60xf32, #nChw8c>
  func.return %b : tensor<2x16x60x60xf32, #nChw8c>
}

// ----------------------------------------------------------------------------------------------------------------
// Pools and reductions
// ----------------------------------------------------------------------------------------------------------------

// CHECK-LABEL: func.func @behind_pool(
// CHECK-NEXT:    %b = nn.max_pool %x
// CHECK-NEXT:    %0 = layout.reorder %b : tensor<1x16x25x20xf32, #nchw> -> tensor<1x16x25x20xf32, #nhwc>
// CHECK-NEXT:    func.return %0
func.func @behind_pool(%x : tensor<1x16x50x40xf32, #nchw>) -> tensor<1x16x25x20xf32, #nhwc> {
  %a = layout.reorder %x : tensor<1x16x50x40xf32, #nchw> -> tensor<1x16x50x40xf32, #nhwc>
  %b = nn.max_pool %a kernel = [2, 2] strides = [2, 2] : (tensor<1x16x50x40xf32, #nhwc>) -> tensor<1x16x25x20xf32, #nhwc>
  func.return %b : tensor<1x16x25x20xf32, #nhwc>
}

// A resized image is bigger than what it comes from: the reorder stays in front.
// CHECK-LABEL: func.func @negative_growing(
// CHECK-NEXT:    %a = layout.reorder %x
// CHECK-NEXT:    %b = nn.resize %a
func.func @negative_growing(%x : tensor<1x16x50x40xf32, #nchw>) -> tensor<1x16x100x80xf32, #nhwc> {
  %a = layout.reorder %x : tensor<1x16x50x40xf32, #nchw> -> tensor<1x16x50x40xf32, #nhwc>
  %b = nn.resize %a sizes = [1, 16, 100, 80] : (tensor<1x16x50x40xf32, #nhwc>) -> tensor<1x16x100x80xf32, #nhwc>
  func.return %b : tensor<1x16x100x80xf32, #nhwc>
}

// One number per channel is left: the reorder is only another name.
// CHECK-LABEL: func.func @behind_reduce(
// CHECK-NEXT:    %b = nn.reduce_sum %x
// CHECK-NEXT:    %0 = layout.cast %b
// CHECK-NEXT:    func.return %0
func.func @behind_reduce(%x : tensor<1x16x50x40xf32, #nchw>) -> tensor<1x16x1x1xf32, #nhwc> {
  %a = layout.reorder %x : tensor<1x16x50x40xf32, #nchw> -> tensor<1x16x50x40xf32, #nhwc>
  %b = nn.reduce_sum %a axes = [2, 3] : (tensor<1x16x50x40xf32, #nhwc>) -> tensor<1x16x1x1xf32, #nhwc>
  func.return %b : tensor<1x16x1x1xf32, #nhwc>
}

// A maximum over blocked, padded channels would see zeros: writing the pads is cheaper than moving everything.
// CHECK-LABEL: func.func @max_over_pads(
// CHECK-NEXT:    %[[F:.+]] = layout.fill_pads %x : {{.*}} -> tensor<1x17x50x40xf32, #nChw8c_padminf>
// CHECK-NEXT:    %b = nn.reduce_max %[[F]] axes = [1]
// CHECK-NEXT:    %{{.+}} = layout.reorder %b
func.func @max_over_pads(%x : tensor<1x17x50x40xf32, #nChw8c>) -> tensor<1x1x50x40xf32, #nchw> {
  %a = layout.reorder %x : tensor<1x17x50x40xf32, #nChw8c> -> tensor<1x17x50x40xf32, #nchw>
  %b = nn.reduce_max %a axes = [1] : (tensor<1x17x50x40xf32, #nchw>) -> tensor<1x1x50x40xf32, #nchw>
  func.return %b : tensor<1x1x50x40xf32, #nchw>
}

// ----------------------------------------------------------------------------------------------------------------
// Views
// ----------------------------------------------------------------------------------------------------------------

// A transposition back and forth, and a reorder that says the same.
// CHECK-LABEL: func.func @through_permute(
// CHECK-NEXT:    %b = layout.permute %x perm = [0, 2, 3, 1]
// CHECK-NOT:     layout.reorder
// CHECK:         func.return
func.func @through_permute(%x : tensor<2x16x5x4xf32, #nchw>) -> tensor<2x5x4x16xf32, #layout.format<(n, h, w, c) : [n, c, h, w]>> {
  %a = layout.reorder %x : tensor<2x16x5x4xf32, #nchw> -> tensor<2x16x5x4xf32, #nhwc>
  %b = layout.permute %a perm = [0, 2, 3, 1] : tensor<2x16x5x4xf32, #nhwc> -> tensor<2x5x4x16xf32, #layout.format<(n, h, w, c) : [n, h, w, c]>>
  %c = layout.reorder %b : tensor<2x5x4x16xf32, #layout.format<(n, h, w, c) : [n, h, w, c]>> -> tensor<2x5x4x16xf32, #layout.format<(n, h, w, c) : [n, c, h, w]>>
  func.return %c : tensor<2x5x4x16xf32, #layout.format<(n, h, w, c) : [n, c, h, w]>>
}

// Splitting the channels of a blocked tensor is a view, if at whole blocks.
// CHECK-LABEL: func.func @through_reshape(
// CHECK-NEXT:    %b = layout.reshape %x
// CHECK-NOT:     layout.reorder
// CHECK:         func.return
func.func @through_reshape(%x : tensor<2x16x5x4xf32, #nchw>) -> tensor<2x16x20xf32> {
  %a = layout.reorder %x : tensor<2x16x5x4xf32, #nchw> -> tensor<2x16x5x4xf32, #nhwc>
  %b = layout.reshape %a : tensor<2x16x5x4xf32, #nhwc> -> tensor<2x16x20xf32, #layout.format<(a, b, c) : [a, c, b]>>
  %c = layout.reorder %b : tensor<2x16x20xf32, #layout.format<(a, b, c) : [a, c, b]>> -> tensor<2x16x20xf32>
  func.return %c : tensor<2x16x20xf32>
}

// Rows of 170 elements begin inside of a channel of 20, which no layout of channels last says.
// CHECK-LABEL: func.func @negative_reshape_without_image(
// CHECK-NEXT:    %a = layout.reorder %x
// CHECK-NEXT:    %b = layout.reshape %a
// CHECK-NEXT:    %c = layout.reorder %b
func.func @negative_reshape_without_image(%x : tensor<2x17x5x4xf32, #nhwc>) -> tensor<4x170xf32, #layout.tag<ba>> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nhwc> -> tensor<2x17x5x4xf32, #nchw>
  %b = layout.reshape %a : tensor<2x17x5x4xf32, #nchw> -> tensor<4x170xf32, #nc>
  %c = layout.reorder %b : tensor<4x170xf32, #nc> -> tensor<4x170xf32, #layout.tag<ba>>
  func.return %c : tensor<4x170xf32, #layout.tag<ba>>
}

// ----------------------------------------------------------------------------------------------------------------
// Constants
// ----------------------------------------------------------------------------------------------------------------

// CHECK-LABEL: func.func @constant(
// CHECK-NEXT:    %c = nn.constant dense<1.0{{.*}}> : tensor<16x4xf32, #ba>
// CHECK-NEXT:    func.return %c
func.func @constant() -> tensor<16x4xf32, #layout.tag<ba>> {
  %c = nn.constant dense<1.0> : tensor<16x4xf32>
  %d = layout.reorder %c : tensor<16x4xf32> -> tensor<16x4xf32, #layout.tag<ba>>
  func.return %d : tensor<16x4xf32, #layout.tag<ba>>
}

// What is only known at run time is reordered there.
// CHECK-LABEL: func.func @negative_argument(
// CHECK-NEXT:    %d = layout.reorder %c
func.func @negative_argument(%c : tensor<16x4xf32>) -> tensor<16x4xf32, #layout.tag<ba>> {
  %d = layout.reorder %c : tensor<16x4xf32> -> tensor<16x4xf32, #layout.tag<ba>>
  func.return %d : tensor<16x4xf32, #layout.tag<ba>>
}
