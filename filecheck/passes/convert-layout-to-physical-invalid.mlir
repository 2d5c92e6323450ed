// RUN: layout-opt %s -p convert-layout-to-physical --split-input-file --verify-diagnostics

// expected-error @below {{the layout of tensor<2x3xf32, #layout.any> is still to be chosen: run layout-propagate first}}
func.func @any(%x : tensor<2x3xf32, #layout.any>) {
  func.return
}

// -----

// expected-error @below {{does not fill its addresses from 0 on, each once}}
func.func @holes(%x : tensor<2x3xf32, #layout.format<(a, b) : [a*16, b]>>) {
  func.return
}

// -----

#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = -inf>
func.func @softmax_along_blocks(%x : tensor<2x17x5x4xf32, #nChw8c>) -> tensor<2x17x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>> {
  // expected-error @below {{nn.softmax has no physical form: it works along dim 1, which}}
  %r = nn.softmax %x axis = 1 : (tensor<2x17x5x4xf32, #nChw8c>) -> tensor<2x17x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>>
  func.return %r : tensor<2x17x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>>
}

// -----

#nChw8c = #layout.tag<nChw8c>
func.func @concat_inside_a_block(%x : tensor<2x12x5x4xf32, #nChw8c>) -> tensor<2x24x5x4xf32, #nChw8c> {
  // expected-error @below {{nn.concat has no physical form: a part begins inside a block of 8 of dim 1}}
  %r = nn.concat %x, %x axis = 1 : (tensor<2x12x5x4xf32, #nChw8c>, tensor<2x12x5x4xf32, #nChw8c>) -> tensor<2x24x5x4xf32, #nChw8c>
  func.return %r : tensor<2x24x5x4xf32, #nChw8c>
}

// -----

func.func @unknown_op(%x : tensor<2x3xf32, #layout.tag<ba>>) {
  // expected-error @below {{test.op has no physical form: it is known on its own dims only, and one of its tensors is not row-major}}
  "test.op"(%x) : (tensor<2x3xf32, #layout.tag<ba>>) -> ()
  func.return
}

// -----

#undef = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>
func.func @negative_layer_norm_over_pads(%x : tensor<2x17x5x4xf32, #undef>, %s : tensor<17x1x1xf32>) -> tensor<2x17x5x4xf32, #undef> {
  // expected-error @below {{nn.layer_norm has no physical form: it works along dim 1, which}}
  %r = nn.layer_norm %x, %s axes = [1] : (tensor<2x17x5x4xf32, #undef>, tensor<17x1x1xf32>) -> tensor<2x17x5x4xf32, #undef>
  func.return %r : tensor<2x17x5x4xf32, #undef>
}

// -----

#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>
func.func @negative_groups_across_blocks(%x : tensor<2x48x5x4xf32, #nChw8c>, %p : tensor<48xf32>) -> tensor<2x48x5x4xf32, #nChw8c> {
  // expected-error @below {{nn.group_norm has no physical form: parts of 12 in dim 1 cut through its blocks}}
  %r = nn.group_norm %x, %p, %p groups = 4 : (tensor<2x48x5x4xf32, #nChw8c>, tensor<48xf32>, tensor<48xf32>) -> tensor<2x48x5x4xf32, #nChw8c>
  func.return %r : tensor<2x48x5x4xf32, #nChw8c>
}

// -----

#ba = #layout.tag<ba>
func.func @bytes_in_a_resource() -> tensor<2x3xf32, #ba> {
  // expected-error @below {{is not read, and may have to move: write its values as dense<...>}}
  %r = nn.constant dense_resource<far> : tensor<2x3xf32, #ba>
  func.return %r : tensor<2x3xf32, #ba>
}
