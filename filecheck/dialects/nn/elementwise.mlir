// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
#undef = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>
#ones = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = 1>

// CHECK-LABEL: func.func @unary
func.func @unary(%x: tensor<2x3xf32>) {
  // CHECK-NEXT: %0 = nn.tanh %x : tensor<2x3xf32>
  %0 = nn.tanh %x : tensor<2x3xf32>
  // CHECK-NEXT: %1 = nn.exp %0 : tensor<2x3xf32>
  %1 = nn.exp %0 : tensor<2x3xf32>
  // CHECK-NEXT: %2 = nn.log %1 : tensor<2x3xf32>
  %2 = nn.log %1 : tensor<2x3xf32>
  // CHECK-NEXT: %3 = nn.sqrt %2 : tensor<2x3xf32>
  %3 = nn.sqrt %2 : tensor<2x3xf32>
  // CHECK-NEXT: %4 = nn.erf %3 : tensor<2x3xf32>
  %4 = nn.erf %3 : tensor<2x3xf32>
  // CHECK-NEXT: %5 = nn.neg %4 : tensor<2x3xf32>
  %5 = nn.neg %4 : tensor<2x3xf32>
  // CHECK-NEXT: %6 = nn.abs %5 : tensor<2x3xf32>
  %6 = nn.abs %5 : tensor<2x3xf32>
  // CHECK-NEXT: %7 = nn.reciprocal %6 : tensor<2x3xf32>
  %7 = nn.reciprocal %6 : tensor<2x3xf32>
  // CHECK-NEXT: %8 = nn.floor %7 : tensor<2x3xf32>
  %8 = nn.floor %7 : tensor<2x3xf32>
  // CHECK-NEXT: %9 = nn.ceil %8 : tensor<2x3xf32>
  %9 = nn.ceil %8 : tensor<2x3xf32>
  // CHECK-NEXT: %10 = nn.cast %9 : (tensor<2x3xf32>) -> tensor<2x3xi1>
  %10 = nn.cast %9 : (tensor<2x3xf32>) -> tensor<2x3xi1>
  // CHECK-NEXT: %11 = nn.sin %9 : tensor<2x3xf32>
  %11 = nn.sin %9 : tensor<2x3xf32>
  // CHECK-NEXT: %12 = nn.cos %11 : tensor<2x3xf32>
  %12 = nn.cos %11 : tensor<2x3xf32>
  // CHECK-NEXT: %13 = nn.mish %12 : tensor<2x3xf32>
  %13 = nn.mish %12 : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: func.func @prelu
func.func @prelu(%x: tensor<2x3x4x4xf32>, %slope: tensor<3x1x1xf32>) {
  // CHECK-NEXT: %0 = nn.prelu %x, %slope : (tensor<2x3x4x4xf32>, tensor<3x1x1xf32>) -> tensor<2x3x4x4xf32>
  %0 = nn.prelu %x, %slope : (tensor<2x3x4x4xf32>, tensor<3x1x1xf32>) -> tensor<2x3x4x4xf32>
  func.return
}

// CHECK-LABEL: func.func @binary
func.func @binary(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %i: tensor<4x1xi64>, %j: tensor<5xi64>) {
  // CHECK-NEXT: %0 = nn.add %x, %x : tensor<2x3xf32>
  %0 = nn.add %x, %x : tensor<2x3xf32>
  // CHECK-NEXT: %1 = nn.sub %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = nn.sub %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %2 = nn.mul %i, %j : (tensor<4x1xi64>, tensor<5xi64>) -> tensor<4x5xi64>
  %2 = nn.mul %i, %j : (tensor<4x1xi64>, tensor<5xi64>) -> tensor<4x5xi64>
  // CHECK-NEXT: %3 = nn.div %x, %x : tensor<2x3xf32>
  %3 = nn.div %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %4 = nn.pow %x, %x : tensor<2x3xf32>
  %4 = nn.pow %x, %x : tensor<2x3xf32>
  // CHECK-NEXT: %5 = nn.min %x, %x : tensor<2x3xf32>
  %5 = nn.min %x, %x : tensor<2x3xf32>
  // CHECK-NEXT: %6 = nn.max %x, %x : tensor<2x3xf32>
  %6 = nn.max %x, %x : tensor<2x3xf32>
  func.return
}

// What the op makes of the operands' pads, the result may claim: 0 + 0, 1 + 0, exp(0).
// CHECK-LABEL: func.func @pads_are_computed
func.func @pads_are_computed(%x: tensor<1x17x8x8xf32, #nChw8c>, %y: tensor<1x17x8x8xf32, #ones>, %z: tensor<1x17x8x8xf32, #undef>) {
  // CHECK-NEXT: nn.add %x, %x : tensor<1x17x8x8xf32, #nChw8c>
  %0 = nn.add %x, %x : tensor<1x17x8x8xf32, #nChw8c>
  // CHECK-NEXT: nn.add %x, %y : (tensor<1x17x8x8xf32, #nChw8c>, tensor<1x17x8x8xf32, #nChw8c_pad1>) -> tensor<1x17x8x8xf32, #nChw8c_pad1>
  %1 = nn.add %x, %y : (tensor<1x17x8x8xf32, #nChw8c>, tensor<1x17x8x8xf32, #ones>) -> tensor<1x17x8x8xf32, #ones>
  // CHECK-NEXT: nn.exp %x : (tensor<1x17x8x8xf32, #nChw8c>) -> tensor<1x17x8x8xf32, #nChw8c_pad1>
  %2 = nn.exp %x : (tensor<1x17x8x8xf32, #nChw8c>) -> tensor<1x17x8x8xf32, #ones>
  // CHECK-NEXT: nn.exp %z : tensor<1x17x8x8xf32, #nChw8c_undef>
  %3 = nn.exp %z : tensor<1x17x8x8xf32, #undef>
  // Without pads there is nothing to claim.
  func.return
}

// CHECK-LABEL: func.func @claim_without_pads
func.func @claim_without_pads(%x: tensor<1x16x8x8xf32, #undef>) {
  // CHECK-NEXT: nn.exp %x : (tensor<1x16x8x8xf32, #nChw8c_undef>) -> tensor<1x16x8x8xf32, #nChw8c>
  %0 = nn.exp %x : (tensor<1x16x8x8xf32, #undef>) -> tensor<1x16x8x8xf32, #nChw8c>
  func.return
}

// An operand that is broadcast may lie as it likes.
// CHECK-LABEL: func.func @broadcast_operand
func.func @broadcast_operand(%x: tensor<1x17x8x8xf32, #undef>, %y: tensor<17x1x1xf32>) {
  // CHECK-NEXT: nn.mul %x, %y : (tensor<1x17x8x8xf32, #nChw8c_undef>, tensor<17x1x1xf32>) -> tensor<1x17x8x8xf32, #nChw8c_undef>
  %0 = nn.mul %x, %y : (tensor<1x17x8x8xf32, #undef>, tensor<17x1x1xf32>) -> tensor<1x17x8x8xf32, #undef>
  func.return
}

// Formats that put every element of this shape at the same address are one format.
#nhwc = #layout.format<(n, c, h, w) : [n, h, w, c]>
#nchw = #layout.format<(n, c, h, w) : [n, c, h, w]>
// CHECK-LABEL: func.func @same_map
func.func @same_map(%x: tensor<4x16x1x1xf32, #nhwc>) {
  // CHECK-NEXT: nn.abs %x : (tensor<4x16x1x1xf32, #nhwc>) -> tensor<4x16x1x1xf32, #nchw>
  %0 = nn.abs %x : (tensor<4x16x1x1xf32, #nhwc>) -> tensor<4x16x1x1xf32, #nchw>
  func.return
}

// A format that is still to be chosen fits anything.
// CHECK-LABEL: func.func @any
func.func @any(%x: tensor<4x16x2x2xf32, #nhwc>, %y: tensor<4x16x2x2xf32, #layout.any>) {
  // CHECK-NEXT: nn.add %x, %y : (tensor<4x16x2x2xf32, #nhwc>, tensor<4x16x2x2xf32, #layout.any>) -> tensor<4x16x2x2xf32, #layout.any>
  %0 = nn.add %x, %y : (tensor<4x16x2x2xf32, #nhwc>, tensor<4x16x2x2xf32, #layout.any>) -> tensor<4x16x2x2xf32, #layout.any>
  func.return
}

// CHECK-LABEL: func.func @activations
func.func @activations(%x: tensor<2x3xf32>, %i: tensor<4xi32>) {
  // CHECK-NEXT: %0 = nn.relu %x : tensor<2x3xf32>
  %0 = nn.relu %x : tensor<2x3xf32>
  // CHECK-NEXT: %1 = nn.leaky_relu %0 alpha = 0.25 : tensor<2x3xf32>
  %1 = nn.leaky_relu %0 alpha = 0.25 : tensor<2x3xf32>
  // CHECK-NEXT: %2 = nn.elu %1 alpha = 2.0 : tensor<2x3xf32>
  %2 = nn.elu %1 alpha = 2 : tensor<2x3xf32>
  // CHECK-NEXT: %3 = nn.sigmoid %2 : tensor<2x3xf32>
  %3 = nn.sigmoid %2 : tensor<2x3xf32>
  // CHECK-NEXT: %4 = nn.hard_sigmoid %3 alpha = 0.16666666666666666 : tensor<2x3xf32>
  %4 = nn.hard_sigmoid %3 alpha = 0.16666666666666666 beta = 0.5 : tensor<2x3xf32>
  // CHECK-NEXT: %5 = nn.hard_swish %4 : tensor<2x3xf32>
  %5 = nn.hard_swish %4 : tensor<2x3xf32>
  // CHECK-NEXT: %6 = nn.softplus %5 : tensor<2x3xf32>
  %6 = nn.softplus %5 : tensor<2x3xf32>
  // CHECK-NEXT: %7 = nn.gelu %6 : tensor<2x3xf32>
  %7 = nn.gelu %6 approximate = none : tensor<2x3xf32>
  // CHECK-NEXT: %8 = nn.gelu %7 approximate = tanh : tensor<2x3xf32>
  %8 = nn.gelu %7 approximate = tanh : tensor<2x3xf32>
  // CHECK-NEXT: %9 = nn.clip %8 max = 6.0 : tensor<2x3xf32>
  %9 = nn.clip %8 min = -inf max = 6.0 : tensor<2x3xf32>
  // CHECK-NEXT: %10 = nn.clip %i min = -3.0 : tensor<4xi32>
  %10 = nn.clip %i min = -3 max = inf : tensor<4xi32>
  func.return
}

// CHECK-LABEL: func.func @more_activations
func.func @more_activations(%x: tensor<2x3xf32>) {
  // CHECK-NEXT: %0 = nn.sign %x : tensor<2x3xf32>
  %0 = nn.sign %x : tensor<2x3xf32>
  // CHECK-NEXT: %1 = nn.round %0 : tensor<2x3xf32>
  %1 = nn.round %0 : tensor<2x3xf32>
  // CHECK-NEXT: %2 = nn.celu %1 alpha = 0.5 : tensor<2x3xf32>
  %2 = nn.celu %1 alpha = 0.5 : tensor<2x3xf32>
  // CHECK-NEXT: %3 = nn.selu %2 : tensor<2x3xf32>
  %3 = nn.selu %2 : tensor<2x3xf32>
  // CHECK-NEXT: %4 = nn.selu %3 alpha = 1.0 gamma = 2.0 : tensor<2x3xf32>
  %4 = nn.selu %3 alpha = 1.0 gamma = 2.0 : tensor<2x3xf32>
  // CHECK-NEXT: %5 = nn.swish %4 alpha = 1.702 : tensor<2x3xf32>
  %5 = nn.swish %4 alpha = 1.702 : tensor<2x3xf32>
  // CHECK-NEXT: %6 = nn.softsign %5 : tensor<2x3xf32>
  %6 = nn.softsign %5 : tensor<2x3xf32>
  // CHECK-NEXT: %7 = nn.thresholded_relu %6 : tensor<2x3xf32>
  %7 = nn.thresholded_relu %6 alpha = 1.0 : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: func.func @truth_values
func.func @truth_values(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %i: tensor<2x3xi64>) {
  // CHECK-NEXT: %0 = nn.equal %i, %i : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi1>
  %0 = nn.equal %i, %i : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi1>
  // CHECK-NEXT: %1 = nn.greater %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %1 = nn.greater %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  // CHECK-NEXT: %2 = nn.greater_or_equal %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %2 = nn.greater_or_equal %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  // CHECK-NEXT: %3 = nn.less %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %3 = nn.less %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  // CHECK-NEXT: %4 = nn.less_or_equal %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %4 = nn.less_or_equal %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  // CHECK-NEXT: %5 = nn.and %0, %1 : tensor<2x3xi1>
  %5 = nn.and %0, %1 : tensor<2x3xi1>
  // CHECK-NEXT: %6 = nn.or %5, %2 : tensor<2x3xi1>
  %6 = nn.or %5, %2 : tensor<2x3xi1>
  // CHECK-NEXT: %7 = nn.xor %6, %3 : tensor<2x3xi1>
  %7 = nn.xor %6, %3 : tensor<2x3xi1>
  // CHECK-NEXT: %8 = nn.not %7 : tensor<2x3xi1>
  %8 = nn.not %7 : tensor<2x3xi1>
  // CHECK-NEXT: %9 = nn.where %8, %x, %y : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %9 = nn.where %8, %x, %y : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: func.func @truth_values_in_pads
func.func @truth_values_in_pads(%x: tensor<2x17x4x4xf32, #nChw8c>, %o: tensor<2x17x4x4xf32, #ones>) {
  // CHECK-NEXT: nn.less
  %0 = nn.less %x, %o : (tensor<2x17x4x4xf32, #nChw8c>, tensor<2x17x4x4xf32, #ones>) -> tensor<2x17x4x4xi1, #ones>
  // CHECK-NEXT: nn.where
  %1 = nn.where %0, %o, %x : (tensor<2x17x4x4xi1, #ones>, tensor<2x17x4x4xf32, #ones>, tensor<2x17x4x4xf32, #nChw8c>) -> tensor<2x17x4x4xf32, #ones>
  func.return
}
