// Ops of other dialects around a convolution: what they do with layouts and pads is derived from their loops and bodies.
// The rectification keeps zeros in pads, the exponential makes ones of them; 20 channels need pads in blocks of 8 and 16.
//   layout-ir optimize examples/foreign.mlir --target avx2 --report

#nchw = #layout.tag<nchw>
#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#channel = affine_map<(n, c, h, w) -> (c)>

func.func @main(%image : tensor<1x20x12x12xf32, #nchw>) -> tensor<1x20x144xf32> {
  %x = layout.reorder %image : tensor<1x20x12x12xf32, #nchw> -> tensor<1x20x12x12xf32, #layout.any>
  %w0 = nn.constant dense<0.02> : tensor<20x20x3x3xf32, #layout.any>
  %a = nn.conv %x, %w0 pads = [1, 1, 1, 1] : (tensor<1x20x12x12xf32, #layout.any>, tensor<20x20x3x3xf32, #layout.any>) -> tensor<1x20x12x12xf32, #layout.any>

  %bias = nn.constant dense<0.1> : tensor<20xf32, #layout.any>
  %e0 = tensor.empty() : tensor<1x20x12x12xf32, #layout.any>
  %b = linalg.generic {indexing_maps = [#id, #channel, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a, %bias : tensor<1x20x12x12xf32, #layout.any>, tensor<20xf32, #layout.any>) outs(%e0 : tensor<1x20x12x12xf32, #layout.any>) {
  ^bb0(%p : f32, %q : f32, %r : f32):
    %zero = arith.constant 0.0 : f32
    %sum = arith.addf %p, %q : f32
    %max = arith.maximumf %sum, %zero : f32
    linalg.yield %max : f32
  } -> tensor<1x20x12x12xf32, #layout.any>
  %c = arith.addf %b, %b : tensor<1x20x12x12xf32, #layout.any>
  %d = math.tanh %c : tensor<1x20x12x12xf32, #layout.any>

  %w1 = nn.constant dense<0.03> : tensor<20x20x1x1xf32, #layout.any>
  %e1 = tensor.empty() : tensor<1x20x12x12xf32, #layout.any>
  %f = nn.conv %d, %w1 : (tensor<1x20x12x12xf32, #layout.any>, tensor<20x20x1x1xf32, #layout.any>) -> tensor<1x20x12x12xf32, #layout.any>
  %g = linalg.exp ins(%f : tensor<1x20x12x12xf32, #layout.any>) outs(%e1 : tensor<1x20x12x12xf32, #layout.any>) -> tensor<1x20x12x12xf32, #layout.any>
  %h = nn.add %g, %x : tensor<1x20x12x12xf32, #layout.any>
  %i = tensor.collapse_shape %h [[0], [1], [2, 3]] : tensor<1x20x12x12xf32, #layout.any> into tensor<1x20x144xf32, #layout.any>
  %y = layout.reorder %i : tensor<1x20x144xf32, #layout.any> -> tensor<1x20x144xf32>
  func.return %y : tensor<1x20x144xf32>
}
