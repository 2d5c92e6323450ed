// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

#nchw = #layout.format<(n, c, h, w) : [n, c, h, w]>
#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
#OIhw8i8o = #layout.format<(o, i, h, w) : [o, i, h, w, i:8, o:8], pad = zero>

// CHECK-LABEL: func.func @every_attribute
func.func @every_attribute(%x: tensor<2x6x9x9xf32>, %w: tensor<8x3x3x2xf32>, %b: tensor<8xf32>) {
  // CHECK-NEXT: %0 = nn.conv %x, %w, %b strides = [2, 1] pads = [1, 0, 2, 1] dilations = [1, 3] group = 2 : (tensor<2x6x9x9xf32>, tensor<8x3x3x2xf32>, tensor<8xf32>) -> tensor<2x8x5x7xf32>
  %0 = nn.conv %x, %w, %b strides = [2, 1] pads = [1, 0, 2, 1] dilations = [1, 3] group = 2 : (tensor<2x6x9x9xf32>, tensor<8x3x3x2xf32>, tensor<8xf32>) -> tensor<2x8x5x7xf32>
  func.return
}

// CHECK-LABEL: func.func @defaults_are_not_printed
func.func @defaults_are_not_printed(%x: tensor<1x3x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  // CHECK-NEXT: %0 = nn.conv %x, %w : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x3x3xf32>
  %0 = nn.conv %x, %w strides = [1, 1] pads = [0, 0, 0, 0] dilations = [1, 1] group = 1 : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x3x3xf32>
  func.return
}

// CHECK-LABEL: func.func @attributes_come_in_any_order
func.func @attributes_come_in_any_order(%x: tensor<1x3x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  // CHECK-NEXT: %0 = nn.conv %x, %w strides = [2, 2] pads = [1, 1, 1, 1] {note = "kept"} : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x3x3xf32>
  %0 = nn.conv %x, %w pads = [1, 1, 1, 1] strides = [2, 2] {note = "kept"} : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x3x3xf32>
  func.return
}

// CHECK-LABEL: func.func @one_and_three_spatial_dims
func.func @one_and_three_spatial_dims(%x: tensor<1x3x8xf64>, %w: tensor<4x3x3xf64>, %y: tensor<1x2x4x5x6xf16>, %v: tensor<4x2x1x2x3xf16>) {
  // CHECK-NEXT: %0 = nn.conv %x, %w pads = [1, 1] : (tensor<1x3x8xf64>, tensor<4x3x3xf64>) -> tensor<1x4x8xf64>
  %0 = nn.conv %x, %w pads = [1, 1] : (tensor<1x3x8xf64>, tensor<4x3x3xf64>) -> tensor<1x4x8xf64>
  // CHECK-NEXT: %1 = nn.conv %y, %v : (tensor<1x2x4x5x6xf16>, tensor<4x2x1x2x3xf16>) -> tensor<1x4x4x4x4xf16>
  %1 = nn.conv %y, %v : (tensor<1x2x4x5x6xf16>, tensor<4x2x1x2x3xf16>) -> tensor<1x4x4x4x4xf16>
  func.return
}

// Any combination of formats is an op; which of them have a kernel is the target's business.
// CHECK-LABEL: func.func @mixed_formats
func.func @mixed_formats(%x: tensor<1x17x5x5xf32, #nchw>, %y: tensor<1x17x5x5xf32, #nChw8c>, %w: tensor<16x17x1x1xf32, #OIhw8i8o>, %v: tensor<16x17x1x1xf32, #layout.any>) {
  // CHECK-NEXT: %0 = nn.conv %x, %w : (tensor<1x17x5x5xf32, #nchw>, tensor<16x17x1x1xf32, #OIhw8i8o>) -> tensor<1x16x5x5xf32, #nChw8c>
  %0 = nn.conv %x, %w : (tensor<1x17x5x5xf32, #nchw>, tensor<16x17x1x1xf32, #OIhw8i8o>) -> tensor<1x16x5x5xf32, #nChw8c>
  // CHECK-NEXT: %1 = nn.conv %y, %v : (tensor<1x17x5x5xf32, #nChw8c>, tensor<16x17x1x1xf32, #layout.any>) -> tensor<1x16x5x5xf32, #layout.any>
  %1 = nn.conv %y, %v : (tensor<1x17x5x5xf32, #nChw8c>, tensor<16x17x1x1xf32, #layout.any>) -> tensor<1x16x5x5xf32, #layout.any>
  func.return
}

// The channels of a group are read by logical index: pads behind the last one may hold anything.
#undef = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>
// CHECK-LABEL: func.func @grouped_channels_may_have_dirty_pads
func.func @grouped_channels_may_have_dirty_pads(%x: tensor<1x12x5x5xf32, #undef>, %w: tensor<12x1x3x3xf32>) {
  // CHECK-NEXT: %0 = nn.conv %x, %w group = 12 : (tensor<1x12x5x5xf32, #nChw8c_undef>, tensor<12x1x3x3xf32>) -> tensor<1x12x3x3xf32, #nChw8c>
  %0 = nn.conv %x, %w group = 12 : (tensor<1x12x5x5xf32, #undef>, tensor<12x1x3x3xf32>) -> tensor<1x12x3x3xf32, #nChw8c>
  func.return
}
