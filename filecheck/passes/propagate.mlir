// RUN: layout-opt %s -p 'layout-propagate{target=blocked8}' | filecheck %s
// RUN: layout-opt %s -p 'layout-propagate{target=channels-last}' | filecheck %s --check-prefix=LAST

#nchw = #layout.tag<nchw>

// Two convolutions in blocks: reorders at the borders, none between.
// CHECK-LABEL: func.func @two_convolutions(
// CHECK:         %[[X:.+]] = layout.reorder %x : tensor<1x64x56x56xf32, #nchw> -> tensor<1x64x56x56xf32, #nChw8c>
// CHECK:         %a = nn.conv %[[X]], {{.*}} -> tensor<1x64x56x56xf32, #nChw8c>
// CHECK-NEXT:    %r = nn.relu %a : tensor<1x64x56x56xf32, #nChw8c>
// CHECK-NEXT:    %b = nn.conv %r, {{.*}} -> tensor<1x64x56x56xf32, #nChw8c>
// CHECK-NEXT:    %{{.+}} = layout.reorder %b : tensor<1x64x56x56xf32, #nChw8c> -> tensor<1x64x56x56xf32, #nchw>
// LAST-LABEL: func.func @two_convolutions(
// LAST:          %a = nn.conv {{.*}} -> tensor<1x64x56x56xf32, #nhwc>
// LAST-NEXT:     %r = nn.relu %a : tensor<1x64x56x56xf32, #nhwc>
func.func @two_convolutions(%x : tensor<1x64x56x56xf32, #nchw>) -> tensor<1x64x56x56xf32, #nchw> {
  %w = nn.constant dense<0.5> : tensor<64x64x3x3xf32, #layout.any>
  %a = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x64x56x56xf32, #nchw>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any>
  %r = nn.relu %a : tensor<1x64x56x56xf32, #layout.any>
  %b = nn.conv %r, %w pads = [1, 1, 1, 1] : (tensor<1x64x56x56xf32, #layout.any>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any>
  %y = layout.reorder %b : tensor<1x64x56x56xf32, #layout.any> -> tensor<1x64x56x56xf32, #nchw>
  func.return %y : tensor<1x64x56x56xf32, #nchw>
}

// An argument that is open may arrive as its use wants it, and the signature says so.
// CHECK-LABEL: func.func @open_weights(%x: tensor<1x64x56x56xf32, #nChw8c>, %w: tensor<64x64x3x3xf32, #OIhw8i8o>) -> tensor<1x64x56x56xf32, #nChw8c> {
// CHECK-NEXT:    %y = nn.conv %x, %w
// CHECK-NEXT:    func.return %y
func.func @open_weights(%x : tensor<1x64x56x56xf32, #layout.any>, %w : tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any> {
  %y = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x64x56x56xf32, #layout.any>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any>
  func.return %y : tensor<1x64x56x56xf32, #layout.any>
}

// A cheap op is not worth a reorder: everything stays plain.
// CHECK-LABEL: func.func @negative_nothing_to_gain(
// CHECK-NEXT:    %a = nn.relu %x : tensor<1x64x56x56xf32, #nchw>
// CHECK-NEXT:    %y = layout.reorder %a : tensor<1x64x56x56xf32, #nchw> -> tensor<1x64x56x56xf32, #nchw>
func.func @negative_nothing_to_gain(%x : tensor<1x64x56x56xf32, #nchw>) -> tensor<1x64x56x56xf32, #nchw> {
  %a = nn.relu %x : (tensor<1x64x56x56xf32, #nchw>) -> tensor<1x64x56x56xf32, #layout.any>
  %y = layout.reorder %a : tensor<1x64x56x56xf32, #layout.any> -> tensor<1x64x56x56xf32, #nchw>
  func.return %y : tensor<1x64x56x56xf32, #nchw>
}

// Exp spoils the zeros in the pads, so the convolution behind it gets them filled.
// CHECK-LABEL: func.func @pads_are_restored(
// CHECK:         %a = nn.conv {{.*}} -> tensor<1x60x56x56xf32, #nChw8c>
// CHECK-NEXT:    %e = nn.exp %a : (tensor<1x60x56x56xf32, #nChw8c>) -> tensor<1x60x56x56xf32, #nChw8c_pad1>
// CHECK-NEXT:    %[[E:.+]] = layout.reorder %e : tensor<1x60x56x56xf32, #nChw8c_pad1> -> tensor<1x60x56x56xf32, #nChw8c>
// CHECK-NEXT:    %b = nn.conv %[[E]]
func.func @pads_are_restored(%x : tensor<1x60x56x56xf32, #layout.any>) -> tensor<1x60x56x56xf32, #layout.any> {
  %w = nn.constant dense<0.5> : tensor<60x60x3x3xf32, #layout.any>
  %a = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x60x56x56xf32, #layout.any>, tensor<60x60x3x3xf32, #layout.any>) -> tensor<1x60x56x56xf32, #layout.any>
  %e = nn.exp %a : tensor<1x60x56x56xf32, #layout.any>
  %b = nn.conv %e, %w pads = [1, 1, 1, 1] : (tensor<1x60x56x56xf32, #layout.any>, tensor<60x60x3x3xf32, #layout.any>) -> tensor<1x60x56x56xf32, #layout.any>
  func.return %b : tensor<1x60x56x56xf32, #layout.any>
}

// Flattening a blocked tensor for a matrix product costs nothing: the weights are packed in the same order.
// CHECK-LABEL: func.func @flattened_into_gemm(
// CHECK-NEXT:    %w = nn.constant
// CHECK-NEXT:    %[[W:.+]] = layout.reorder %w
// CHECK-NEXT:    %f = layout.reshape %x : tensor<1x64x7x7xf32, #nChw8c> -> tensor<1x3136xf32, #{{.*}}>
// CHECK-NEXT:    %y = nn.gemm %f, %[[W]]
func.func @flattened_into_gemm(%x : tensor<1x64x7x7xf32, #layout.tag<nChw8c>>) -> tensor<1x10xf32, #layout.any> {
  %w = nn.constant dense<0.5> : tensor<10x3136xf32, #layout.any>
  %f = layout.reshape %x : tensor<1x64x7x7xf32, #layout.tag<nChw8c>> -> tensor<1x3136xf32, #layout.any>
  %y = nn.gemm %f, %w trans_b = true : (tensor<1x3136xf32, #layout.any>, tensor<10x3136xf32, #layout.any>) -> tensor<1x10xf32, #layout.any>
  func.return %y : tensor<1x10xf32, #layout.any>
}

// What has a format keeps it.
// CHECK-LABEL: func.func @negative_fixed(
// CHECK-NEXT:    %a = nn.relu %x : tensor<1x64x56x56xf32, #nChw16c>
func.func @negative_fixed(%x : tensor<1x64x56x56xf32, #layout.tag<nChw16c>>) -> tensor<1x64x56x56xf32, #layout.any> {
  %a = nn.relu %x : (tensor<1x64x56x56xf32, #layout.tag<nChw16c>>) -> tensor<1x64x56x56xf32, #layout.any>
  func.return %a : tensor<1x64x56x56xf32, #layout.any>
}

// An opaque op has row-major tensors, whatever the ops around it would like.
// CHECK-LABEL: func.func @opaque(
// CHECK:         %a = nn.conv {{.*}} -> tensor<1x64x56x56xf32, #nChw8c>
// CHECK-NEXT:    %[[A:.+]] = layout.reorder %a : tensor<1x64x56x56xf32, #nChw8c> -> tensor<1x64x56x56xf32, #nchw>
// CHECK-NEXT:    %c = nn.opaque "Cos" opset 7 (%[[A]]) : (tensor<1x64x56x56xf32, #nchw>) -> tensor<1x64x56x56xf32, #nchw>
// CHECK-NEXT:    %[[C:.+]] = layout.reorder %c : tensor<1x64x56x56xf32, #nchw> -> tensor<1x64x56x56xf32, #nChw8c>
func.func @opaque(%x : tensor<1x64x56x56xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any> {
  %w = nn.constant dense<0.5> : tensor<64x64x3x3xf32, #layout.any>
  %a = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x64x56x56xf32, #layout.any>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any>
  %c = nn.opaque "Cos" opset 7 (%a) : (tensor<1x64x56x56xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any>
  %b = nn.conv %c, %w pads = [1, 1, 1, 1] : (tensor<1x64x56x56xf32, #layout.any>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any>
  func.return %b : tensor<1x64x56x56xf32, #layout.any>
}
