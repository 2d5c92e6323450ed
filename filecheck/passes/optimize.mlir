// RUN: layout-opt %s -p 'layout-optimize{target=blocked8}' | filecheck %s
// RUN: layout-opt %s -p 'layout-optimize{target=blocked8},layout-strip' > %t.one && layout-opt %s -p layout-strip > %t.two && diff %t.one %t.two

#nchw = #layout.tag<nchw>

// A residual block: weights are packed, both branches and the sum stay in blocks.
// CHECK-LABEL: func.func @residual(
// CHECK-NEXT:    %[[X:.+]] = layout.reorder %x : tensor<1x64x56x56xf32, #nchw> -> tensor<1x64x56x56xf32, #nChw8c>
// CHECK-NEXT:    %w = nn.constant {{.*}} : tensor<64x64x3x3xf32, #OIhw8i8o>
// CHECK-NEXT:    %a = nn.conv %[[X]], %w
// CHECK-NEXT:    %r = nn.relu %a
// CHECK-NEXT:    %b = nn.conv %r, %w
// CHECK-NEXT:    %s = nn.add %b, %[[X]] : tensor<1x64x56x56xf32, #nChw8c>
// CHECK-NEXT:    %t = nn.conv %s, %w
// CHECK-NEXT:    %y = layout.reorder %t : tensor<1x64x56x56xf32, #nChw8c> -> tensor<1x64x56x56xf32, #nchw>
// CHECK-NEXT:    func.return %y
func.func @residual(%x : tensor<1x64x56x56xf32, #nchw>) -> tensor<1x64x56x56xf32, #nchw> {
  %w = nn.constant dense<0.5> : tensor<64x64x3x3xf32, #layout.any>
  %a = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x64x56x56xf32, #nchw>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any>
  %r = nn.relu %a : tensor<1x64x56x56xf32, #layout.any>
  %b = nn.conv %r, %w pads = [1, 1, 1, 1] : (tensor<1x64x56x56xf32, #layout.any>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any>
  %s = nn.add %b, %x : (tensor<1x64x56x56xf32, #layout.any>, tensor<1x64x56x56xf32, #nchw>) -> tensor<1x64x56x56xf32, #layout.any>
  %t = nn.conv %s, %w pads = [1, 1, 1, 1] : (tensor<1x64x56x56xf32, #layout.any>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any>
  %y = layout.reorder %t : tensor<1x64x56x56xf32, #layout.any> -> tensor<1x64x56x56xf32, #nchw>
  func.return %y : tensor<1x64x56x56xf32, #nchw>
}
