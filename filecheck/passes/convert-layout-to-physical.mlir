// RUN: layout-opt %s -p convert-layout-to-physical | filecheck %s
// RUN: layout-opt %s -p "convert-layout-to-physical{reorders=call}" | filecheck %s --check-prefix=CALL

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>
#nChw8c = #layout.tag<nChw8c>
#open = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>

// --- Reorders ---

// CHECK-LABEL: func.func @transpose(%x: tensor<2x17x5x4xf32>) -> tensor<2x5x4x17xf32> {
// CHECK-NEXT:    %r = layout.permute %x perm = [0, 2, 3, 1] : tensor<2x17x5x4xf32> -> tensor<2x5x4x17xf32>
// CHECK-NEXT:    func.return %r
// CALL-LABEL: func.func @transpose(
// CALL-NEXT:    %r = func.call @reorder_0(%x) : (tensor<2x17x5x4xf32>) -> tensor<2x5x4x17xf32>
func.func @transpose(%x : tensor<2x17x5x4xf32>) -> tensor<2x17x5x4xf32, #nhwc> {
  %r = layout.reorder %x : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #nhwc>
  func.return %r : tensor<2x17x5x4xf32, #nhwc>
}

// CHECK-LABEL: func.func @into_blocks(
// CHECK-NEXT:    nn.pad %x pads = [0, 0, 0, 0, 0, 7, 0, 0] : (tensor<2x17x5x4xf32>) -> tensor<2x24x5x4xf32>
// CHECK-NEXT:    layout.reshape {{.*}} -> tensor<2x3x8x5x4xf32>
// CHECK-NEXT:    layout.permute {{.*}} perm = [0, 1, 3, 4, 2] : {{.*}} -> tensor<2x3x5x4x8xf32>
// CHECK-NEXT:    func.return
func.func @into_blocks(%x : tensor<2x17x5x4xf32>) -> tensor<2x17x5x4xf32, #nChw8c> {
  %r = layout.reorder %x : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #nChw8c>
  func.return %r : tensor<2x17x5x4xf32, #nChw8c>
}

// CHECK-LABEL: func.func @out_of_blocks(
// CHECK-NEXT:    layout.permute %x perm = [0, 2, 3, 1, 4]
// CHECK-NEXT:    layout.reshape {{.*}} -> tensor<2x5x4x24xf32>
// CHECK-NEXT:    nn.slice {{.*}} sizes = [2, 5, 4, 17]
// CHECK-NEXT:    func.return
func.func @out_of_blocks(%x : tensor<2x17x5x4xf32, #nChw8c>) -> tensor<2x17x5x4xf32, #nhwc> {
  %r = layout.reorder %x : tensor<2x17x5x4xf32, #nChw8c> -> tensor<2x17x5x4xf32, #nhwc>
  func.return %r : tensor<2x17x5x4xf32, #nhwc>
}

// One position everywhere but in one dim: nothing moves, and dims of one position are where they were.
// CHECK-LABEL: func.func @negative_nothing_moves(
// CHECK-NEXT:    func.return %x : tensor<1x17x1x1xf32>
func.func @negative_nothing_moves(%x : tensor<1x17x1x1xf32>) -> tensor<1x17x1x1xf32, #nhwc> {
  %r = layout.reorder %x : tensor<1x17x1x1xf32> -> tensor<1x17x1x1xf32, #nhwc>
  func.return %r : tensor<1x17x1x1xf32, #nhwc>
}

// Where pads already hold what the result promises they stay; a cast of the same buffer is nothing.
// CHECK-LABEL: func.func @negative_cast(
// CHECK-NEXT:    func.return %x
func.func @negative_cast(%x : tensor<2x17x5x4xf32, #nChw8c>) -> tensor<2x17x5x4xf32, #open> {
  %r = layout.cast %x : tensor<2x17x5x4xf32, #nChw8c> -> tensor<2x17x5x4xf32, #open>
  func.return %r : tensor<2x17x5x4xf32, #open>
}

// CHECK-LABEL: func.func @conversion(
// CHECK-NEXT:    [[Q:%.*]] = layout.reorder %x scale = [1, 0.5] : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xi8>
// CHECK-NEXT:    layout.permute [[Q]] perm = [0, 2, 3, 1]
func.func @conversion(%x : tensor<2x17x5x4xf32>) -> tensor<2x17x5x4xi8, #nhwc> {
  %r = layout.reorder %x scale = [1.0, 0.5] : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xi8, #nhwc>
  func.return %r : tensor<2x17x5x4xi8, #nhwc>
}

