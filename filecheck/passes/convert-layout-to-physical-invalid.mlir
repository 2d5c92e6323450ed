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
