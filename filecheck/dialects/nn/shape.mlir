// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
#undef = #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>

// CHECK-LABEL: func.func @concat
func.func @concat(%x: tensor<1x17x4x4xf32, #undef>, %y: tensor<1x9x4x4xf32, #nChw8c>, %s: tensor<4xi1>) {
  // CHECK-NEXT: %0 = nn.concat %x, %y, %x axis = 1 : (tensor<1x17x4x4xf32, #nChw8c_undef>, tensor<1x9x4x4xf32, #nChw8c>, tensor<1x17x4x4xf32, #nChw8c_undef>) -> tensor<1x43x4x4xf32, #nChw8c>
  %0 = nn.concat %x, %y, %x axis = 1 : (tensor<1x17x4x4xf32, #undef>, tensor<1x9x4x4xf32, #nChw8c>, tensor<1x17x4x4xf32, #undef>) -> tensor<1x43x4x4xf32, #nChw8c>
  // CHECK-NEXT: %1 = nn.concat %s axis = 0 : tensor<4xi1>
  %1 = nn.concat %s axis = 0 : tensor<4xi1>
  func.return
}

// CHECK-LABEL: func.func @pad
func.func @pad(%x: tensor<2x3xf32>) {
  // CHECK-NEXT: %0 = nn.pad %x pads = [0, 1, 2, -1] value = -inf : (tensor<2x3xf32>) -> tensor<4x3xf32>
  %0 = nn.pad %x pads = [0, 1, 2, -1] mode = constant value = -inf : (tensor<2x3xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: %1 = nn.pad %x pads = [1, 2, 1, 2] mode = reflect : (tensor<2x3xf32>) -> tensor<4x7xf32>
  %1 = nn.pad %x pads = [1, 2, 1, 2] mode = reflect : (tensor<2x3xf32>) -> tensor<4x7xf32>
  // CHECK-NEXT: %2 = nn.pad %x pads = [5, 0, 0, 0] mode = edge : (tensor<2x3xf32>) -> tensor<7x3xf32>
  %2 = nn.pad %x pads = [5, 0, 0, 0] mode = edge : (tensor<2x3xf32>) -> tensor<7x3xf32>
  // CHECK-NEXT: %3 = nn.pad %x pads = [0, 0, 0, 4] mode = wrap : (tensor<2x3xf32>) -> tensor<2x7xf32>
  %3 = nn.pad %x pads = [0, 0, 0, 4] mode = wrap : (tensor<2x3xf32>) -> tensor<2x7xf32>
  func.return
}

// CHECK-LABEL: func.func @slice
func.func @slice(%x: tensor<8x9xi32>) {
  // CHECK-NEXT: %0 = nn.slice %x starts = [1, 8] sizes = [4, 3] steps = [2, -4] : (tensor<8x9xi32>) -> tensor<4x3xi32>
  %0 = nn.slice %x starts = [1, 8] sizes = [4, 3] steps = [2, -4] : (tensor<8x9xi32>) -> tensor<4x3xi32>
  // CHECK-NEXT: %1 = nn.slice %x starts = [8, 0] sizes = [0, 9] : (tensor<8x9xi32>) -> tensor<0x9xi32>
  %1 = nn.slice %x starts = [8, 0] sizes = [0, 9] steps = [1, 1] : (tensor<8x9xi32>) -> tensor<0x9xi32>
  func.return
}

// CHECK-LABEL: func.func @resize
func.func @resize(%x: tensor<1x3x4x4xf32>) {
  // CHECK-NEXT: %0 = nn.resize %x scales = [1.0, 1.0, 2.0, 0.6] coordinates = asymmetric nearest_mode = floor : (tensor<1x3x4x4xf32>) -> tensor<1x3x8x2xf32>
  %0 = nn.resize %x scales = [1.0, 1.0, 2.0, 0.6] mode = nearest coordinates = asymmetric nearest_mode = floor : (tensor<1x3x4x4xf32>) -> tensor<1x3x8x2xf32>
  // CHECK-NEXT: %1 = nn.resize %x sizes = [1, 3, 7, 5] mode = linear coordinates = align_corners : (tensor<1x3x4x4xf32>) -> tensor<1x3x7x5xf32>
  %1 = nn.resize %x sizes = [1, 3, 7, 5] mode = linear coordinates = align_corners : (tensor<1x3x4x4xf32>) -> tensor<1x3x7x5xf32>
  func.return
}

// CHECK-LABEL: func.func @expand_and_tile
func.func @expand_and_tile(%x: tensor<3x1xf32>) {
  // CHECK-NEXT: %0 = nn.expand %x shape = [2, 1, 4] : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  %0 = nn.expand %x shape = [2, 1, 4] : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  // CHECK-NEXT: %1 = nn.tile %x repeats = [2, 3] : (tensor<3x1xf32>) -> tensor<6x3xf32>
  %1 = nn.tile %x repeats = [2, 3] : (tensor<3x1xf32>) -> tensor<6x3xf32>
  func.return
}