// --- Views ---

// The transposition that the format absorbed is gone.
// CHECK-LABEL: func.func @absorbed(%x: tensor<2x5x4x17xf32>) -> tensor<2x5x4x17xf32> {
// CHECK-NEXT:    func.return %x
func.func @absorbed(%x : tensor<2x17x5x4xf32, #nhwc>) -> tensor<2x5x4x17xf32> {
  %r = layout.permute %x perm = [0, 2, 3, 1] : tensor<2x17x5x4xf32, #nhwc> -> tensor<2x5x4x17xf32>
  func.return %r : tensor<2x5x4x17xf32>
}

// Without encodings it is what the program computes.
// CHECK-LABEL: func.func @negative_bare(
// CHECK-NEXT:    layout.permute %x perm = [0, 2, 3, 1] : tensor<2x17x5x4xf32> -> tensor<2x5x4x17xf32>
func.func @negative_bare(%x : tensor<2x17x5x4xf32>) -> tensor<2x5x4x17xf32> {
  %r = layout.permute %x perm = [0, 2, 3, 1] : tensor<2x17x5x4xf32> -> tensor<2x5x4x17xf32>
  func.return %r : tensor<2x5x4x17xf32>
}

// --- Constants ---

// CHECK-LABEL: func.func @constants(
// CHECK-NEXT:    nn.constant dense<{{\[}}[1.0{{.*}}, 3.0{{.*}}], [2.0{{.*}}, 4.0{{.*}}]]> : tensor<2x2xf32>
// CHECK-NEXT:    nn.constant dense<2.0{{[^,]*}}> : tensor<2x5x4x17xf32>
// CHECK-NEXT:    func.return
func.func @constants() -> (tensor<2x2xf32, #layout.tag<ba>>, tensor<2x17x5x4xf32, #nhwc>) {
  %a = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32, #layout.tag<ba>>
  %b = nn.constant dense<2.0> : tensor<2x17x5x4xf32, #nhwc>
  func.return %a, %b : tensor<2x2xf32, #layout.tag<ba>>, tensor<2x17x5x4xf32, #nhwc>
}

// --- Ops ---

