// RUN: layout-opt %s -p layout-strip | filecheck %s

#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>
#open = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>

// Reorders, fills and casts go, and so does every encoding.
// CHECK-LABEL: func.func @all_of_it(%x: tensor<2x17x5x4xf32>) -> tensor<2x17x5x4xf32> {
// CHECK-NEXT:    %d = nn.relu %x : tensor<2x17x5x4xf32>
// CHECK-NEXT:    func.return %d : tensor<2x17x5x4xf32>
func.func @all_of_it(%x : tensor<2x17x5x4xf32, #nchw>) -> tensor<2x17x5x4xf32, #nchw> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #open>
  %b = layout.fill_pads %a : tensor<2x17x5x4xf32, #open> -> tensor<2x17x5x4xf32, #nChw8c>
  %c = layout.cast %b : tensor<2x17x5x4xf32, #nChw8c> -> tensor<2x17x5x4xf32, #open>
  %d = nn.relu %c : tensor<2x17x5x4xf32, #open>
  %e = layout.reorder %d : tensor<2x17x5x4xf32, #open> -> tensor<2x17x5x4xf32, #nchw>
  func.return %e : tensor<2x17x5x4xf32, #nchw>
}

// One constant packed for two uses is one constant.
// CHECK-LABEL: func.func @constants(
// CHECK-NEXT:    %a = nn.constant dense<2.0
// CHECK-NEXT:    %c = nn.add %a, %a
// CHECK-NEXT:    func.return
func.func @constants() {
  %a = nn.constant dense<2.0> : tensor<1x8x2x2xf32, #nchw>
  %b = nn.constant dense<2.0> : tensor<1x8x2x2xf32, #nChw8c>
  %r = layout.reorder %b : tensor<1x8x2x2xf32, #nChw8c> -> tensor<1x8x2x2xf32, #nchw>
  %c = nn.add %a, %r : tensor<1x8x2x2xf32, #nchw>
  func.return
}

// Views compute nothing either, but they are part of what the program says.
// CHECK-LABEL: func.func @negative_views_stay(
// CHECK-NEXT:    %a = layout.permute %x perm = [0, 2, 3, 1] : tensor<2x17x5x4xf32> -> tensor<2x5x4x17xf32>
func.func @negative_views_stay(%x : tensor<2x17x5x4xf32, #layout.tag<nhwc>>) {
  %a = layout.permute %x perm = [0, 2, 3, 1] : tensor<2x17x5x4xf32, #layout.tag<nhwc>> -> tensor<2x5x4x17xf32>
  func.return
}

// A reorder to another element type computes something.
// CHECK-LABEL: func.func @negative_conversion_stays(
// CHECK-NEXT:    %a = layout.reorder %x : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xi8>
func.func @negative_conversion_stays(%x : tensor<2x17x5x4xf32, #nchw>) {
  %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xi8, #layout.tag<nhwc>>
  func.return
}

// An encoding of another dialect is not ours to erase.
// CHECK-LABEL: func.func @negative_other_numbers_stay(
// CHECK-NEXT:    %a = layout.reorder %x scale = [0.05, 0.1] : tensor<2x17xi8> -> tensor<2x17xi8>
func.func @negative_other_numbers_stay(%x : tensor<2x17xi8>) -> tensor<2x17xi8> {
  %a = layout.reorder %x scale = [0.05, 0.1] : tensor<2x17xi8> -> tensor<2x17xi8>
  %b = layout.reorder %a scale = [1, 1] zero_point = [0, 0] : tensor<2x17xi8> -> tensor<2x17xi8>
  func.return %b : tensor<2x17xi8>
}

// CHECK-LABEL: func.func @negative_channels_stay(
// CHECK-NEXT:    %a = layout.reorder %x scale = {{\[}}[0.05, 0.5], 0.1] dim = 0 : tensor<2x17xi8> -> tensor<2x17xi8>
func.func @negative_channels_stay(%x : tensor<2x17xi8, #layout.tag<ba>>) -> tensor<2x17xi8> {
  %a = layout.reorder %x scale = [[0.05, 0.5], 0.1] dim = 0 : tensor<2x17xi8, #layout.tag<ba>> -> tensor<2x17xi8>
  %b = layout.reorder %a scale = [[1, 1], 1] zero_point = [[0, 0], 0] dim = 0 : tensor<2x17xi8> -> tensor<2x17xi8>
  func.return %b : tensor<2x17xi8>
}

// CHECK-LABEL: func.func @negative_foreign_encoding(%x: tensor<2xf32, "sparse">)
func.func @negative_foreign_encoding(%x : tensor<2xf32, "sparse">) {
  func.return
}
