// RUN: layout-opt %s --split-input-file --verify-diagnostics

func.func @negative_concat(%x: tensor<2x3xf32>, %y: tensor<3x3xf32>) {
  // expected-error@+1 {{shape mismatch between operand 0 and operand 1 outside axis 1: 2x3 != 3x3}}
  %0 = nn.concat %x, %y axis = 1 : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x6xf32>
  func.return
}

// -----

func.func @negative_concat_rank(%x: tensor<2x3xf32>, %y: tensor<2xf32>) {
  // expected-error@+1 {{shape mismatch between operand 0 and operand 1 outside axis 1: 2x3 != 2}}
  %0 = nn.concat %x, %y axis = 1 : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x6xf32>
  func.return
}

// -----

func.func @negative_concat_axis(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{axis = -1 is no dim of 2x3: not in 0..1}}
  %0 = nn.concat %x, %x axis = -1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  func.return
}

// -----

func.func @negative_concat_of_nothing() {
  // expected-error@+1 {{nn.concat takes at least 1 operand, not 0}}
  %0 = nn.concat axis = 0 : () -> tensor<0xf32>
  func.return
}

// -----

#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
func.func @negative_concat_formats(%x: tensor<1x16x4x4xf32, #nChw8c>, %y: tensor<1x16x4x4xf32>) {
  // expected-error@+1 {{nn.concat needs one format, but operand 1 has (n, c, h, w) : [n, c, h, w] and the result has (n, c, h, w) : [n, c, h, w, c:8], pad = zero; insert a layout.reorder}}
  %0 = nn.concat %x, %y axis = 1 : (tensor<1x16x4x4xf32, #nChw8c>, tensor<1x16x4x4xf32>) -> tensor<1x32x4x4xf32, #nChw8c>
  func.return
}

// -----

func.func @negative_pads(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{pads = [1, 1] does not fit 2x3: 2 != 4 entries}}
  %0 = nn.pad %x pads = [1, 1] : (tensor<2x3xf32>) -> tensor<3x4xf32>
  func.return
}

// -----

func.func @negative_crop(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{pads -1 and -2 take more than dim 0 of 2x3 has: 3 > 2}}
  %0 = nn.pad %x pads = [-1, 0, -2, 0] : (tensor<2x3xf32>) -> tensor<0x3xf32>
  func.return
}

// -----

func.func @negative_reflect(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{reflect pads 0 and 3 reach beyond dim 1 of 2x3: 3 > 2}}
  %0 = nn.pad %x pads = [0, 0, 0, 3] mode = reflect : (tensor<2x3xf32>) -> tensor<2x6xf32>
  func.return
}

// -----

func.func @negative_mode(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{mode = mirror is unknown, expected one of constant, reflect, edge, wrap}}
  %0 = nn.pad %x pads = [0, 0, 0, 3] mode = mirror : (tensor<2x3xf32>) -> tensor<2x6xf32>
  func.return
}

// -----

func.func @negative_slice(%x: tensor<8xi32>) {
  // expected-error@+1 {{slice reaches outside dim 0 of 8: elements 2 to 8 are not in 0..7}}
  %0 = nn.slice %x starts = [2] sizes = [4] steps = [2] : (tensor<8xi32>) -> tensor<4xi32>
  func.return
}

// -----

func.func @negative_slice_entries(%x: tensor<8xi32>) {
  // expected-error@+1 {{sizes = [4, 1] does not fit 8: 2 != 1 entries}}
  %0 = nn.slice %x starts = [2] sizes = [4, 1] : (tensor<8xi32>) -> tensor<4xi32>
  func.return
}

// -----

func.func @negative_slice_step(%x: tensor<8xi32>) {
  // expected-error@+1 {{steps = [0] has a 0 in dim 0}}
  %0 = nn.slice %x starts = [2] sizes = [4] steps = [0] : (tensor<8xi32>) -> tensor<4xi32>
  func.return
}

// -----

func.func @negative_slice_size(%x: tensor<8xi32>) {
  // expected-error@+1 {{sizes = [-1] has an entry below 0 in dim 0}}
  %0 = nn.slice %x starts = [2] sizes = [-1] : (tensor<8xi32>) -> tensor<1xi32>
  func.return
}

// -----

func.func @negative_resize_both(%x: tensor<4xf32>) {
  // expected-error@+1 {{nn.resize needs either scales or sizes, not scales = [2.0] and sizes = [8]}}
  %0 = nn.resize %x scales = [2.0] sizes = [8] : (tensor<4xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @negative_resize_none(%x: tensor<4xf32>) {
  // expected-error@+1 {{nn.resize needs either scales or sizes, not scales = [] and sizes = []}}
  %0 = nn.resize %x : tensor<4xf32>
  func.return
}

// -----

func.func @negative_resize_entries(%x: tensor<4xf32>) {
  // expected-error@+1 {{scales = [1.0, 2.0] does not fit 4: 2 != 1 entries}}
  %0 = nn.resize %x scales = [1.0, 2.0] : (tensor<4xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @negative_resize_scale(%x: tensor<4xf32>) {
  // expected-error@+1 {{scales = [0.0] has an entry that is not above 0}}
  %0 = nn.resize %x scales = [0.0] : (tensor<4xf32>) -> tensor<0xf32>
  func.return
}

// -----

func.func @negative_resize_by_no_number(%x: tensor<4xf32>) {
  // expected-error@+1 {{scales = [nan] has an entry that is not above 0}}
  %0 = nn.resize %x scales = [nan] : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @negative_resize_without_end(%x: tensor<4xf32>) {
  // expected-error@+1 {{scales = [1e+308] of 4 give extents without an end}}
  %0 = nn.resize %x scales = [1.0e308] : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @negative_expand(%x: tensor<3x2xf32>) {
  // expected-error@+1 {{shapes 3x2 and 4 do not broadcast: 2 != 4 in dim 1}}
  %0 = nn.expand %x shape = [4] : (tensor<3x2xf32>) -> tensor<3x4xf32>
  func.return
}

// -----

func.func @negative_expand_below_zero(%x: tensor<3x1xf32>) {
  // expected-error@+1 {{shape = [-1] has an entry below 0}}
  %0 = nn.expand %x shape = [-1] : (tensor<3x1xf32>) -> tensor<3x4xf32>
  func.return
}

// -----

func.func @negative_tile_entries(%x: tensor<3x1xf32>) {
  // expected-error@+1 {{repeats = [2] does not fit 3x1: 1 != 2 entries}}
  %0 = nn.tile %x repeats = [2] : (tensor<3x1xf32>) -> tensor<6x1xf32>
  func.return
}

// -----

func.func @negative_tile_below_zero(%x: tensor<3x1xf32>) {
  // expected-error@+1 {{repeats = [2, -1] has an entry below 0}}
  %0 = nn.tile %x repeats = [2, -1] : (tensor<3x1xf32>) -> tensor<6x1xf32>
  func.return
}