// A bias per channel gets the blocks of the channels.
// CHECK-LABEL: func.func @broadcast(
// CHECK-NEXT:    [[B:%.*]] = layout.reshape %b : tensor<16x1x1xf32> -> tensor<2x1x1x8xf32>
// CHECK-NEXT:    nn.add %x, [[B]] : (tensor<2x2x5x4x8xf32>, tensor<2x1x1x8xf32>) -> tensor<2x2x5x4x8xf32>
func.func @broadcast(%x : tensor<2x16x5x4xf32, #nChw8c>, %b : tensor<16x1x1xf32>) -> tensor<2x16x5x4xf32, #nChw8c> {
  %r = nn.add %x, %b : (tensor<2x16x5x4xf32, #nChw8c>, tensor<16x1x1xf32>) -> tensor<2x16x5x4xf32, #nChw8c>
  func.return %r : tensor<2x16x5x4xf32, #nChw8c>
}

// CHECK-LABEL: func.func @axes(
// CHECK-NEXT:    [[S:%.*]] = nn.softmax %x : tensor<2x5x4x17xf32>
// CHECK-NEXT:    [[C:%.*]] = nn.concat [[S]], %x axis = 3 : (tensor<2x5x4x17xf32>, tensor<2x5x4x17xf32>) -> tensor<2x5x4x34xf32>
// CHECK-NEXT:    nn.reduce_sum [[C]] axes = [1, 3] keepdims = false : (tensor<2x5x4x34xf32>) -> tensor<2x4xf32>
func.func @axes(%x : tensor<2x17x5x4xf32, #nhwc>) -> tensor<2x4xf32> {
  %s = nn.softmax %x axis = 1 : tensor<2x17x5x4xf32, #nhwc>
  %c = nn.concat %s, %x axis = 1 : (tensor<2x17x5x4xf32, #nhwc>, tensor<2x17x5x4xf32, #nhwc>) -> tensor<2x34x5x4xf32, #nhwc>
  %r = nn.reduce_sum %c axes = [1, 2] keepdims = false : (tensor<2x34x5x4xf32, #nhwc>) -> tensor<2x4xf32>
  func.return %r : tensor<2x4xf32>
}

// Pads are left out of the number of elements.
// CHECK-LABEL: func.func @mean_of_padded(
// CHECK-NEXT:    [[S:%.*]] = nn.reduce_sum %x axes = [1, 4] keepdims = false : (tensor<2x3x5x4x8xf32>) -> tensor<2x5x4xf32>
// CHECK-NEXT:    [[N:%.*]] = nn.constant dense<1.700000e+01> : tensor<f32>
// CHECK-NEXT:    nn.div [[S]], [[N]]
func.func @mean_of_padded(%x : tensor<2x17x5x4xf32, #nChw8c>) -> tensor<2x5x4xf32> {
  %r = nn.reduce_mean %x axes = [1] keepdims = false : (tensor<2x17x5x4xf32, #nChw8c>) -> tensor<2x5x4xf32>
  func.return %r : tensor<2x5x4xf32>
}

// CHECK-LABEL: func.func @window_in_order(
// CHECK-NEXT:    nn.max_pool %x kernel = [2, 2] : (tensor<2x17x5x4xf32>) -> tensor<2x17x4x3xf32>
func.func @window_in_order(%x : tensor<2x17x5x4xf32, #nchw>) -> tensor<2x17x4x3xf32, #nchw> {
  %r = nn.max_pool %x kernel = [2, 2] : (tensor<2x17x5x4xf32, #nchw>) -> tensor<2x17x4x3xf32, #nchw>
  func.return %r : tensor<2x17x4x3xf32, #nchw>
}

// CHECK-LABEL: func.func @negative_window_in_order(
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, (d2 + d4), (d3 + d5), d1)>
// CHECK:           arith.maximumf
func.func @negative_window_in_order(%x : tensor<2x17x5x4xf32, #nhwc>) -> tensor<2x17x4x3xf32, #nhwc> {
  %r = nn.max_pool %x kernel = [2, 2] : (tensor<2x17x5x4xf32, #nhwc>) -> tensor<2x17x4x3xf32, #nhwc>
  func.return %r : tensor<2x17x4x3xf32, #nhwc>
}

// A matrix that lies transposed is a flag.
// CHECK-LABEL: func.func @product(
// CHECK-NEXT:    nn.gemm %a, %b trans_b = true : (tensor<3x4xf32>, tensor<5x4xf32>) -> tensor<3x5xf32>
func.func @product(%a : tensor<3x4xf32>, %b : tensor<4x5xf32, #layout.tag<ba>>) -> tensor<3x5xf32> {
  %r = nn.matmul %a, %b : (tensor<3x4xf32>, tensor<4x5xf32, #layout.tag<ba>>) -> tensor<3x5xf32>
  func.return %r : tensor<3x5xf32>
}

// --- Regions and functions ---

// CHECK-LABEL: func.func @regions(%c: i1, %x: tensor<2x5x4x17xf32>) -> tensor<2x5x4x17xf32> {
// CHECK-NEXT:    scf.if %c -> (tensor<2x5x4x17xf32>) {
// CHECK-NEXT:      nn.relu %x : tensor<2x5x4x17xf32>
// CHECK:           func.call @other(%x) : (tensor<2x5x4x17xf32>) -> tensor<2x5x4x17xf32>
func.func @regions(%c : i1, %x : tensor<2x17x5x4xf32, #nhwc>) -> tensor<2x17x5x4xf32, #nhwc> {
  %r = scf.if %c -> (tensor<2x17x5x4xf32, #nhwc>) {
    %a = nn.relu %x : tensor<2x17x5x4xf32, #nhwc>
    scf.yield %a : tensor<2x17x5x4xf32, #nhwc>
  } else {
    %b = func.call @other(%x) : (tensor<2x17x5x4xf32, #nhwc>) -> tensor<2x17x5x4xf32, #nhwc>
    scf.yield %b : tensor<2x17x5x4xf32, #nhwc>
  }
  func.return %r : tensor<2x17x5x4xf32, #nhwc>
}

// CHECK: func.func private @other(tensor<2x5x4x17xf32>) -> tensor<2x5x4x17xf32>
func.func private @other(tensor<2x17x5x4xf32, #nhwc>) -> tensor<2x17x5x4xf32, #nhwc>

// Each pair of types is declared once.
// CALL: func.func private @reorder_0(tensor<2x17x5x4xf32>) -> tensor<2x5x4x17xf32> attributes {layout.reorder = (tensor<2x17x5x4xf32>) -> tensor<2x17x5x4xf32, #nhwc>}

// --- Normalizations ---

// Channels that are last in memory are the last dim there; a factor per channel needs no dims of space.
// CHECK-LABEL: func.func @layer_norm_of_channels(
// CHECK-NEXT:    [[S:%.*]] = layout.reshape %s : tensor<16x1x1xf32> -> tensor<1x1x16xf32>
// CHECK-NEXT:    nn.layer_norm %x, [[S]] : (tensor<2x5x4x16xf32>, tensor<1x1x16xf32>) -> tensor<2x5x4x16xf32>
func.func @layer_norm_of_channels(%x : tensor<2x16x5x4xf32, #nhwc>, %s : tensor<16x1x1xf32>) -> tensor<2x16x5x4xf32, #nhwc> {
  %r = nn.layer_norm %x, %s axes = [1] : (tensor<2x16x5x4xf32, #nhwc>, tensor<16x1x1xf32>) -> tensor<2x16x5x4xf32, #nhwc>
  func.return %r : tensor<2x16x5x4xf32, #nhwc>
}

// Groups of 4 channels are a part of each block of 8.
// CHECK-LABEL: func.func @group_norm_in_blocks(
// CHECK-NEXT:    [[X:%.*]] = layout.reshape %x : tensor<2x2x5x4x8xf32> -> tensor<2x2x5x4x2x4xf32>
// CHECK:         [[N:%.*]] = nn.layer_norm [[X]], {{.*}} axes = [2, 3, 5] : (tensor<2x2x5x4x2x4xf32>, tensor<2x1x1x2x4xf32>, tensor<2x1x1x2x4xf32>) -> tensor<2x2x5x4x2x4xf32>
// CHECK-NEXT:    layout.reshape [[N]] : tensor<2x2x5x4x2x4xf32> -> tensor<2x2x5x4x8xf32>
func.func @group_norm_in_blocks(%x : tensor<2x16x5x4xf32, #nChw8c>, %p : tensor<16xf32>) -> tensor<2x16x5x4xf32, #nChw8c> {
  %r = nn.group_norm %x, %p, %p groups = 4 : (tensor<2x16x5x4xf32, #nChw8c>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x16x5x4xf32, #nChw8c>
  func.return %r : tensor<2x16x5x4xf32, #nChw8c>
}

// CHECK-LABEL: func.func @group_norm_in_order(
// CHECK-NEXT:    nn.group_norm %x, %p, %p groups = 4
func.func @group_norm_in_order(%x : tensor<2x16x5x4xf32, #nchw>, %p : tensor<16xf32>) -> tensor<2x16x5x4xf32, #nchw> {
  %r = nn.group_norm %x, %p, %p groups = 4 : (tensor<2x16x5x4xf32, #nchw>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x16x5x4xf32, #nchw>
  func.return %r : tensor<2x16x5x4xf32, #nchw>
}

// --- Indices ---

// CHECK-LABEL: func.func @gather_rows(
// CHECK-NEXT:    nn.gather %x, %i axis = 1 : (tensor<2x5x4x17xf32>, tensor<3x6xi64>) -> tensor<2x3x6x4x17xf32>
func.func @gather_rows(%x : tensor<2x17x5x4xf32, #nhwc>, %i : tensor<3x6xi64>) -> tensor<2x17x3x6x4xf32, #layout.format<(n, c, a, b, w) : [n, a, b, w, c]>> {
  %r = nn.gather %x, %i axis = 2 : (tensor<2x17x5x4xf32, #nhwc>, tensor<3x6xi64>) -> tensor<2x17x3x6x4xf32, #layout.format<(n, c, a, b, w) : [n, a, b, w, c]>>
  func.return %r : tensor<2x17x3x6x4xf32, #layout.format<(n, c, a, b, w) : [n, a, b, w, c]>>
}

// A transposed convolution in channels last is a convolution of x with zeros between its elements.
// CHECK-LABEL: func.func @transposed_conv(
// CHECK-NOT:     layout.permute
// CHECK:         linalg.generic
// CHECK-NOT:     layout.permute
func.func @transposed_conv(%x : tensor<2x16x5x4xf32, #nhwc>, %w : tensor<16x7x3x3xf32>) -> tensor<2x7x11x9xf32, #nhwc> {
  %r = nn.conv_transpose %x, %w strides = [2, 2] : (tensor<2x16x5x4xf32, #nhwc>, tensor<16x7x3x3xf32>) -> tensor<2x7x11x9xf32, #nhwc>
  func.return %r : tensor<2x7x11x9xf32, #nhwc>
}
