// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>
#nChw8c = #layout.tag<nChw8c>
#open = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>

// CHECK-LABEL: func.func @reorder(
// CHECK-NEXT:    %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nChw8c>
// CHECK-NEXT:    %b = layout.reorder %a {note = "back"} : tensor<2x17x5x4xf32, #nChw8c> -> tensor<2x17x5x4xf32, #nhwc>
// CHECK-NEXT:    %c = layout.reorder %b : tensor<2x17x5x4xf32, #nhwc> -> tensor<2x17x5x4xf32>
// CHECK-NEXT:    %d = layout.reorder %c : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.any>
func.func @reorder(%x : tensor<2x17x5x4xf32, #nchw>) {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nChw8c>
  %b = layout.reorder %a {note = "back"} : tensor<2x17x5x4xf32, #nChw8c> -> tensor<2x17x5x4xf32, #nhwc>
  %c = layout.reorder %b : tensor<2x17x5x4xf32, #nhwc> -> tensor<2x17x5x4xf32>
  %d = layout.reorder %c : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.any>
  func.return
}

// CHECK-LABEL: func.func @converting(
// CHECK-NEXT:    %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xi8, #nhwc>
func.func @converting(%x : tensor<2x17x5x4xf32, #nchw>) {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xi8, #nhwc>
  func.return
}

// CHECK-LABEL: func.func @quantized(
// CHECK-NEXT:    %a = layout.reorder %x scale = [1, 0.05] zero_point = [0, 3] {note = "in"} : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xi8, #nhwc>
// CHECK-NEXT:    %b = layout.reorder %a scale = [0.05, 0.1] : tensor<2x17x5x4xi8, #nhwc> -> tensor<2x17x5x4xi8, #nhwc>
func.func @quantized(%x : tensor<2x17x5x4xf32, #nchw>) {
  %a = layout.reorder %x scale = [1.0, 5.0e-02] zero_point = [0, 3] {note = "in"} : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xi8, #nhwc>
  %b = layout.reorder %a scale = [0.05, 0.1] : tensor<2x17x5x4xi8, #nhwc> -> tensor<2x17x5x4xi8, #nhwc>
  func.return
}

// A list has a number for each index of a dim, on either side; a list of one stays a list.
// CHECK-LABEL: func.func @channels(
// CHECK-NEXT:    %a = layout.reorder %x scale = [1, [0.05, 1.0e-05, 2]] zero_point = [0, [3, -2, 0]] dim = 1 {note = "in"} : tensor<2x3x5x4xf32, #nchw> -> tensor<2x3x5x4xi8, #nhwc>
// CHECK-NEXT:    %b = layout.reorder %a scale = {{\[}}[0.05, 1.0e-05, 2], 0.1] zero_point = {{\[}}[3, -2, 0], 7] dim = 1 : tensor<2x3x5x4xi8, #nhwc> -> tensor<2x3x5x4xi8, #nhwc>
// CHECK-NEXT:    %c = layout.reorder %y scale = [1, [0.5]] dim = 0 : tensor<1x8xf32> -> tensor<1x8xi8>
func.func @channels(%x : tensor<2x3x5x4xf32, #nchw>, %y : tensor<1x8xf32>) {
  %a = layout.reorder %x scale = [1.0, [0.05, 0.00001, 2.0]] zero_point = [0, [3, -2, 0]] dim = 1 {note = "in"} : tensor<2x3x5x4xf32, #nchw> -> tensor<2x3x5x4xi8, #nhwc>
  %b = layout.reorder %a scale = [[0.05, 1.0e-05, 2], 0.1] zero_point = [[3, -2, 0], 7] dim = 1 : tensor<2x3x5x4xi8, #nhwc> -> tensor<2x3x5x4xi8, #nhwc>
  %c = layout.reorder %y scale = [1, [0.5]] dim = 0 : tensor<1x8xf32> -> tensor<1x8xi8>
  func.return
}

// CHECK-LABEL: func.func @fill_pads(
// CHECK-NEXT:    %a = layout.fill_pads %x : tensor<2x17x5x4xf32, #nChw8c_undef> -> tensor<2x17x5x4xf32, #nChw8c>
func.func @fill_pads(%x : tensor<2x17x5x4xf32, #open>) {
  %a = layout.fill_pads %x : tensor<2x17x5x4xf32, #open> -> tensor<2x17x5x4xf32, #nChw8c>
  func.return
}

// With 16 channels and one pixel, blocked and plain are the same bytes.
// CHECK-LABEL: func.func @cast(
// CHECK-NEXT:    %a = layout.cast %x : tensor<2x16x1x1xf32, #nChw8c> -> tensor<2x16x1x1xf32, #nchw>
func.func @cast(%x : tensor<2x16x1x1xf32, #nChw8c>) {
  %a = layout.cast %x : tensor<2x16x1x1xf32, #nChw8c> -> tensor<2x16x1x1xf32, #nchw>
  func.return
}

// A transposed channels-last tensor is row-major.
// CHECK-LABEL: func.func @permute(
// CHECK-NEXT:    %a = layout.permute %x perm = [0, 2, 3, 1] : tensor<2x17x5x4xf32, #nhwc> -> tensor<2x5x4x17xf32>
func.func @permute(%x : tensor<2x17x5x4xf32, #nhwc>) {
  %a = layout.permute %x perm = [0, 2, 3, 1] : tensor<2x17x5x4xf32, #nhwc> -> tensor<2x5x4x17xf32>
  func.return
}

// Flattening space leaves blocks alone.
// CHECK-LABEL: func.func @reshape(
// CHECK-NEXT:    %a = layout.reshape %x : tensor<2x17x5x4xf32, #nChw8c> -> tensor<2x17x20xf32, #nCw8c>
func.func @reshape(%x : tensor<2x17x5x4xf32, #nChw8c>) {
  %a = layout.reshape %x : tensor<2x17x5x4xf32, #nChw8c> -> tensor<2x17x20xf32, #layout.tag<nCw8c>>
  func.return
}

// CHECK-LABEL: func.func @slice(
// CHECK-NEXT:    %a = layout.slice %x starts = [0, 8, 0, 0] sizes = [1, 8, 5, 4]
func.func @slice(%x : tensor<2x17x5x4xf32, #nChw8c>) {
  %a = layout.slice %x starts = [0, 8, 0, 0] sizes = [1, 8, 5, 4] : tensor<2x17x5x4xf32, #nChw8c>
    -> tensor<1x8x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8], offset = 160>>
  func.return
}
