// A channel shuffle (reshape, transpose, reshape) between convolutions that like blocked channels.
// Four groups of eight channels are dealt out like cards; on a blocked tensor that is an exchange of digits.
//   layout-ir optimize examples/channel_shuffle.mlir --target avx2 --report

#nchw = #layout.tag<nchw>

func.func @main(%image : tensor<1x32x14x14xf32, #nchw>) -> tensor<1x32x14x14xf32, #nchw> {
  %x = layout.reorder %image : tensor<1x32x14x14xf32, #nchw> -> tensor<1x32x14x14xf32, #layout.any>
  %w0 = nn.constant dense<0.05> : tensor<32x32x3x3xf32, #layout.any>
  %a = nn.conv %x, %w0 pads = [1, 1, 1, 1] : (tensor<1x32x14x14xf32, #layout.any>, tensor<32x32x3x3xf32, #layout.any>) -> tensor<1x32x14x14xf32, #layout.any>
  %b = nn.relu %a : tensor<1x32x14x14xf32, #layout.any>

  %c = layout.reshape %b : tensor<1x32x14x14xf32, #layout.any> -> tensor<1x4x8x14x14xf32, #layout.any>
  %d = layout.permute %c perm = [0, 2, 1, 3, 4] : tensor<1x4x8x14x14xf32, #layout.any> -> tensor<1x8x4x14x14xf32, #layout.any>
  %e = layout.reshape %d : tensor<1x8x4x14x14xf32, #layout.any> -> tensor<1x32x14x14xf32, #layout.any>

  %w1 = nn.constant dense<0.03> : tensor<32x1x3x3xf32, #layout.any>
  %f = nn.conv %e, %w1 pads = [1, 1, 1, 1] group = 32 : (tensor<1x32x14x14xf32, #layout.any>, tensor<32x1x3x3xf32, #layout.any>) -> tensor<1x32x14x14xf32, #layout.any>
  %w2 = nn.constant dense<0.04> : tensor<32x32x1x1xf32, #layout.any>
  %g = nn.conv %f, %w2 : (tensor<1x32x14x14xf32, #layout.any>, tensor<32x32x1x1xf32, #layout.any>) -> tensor<1x32x14x14xf32, #layout.any>
  %h = nn.add %g, %x : tensor<1x32x14x14xf32, #layout.any>
  %y = layout.reorder %h : tensor<1x32x14x14xf32, #layout.any> -> tensor<1x32x14x14xf32, #nchw>
  func.return %y : tensor<1x32x14x14xf32, #nchw>
}
