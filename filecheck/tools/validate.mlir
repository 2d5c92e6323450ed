// RUN: layout-opt %s -p 'layout-optimize{target=blocked8}' --validate=execute | filecheck %s
// RUN: layout-opt %s -p 'layout-propagate{target=blocked8},layout-fold-reorders,layout-strip' --validate | filecheck %s --check-prefix=STRIPPED
// RUN: not layout-opt %s --validate=guess 2>&1 | filecheck %s --check-prefix=MODE

// MODE: error: {{.*}}guess

// CHECK: nn.conv
// STRIPPED-NOT: layout.reorder
func.func @main(%x : tensor<1x8x6x6xf32, #layout.tag<nchw>>) -> tensor<1x8x6x6xf32, #layout.tag<nchw>> {
  %w = nn.constant dense<0.5> : tensor<8x8x3x3xf32, #layout.any>
  %a = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x8x6x6xf32, #layout.tag<nchw>>, tensor<8x8x3x3xf32, #layout.any>) -> tensor<1x8x6x6xf32, #layout.any>
  %y = layout.reorder %a : tensor<1x8x6x6xf32, #layout.any> -> tensor<1x8x6x6xf32, #layout.tag<nchw>>
  func.return %y : tensor<1x8x6x6xf32, #layout.tag<nchw>>
}
