// A residual network: a stem, two blocks with a skip each (the second one through a projection), a classifier.
//   layout-ir optimize examples/residual.mlir --target avx2 --report

#nchw = #layout.tag<nchw>

func.func @main(%image : tensor<1x3x16x16xf32, #nchw>) -> tensor<1x10xf32> {
  %x = layout.reorder %image : tensor<1x3x16x16xf32, #nchw> -> tensor<1x3x16x16xf32, #layout.any>
  %w0 = nn.constant dense<0.05> : tensor<16x3x3x3xf32, #layout.any>
  %stem = nn.conv %x, %w0 pads = [1, 1, 1, 1] : (tensor<1x3x16x16xf32, #layout.any>, tensor<16x3x3x3xf32, #layout.any>) -> tensor<1x16x16x16xf32, #layout.any>
  %a = nn.relu %stem : tensor<1x16x16x16xf32, #layout.any>

  // First block: the skip is the value itself.
  %w1 = nn.constant dense<0.02> : tensor<16x16x3x3xf32, #layout.any>
  %b = nn.conv %a, %w1 pads = [1, 1, 1, 1] : (tensor<1x16x16x16xf32, #layout.any>, tensor<16x16x3x3xf32, #layout.any>) -> tensor<1x16x16x16xf32, #layout.any>
  %c = nn.relu %b : tensor<1x16x16x16xf32, #layout.any>
  %w2 = nn.constant dense<-0.01> : tensor<16x16x3x3xf32, #layout.any>
  %d = nn.conv %c, %w2 pads = [1, 1, 1, 1] : (tensor<1x16x16x16xf32, #layout.any>, tensor<16x16x3x3xf32, #layout.any>) -> tensor<1x16x16x16xf32, #layout.any>
  %sum1 = nn.add %d, %a : tensor<1x16x16x16xf32, #layout.any>
  %e = nn.relu %sum1 : tensor<1x16x16x16xf32, #layout.any>

  // Second block: half the resolution, twice the channels, on both paths.
  %w3 = nn.constant dense<0.02> : tensor<32x16x3x3xf32, #layout.any>
  %f = nn.conv %e, %w3 strides = [2, 2] pads = [1, 1, 1, 1] : (tensor<1x16x16x16xf32, #layout.any>, tensor<32x16x3x3xf32, #layout.any>) -> tensor<1x32x8x8xf32, #layout.any>
  %g = nn.relu %f : tensor<1x32x8x8xf32, #layout.any>
  %w4 = nn.constant dense<0.01> : tensor<32x32x3x3xf32, #layout.any>
  %h = nn.conv %g, %w4 pads = [1, 1, 1, 1] : (tensor<1x32x8x8xf32, #layout.any>, tensor<32x32x3x3xf32, #layout.any>) -> tensor<1x32x8x8xf32, #layout.any>
  %w5 = nn.constant dense<0.1> : tensor<32x16x1x1xf32, #layout.any>
  %skip = nn.conv %e, %w5 strides = [2, 2] : (tensor<1x16x16x16xf32, #layout.any>, tensor<32x16x1x1xf32, #layout.any>) -> tensor<1x32x8x8xf32, #layout.any>
  %sum2 = nn.add %h, %skip : tensor<1x32x8x8xf32, #layout.any>
  %i = nn.relu %sum2 : tensor<1x32x8x8xf32, #layout.any>

  %pool = nn.global_avg_pool %i : (tensor<1x32x8x8xf32, #layout.any>) -> tensor<1x32x1x1xf32, #layout.any>
  %flat = layout.reshape %pool : tensor<1x32x1x1xf32, #layout.any> -> tensor<1x32xf32, #layout.any>
  %w6 = nn.constant dense<0.3> : tensor<32x10xf32, #layout.any>
  %logits = nn.gemm %flat, %w6 : (tensor<1x32xf32, #layout.any>, tensor<32x10xf32, #layout.any>) -> tensor<1x10xf32, #layout.any>
  %y = layout.reorder %logits : tensor<1x10xf32, #layout.any> -> tensor<1x10xf32>
  func.return %y : tensor<1x10xf32>
}
