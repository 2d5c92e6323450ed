// RUN: layout-opt %s -p 'layout-propagate{target=ort-nchwc8}' | filecheck %s --check-prefix=ORT
// RUN: layout-opt %s -p 'layout-propagate{target=blocked8}' | filecheck %s --check-prefix=AVX2
// RUN: layout-opt %s -p 'layout-propagate{target=megengine-cuda}' | filecheck %s --check-prefix=CUDA

// Blocked convolutions around an op that only some kernels run in blocks: an add of a constant per channel.
// AVX2-LABEL: func.func @add_per_channel(
// AVX2:          %r = nn.relu {{.*}}#nChw8c>
// AVX2-NEXT:     %s = nn.add %r, {{.*}} -> tensor<1x64x14x14xf32, #nChw8c>
// AVX2-NEXT:     %b = nn.conv %s
// ORT-LABEL: func.func @add_per_channel(
// ORT:           layout.reorder {{.*}} : tensor<1x64x14x14xf32, #nChw8c> -> tensor<1x64x14x14xf32, #nchw>
// ORT:           %s = nn.add {{.*}} -> tensor<1x64x14x14xf32, #nchw>
// ORT-NEXT:      %[[S:.+]] = layout.reorder %s : tensor<1x64x14x14xf32, #nchw> -> tensor<1x64x14x14xf32, #nChw8c>
// ORT-NEXT:      %b = nn.conv %[[S]]
// CUDA-LABEL: func.func @add_per_channel(
// CUDA-NOT:      layout.reorder %{{[rs]}}
// CUDA:          %b = nn.conv %s
func.func @add_per_channel(%x : tensor<1x64x14x14xf32, #layout.any>) -> tensor<1x64x14x14xf32, #layout.any> {
  %w = nn.constant dense<0.5> : tensor<64x64x1x1xf32, #layout.any>
  %c = nn.constant dense<0.5> : tensor<64x1x1xf32, #layout.any>
  %a = nn.conv %x, %w : (tensor<1x64x14x14xf32, #layout.any>, tensor<64x64x1x1xf32, #layout.any>) -> tensor<1x64x14x14xf32, #layout.any>
  %r = nn.relu %a : tensor<1x64x14x14xf32, #layout.any>
  %s = nn.add %r, %c : (tensor<1x64x14x14xf32, #layout.any>, tensor<64x1x1xf32, #layout.any>) -> tensor<1x64x14x14xf32, #layout.any>
  %b = nn.conv %s, %w : (tensor<1x64x14x14xf32, #layout.any>, tensor<64x64x1x1xf32, #layout.any>) -> tensor<1x64x14x14xf32, #layout.any>
  func.return %b : tensor<1x64x14x14xf32, #layout.any>
}

// Right behind a convolution such a constant becomes part of its weights, so it costs no reorder.
// ORT-LABEL: func.func @negative_folded_into_the_convolution(
// ORT:           %a = nn.conv
// ORT-NEXT:      %s = nn.add %a, {{.*}} -> tensor<1x64x14x14xf32, #nChw8c>
// ORT-NEXT:      %b = nn.conv %s
func.func @negative_folded_into_the_convolution(%x : tensor<1x64x14x14xf32, #layout.any>) -> tensor<1x64x14x14xf32, #layout.any> {
  %w = nn.constant dense<0.5> : tensor<64x64x1x1xf32, #layout.any>
  %c = nn.constant dense<0.5> : tensor<64x1x1xf32, #layout.any>
  %a = nn.conv %x, %w : (tensor<1x64x14x14xf32, #layout.any>, tensor<64x64x1x1xf32, #layout.any>) -> tensor<1x64x14x14xf32, #layout.any>
  %s = nn.add %a, %c : (tensor<1x64x14x14xf32, #layout.any>, tensor<64x1x1xf32, #layout.any>) -> tensor<1x64x14x14xf32, #layout.any>
  %b = nn.conv %s, %w : (tensor<1x64x14x14xf32, #layout.any>, tensor<64x64x1x1xf32, #layout.any>) -> tensor<1x64x14x14xf32, #layout.any>
  func.return %b : tensor<1x64x14x14xf32, #layout.any>
}

// 8-bit pools run in blocks of 4 and 32 channels, floats do not.
// CUDA-LABEL: func.func @pools(
// CUDA:          nn.max_pool %x {{.*}} : (tensor<1x64x8x8xi8, #nChw32c>) -> tensor<1x64x4x4xi8, #nChw32c>
// CUDA:          nn.max_pool {{.*}} -> tensor<1x64x4x4xf32, #nchw>
func.func @pools(%x : tensor<1x64x8x8xi8, #layout.tag<nChw32c>>, %y : tensor<1x64x8x8xf32, #layout.tag<nChw32c>>) -> (tensor<1x64x4x4xi8, #layout.any>, tensor<1x64x4x4xf32, #layout.any>) {
  %p = nn.max_pool %x kernel = [2, 2] strides = [2, 2] : (tensor<1x64x8x8xi8, #layout.tag<nChw32c>>) -> tensor<1x64x4x4xi8, #layout.any>
  %q = nn.max_pool %y kernel = [2, 2] strides = [2, 2] : (tensor<1x64x8x8xf32, #layout.tag<nChw32c>>) -> tensor<1x64x4x4xf32, #layout.any>
  func.return %p, %q : tensor<1x64x4x4xi8, #layout.any>, tensor<1x64x4x4xf32, #layout.any>
}
