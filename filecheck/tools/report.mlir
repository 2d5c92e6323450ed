// RUN: layout-ir optimize %s --target blocked8 --report | filecheck %s
// RUN: layout-ir optimize %s --target blocked8 | filecheck %s --check-prefix=SHORT

// CHECK: what remains:
// CHECK: nchw -> nChw8c  1.6 MB  between the caller and nn.conv
// CHECK: why:
// CHECK: nchw -> nChw8c moves 1605632 bytes, because the caller makes the one and nn.conv needs the other; doing without would cost {{[0-9]+}} ns more
// SHORT: what remains:
// SHORT-NOT: why:
func.func @main(%x : tensor<1x64x56x56xf32, #layout.tag<nchw>>) -> tensor<1x64x56x56xf32, #layout.tag<nChw8c>> {
  %w = nn.constant dense<0.5> : tensor<64x64x3x3xf32, #layout.any>
  %a = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x64x56x56xf32, #layout.tag<nchw>>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any>
  %y = layout.reorder %a : tensor<1x64x56x56xf32, #layout.any> -> tensor<1x64x56x56xf32, #layout.tag<nChw8c>>
  func.return %y : tensor<1x64x56x56xf32, #layout.tag<nChw8c>>
}
