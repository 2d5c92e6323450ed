// RUN: layout-opt %s -p 'layout-propagate{target=blocked8},layout-fold-reorders' | filecheck %s

#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>
#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#channel = affine_map<(n, c, h, w) -> (c)>

// Between two convolutions, loops over elements take blocks as they come; the initial tensor is made in them.
// CHECK-LABEL: func.func @generic(
// CHECK:         %a = nn.conv {{.*}} -> tensor<1x64x56x56xf32, #nChw8c>
// CHECK-NEXT:    %e = tensor.empty() : tensor<1x64x56x56xf32, #nChw8c>
// CHECK-NEXT:    %b = linalg.generic {{.*}} ins(%a, %bias : tensor<1x64x56x56xf32, #nChw8c>, tensor<64xf32{{.*}}>) outs(%e : tensor<1x64x56x56xf32, #nChw8c>)
// CHECK-NOT:     layout.reorder
// CHECK:         %c = arith.mulf %b, %b : tensor<1x64x56x56xf32, #nChw8c>
// CHECK:         %d = nn.conv %c
func.func @generic(%x : tensor<1x64x56x56xf32, #nChw8c>, %bias : tensor<64xf32>) -> tensor<1x64x56x56xf32, #nChw8c> {
  %w = nn.constant dense<0.5> : tensor<64x64x3x3xf32, #layout.any>
  %a = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x64x56x56xf32, #nChw8c>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any>
  %e = tensor.empty() : tensor<1x64x56x56xf32, #layout.any>
  %b = linalg.generic {indexing_maps = [#id, #channel, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a, %bias : tensor<1x64x56x56xf32, #layout.any>, tensor<64xf32>) outs(%e : tensor<1x64x56x56xf32, #layout.any>) {
  ^bb0(%p : f32, %q : f32, %r : f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<1x64x56x56xf32, #layout.any>
  %c = arith.mulf %b, %b : tensor<1x64x56x56xf32, #layout.any>
  %d = nn.conv %c, %w pads = [1, 1, 1, 1] : (tensor<1x64x56x56xf32, #layout.any>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any>
  %y = layout.reorder %d : tensor<1x64x56x56xf32, #layout.any> -> tensor<1x64x56x56xf32, #nChw8c>
  func.return %y : tensor<1x64x56x56xf32, #nChw8c>
}

// The convolution of linalg runs on the target's kernels.
// CHECK-LABEL: func.func @convolution(
// CHECK:         linalg.conv_2d_nchw_fchw {{.*}} ins(%x, %{{.+}} : tensor<1x64x58x58xf32, #nChw8c>, tensor<64x64x3x3xf32, #OIhw8i8o>) outs(%e : tensor<1x64x56x56xf32, #nChw8c>) -> tensor<1x64x56x56xf32, #nChw8c>
func.func @convolution(%x : tensor<1x64x58x58xf32, #nChw8c>) -> tensor<1x64x56x56xf32, #nChw8c> {
  %w = arith.constant dense<0.5> : tensor<64x64x3x3xf32, #layout.any>
  %e = tensor.empty() : tensor<1x64x56x56xf32, #layout.any>
  %a = linalg.conv_2d_nchw_fchw {"dilations" = dense<1> : tensor<2xi64>, "strides" = dense<1> : tensor<2xi64>} ins(%x, %w : tensor<1x64x58x58xf32, #nChw8c>, tensor<64x64x3x3xf32, #layout.any>) outs(%e : tensor<1x64x56x56xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any>
  %y = layout.reorder %a : tensor<1x64x56x56xf32, #layout.any> -> tensor<1x64x56x56xf32, #nChw8c>
  func.return %y : tensor<1x64x56x56xf32, #nChw8c>
}

// A division of integers never sees a pad: 17 channels are not blocked for it.
// CHECK-LABEL: func.func @negative_division(
// CHECK:         %r = arith.divsi %{{.+}}, %{{.+}} : tensor<1x17x5x4xi32, #nchw>
func.func @negative_division(%x : tensor<1x17x5x4xi32, #nChw8c>) -> tensor<1x17x5x4xi32, #nChw8c> {
  %i = layout.reorder %x : tensor<1x17x5x4xi32, #nChw8c> -> tensor<1x17x5x4xi32, #layout.any>
  %r = arith.divsi %i, %i : tensor<1x17x5x4xi32, #layout.any>
  %y = layout.reorder %r : tensor<1x17x5x4xi32, #layout.any> -> tensor<1x17x5x4xi32, #nChw8c>
  func.return %y : tensor<1x17x5x4xi32, #nChw8c>
}
