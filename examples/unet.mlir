// A small U-Net: down twice by pooling, up twice by resizing, with the finer level joined in by concat each time.
// 24 + 16 and 16 + 8 channels: all parts begin at a block of 8, not all at one of 16.
//   layout-ir optimize examples/unet.mlir --target avx512 --report

#nchw = #layout.tag<nchw>

func.func @main(%image : tensor<1x3x16x16xf32, #nchw>) -> tensor<1x2x16x16xf32, #nchw> {
  %x = layout.reorder %image : tensor<1x3x16x16xf32, #nchw> -> tensor<1x3x16x16xf32, #layout.any>
  %w0 = nn.constant dense<0.05> : tensor<8x3x3x3xf32, #layout.any>
  %a0 = nn.conv %x, %w0 pads = [1, 1, 1, 1] : (tensor<1x3x16x16xf32, #layout.any>, tensor<8x3x3x3xf32, #layout.any>) -> tensor<1x8x16x16xf32, #layout.any>
  %a = nn.relu %a0 : tensor<1x8x16x16xf32, #layout.any>
  %a2 = nn.max_pool %a kernel = [2, 2] strides = [2, 2] : (tensor<1x8x16x16xf32, #layout.any>) -> tensor<1x8x8x8xf32, #layout.any>

  %w1 = nn.constant dense<0.04> : tensor<16x8x3x3xf32, #layout.any>
  %b0 = nn.conv %a2, %w1 pads = [1, 1, 1, 1] : (tensor<1x8x8x8xf32, #layout.any>, tensor<16x8x3x3xf32, #layout.any>) -> tensor<1x16x8x8xf32, #layout.any>
  %b = nn.relu %b0 : tensor<1x16x8x8xf32, #layout.any>
  %b2 = nn.max_pool %b kernel = [2, 2] strides = [2, 2] : (tensor<1x16x8x8xf32, #layout.any>) -> tensor<1x16x4x4xf32, #layout.any>

  %w2 = nn.constant dense<0.03> : tensor<24x16x3x3xf32, #layout.any>
  %c0 = nn.conv %b2, %w2 pads = [1, 1, 1, 1] : (tensor<1x16x4x4xf32, #layout.any>, tensor<24x16x3x3xf32, #layout.any>) -> tensor<1x24x4x4xf32, #layout.any>
  %c = nn.relu %c0 : tensor<1x24x4x4xf32, #layout.any>

  %up1 = nn.resize %c sizes = [1, 24, 8, 8] coordinates = asymmetric nearest_mode = floor : (tensor<1x24x4x4xf32, #layout.any>) -> tensor<1x24x8x8xf32, #layout.any>
  %cat1 = nn.concat %up1, %b axis = 1 : (tensor<1x24x8x8xf32, #layout.any>, tensor<1x16x8x8xf32, #layout.any>) -> tensor<1x40x8x8xf32, #layout.any>
  %w3 = nn.constant dense<0.02> : tensor<16x40x3x3xf32, #layout.any>
  %d0 = nn.conv %cat1, %w3 pads = [1, 1, 1, 1] : (tensor<1x40x8x8xf32, #layout.any>, tensor<16x40x3x3xf32, #layout.any>) -> tensor<1x16x8x8xf32, #layout.any>
  %d = nn.relu %d0 : tensor<1x16x8x8xf32, #layout.any>

  %up2 = nn.resize %d sizes = [1, 16, 16, 16] coordinates = asymmetric nearest_mode = floor : (tensor<1x16x8x8xf32, #layout.any>) -> tensor<1x16x16x16xf32, #layout.any>
  %cat2 = nn.concat %up2, %a axis = 1 : (tensor<1x16x16x16xf32, #layout.any>, tensor<1x8x16x16xf32, #layout.any>) -> tensor<1x24x16x16xf32, #layout.any>
  %w4 = nn.constant dense<0.02> : tensor<8x24x3x3xf32, #layout.any>
  %e0 = nn.conv %cat2, %w4 pads = [1, 1, 1, 1] : (tensor<1x24x16x16xf32, #layout.any>, tensor<8x24x3x3xf32, #layout.any>) -> tensor<1x8x16x16xf32, #layout.any>
  %e = nn.relu %e0 : tensor<1x8x16x16xf32, #layout.any>
  %w5 = nn.constant dense<0.2> : tensor<2x8x1x1xf32, #layout.any>
  %f = nn.conv %e, %w5 : (tensor<1x8x16x16xf32, #layout.any>, tensor<2x8x1x1xf32, #layout.any>) -> tensor<1x2x16x16xf32, #layout.any>
  %y = layout.reorder %f : tensor<1x2x16x16xf32, #layout.any> -> tensor<1x2x16x16xf32, #nchw>
  func.return %y : tensor<1x2x16x16xf32, #nchw>
}
