// RUN: layout-opt %s --split-input-file --verify-diagnostics

// ----------------------------------------------------------------------------------------------------------------
// The attribute
// ----------------------------------------------------------------------------------------------------------------

// expected-error@+1 {{unknown dim 'x': the format declares (n, c)}}
func.func @unknown_dim(%x : tensor<2x8xf32, #layout.format<(n, c) : [n, x]>>) { func.return }

// -----

// expected-error@+1 {{dim 'c' has no factor: every dim of (n, c) needs at least one}}
func.func @missing_dim(%x : tensor<2x8xf32, #layout.format<(n, c) : [n]>>) { func.return }

// -----

// expected-error@+1 {{only the outermost factor of a dim may be its rest}}
func.func @rest_inside(%x : tensor<2x8xf32, #layout.format<(n, c) : [n, c:8, c]>>) { func.return }

// -----

// expected-error@+1 {{factor 'c:0' has size 0, sizes start at 1}}
func.func @size_zero(%x : tensor<2x8xf32, #layout.format<(n, c) : [n, c, c:0]>>) { func.return }

// -----

// expected-error@+1 {{begins 1 elements below address 0, where a buffer begins}}
func.func @before_the_buffer(%x : tensor<2x8xf32, #layout.format<(n, c) : [n, c], offset = -1>>) { func.return }

// -----

// expected-error@+1 {{#layout.any takes no parameters}}
func.func @any_of_three(%x : tensor<2x8xf32, #layout.any<3>>) { func.return }

// -----

// expected-error@+1 {{dim 'n' is declared twice}}
func.func @twice(%x : tensor<2x8xf32, #layout.format<(n, n) : [n, n]>>) { func.return }

// -----

// expected-error@+1 {{unknown field 'padding': the fields are pad, offset, lo, size, swizzle}}
func.func @field(%x : tensor<2x8xf32, #layout.format<(n, c) : [n, c], padding = zero>>) { func.return }

// -----

// expected-error@+1 {{is not below 2^63}}
func.func @overflow(%x : tensor<2x8xf32, #layout.format<(n, c) : [n*9223372036854775808, c]>>) { func.return }

// -----

// expected-error@+1 {{tag 'nChw' writes 'C' but dim 'c' is not blocked}}
func.func @tag(%x : tensor<2x8x1x1xf32, #layout.tag<nChw>>) { func.return }

// -----

// expected-error@+1 {{tag 'nchq' uses dims c, h, n, q}}
func.func @vocabulary(%x : tensor<2x8x1x1xf32, #layout.tag<nchq>>) { func.return }

// -----

// expected-error@+1 {{right of the bar has no size: a chunk has a fixed size}}
func.func @chunk(%x : tensor<2x8xf32, #layout.format<(n, c) : [n | c]>>) { func.return }

// -----

// ----------------------------------------------------------------------------------------------------------------
// The attribute on a tensor
// ----------------------------------------------------------------------------------------------------------------

func.func @rank(%x : tensor<2x3xf32>) {
  // expected-error@+1 {{rank mismatch between format (n, c, h, w) and tensor shape 2x3: 4 != 2}}
  %a = layout.reorder %x : tensor<2x3xf32> -> tensor<2x3xf32, #layout.tag<nchw>>
  func.return
}

// -----

// An argument that nothing uses, and an op of another dialect.

// expected-error@+1 {{rank mismatch between format (n, c, h, w) and tensor shape 2x3: 4 != 2}}
func.func @argument(%x : tensor<2x3xf32, #layout.tag<nchw>>) { func.return }

// -----

func.func @foreign_result(%x : tensor<2x3xf32>) {
  // expected-error@+1 {{dim 'c' holds 2 elements in (n, c) : [n, c:2], which is less than its extent 3}}
  %a = tensor.empty() : tensor<2x3xf32, #layout.format<(n, c) : [n, c:2]>>
  func.return
}

// -----

func.func @capacity(%x : tensor<2x9xf32>) {
  // expected-error@+1 {{dim 'c' holds 8 elements in (n, c) : [n, c:8], which is less than its extent 9}}
  %a = layout.reorder %x : tensor<2x9xf32> -> tensor<2x9xf32, #layout.format<(n, c) : [n, c:8]>>
  func.return
}

// -----

func.func @zero_point(%x : tensor<2x9xf32>) {
  // expected-error@+1 {{pad = zp is the quantized zero, which elements of f32 do not have: use pad = zero}}
  %a = layout.reorder %x : tensor<2x9xf32> -> tensor<2x9xf32, #layout.format<(n, c) : [n, c, c:8], pad = zp>>
  func.return
}

// -----

func.func @pad_range(%x : tensor<2x9xui8>) {
  // expected-error@+1 {{pad = 300 is no value of element type ui8: integers from 0 to 255}}
  %a = layout.reorder %x : tensor<2x9xui8> -> tensor<2x9xui8, #layout.format<(n, c) : [n, c, c:8], pad = 300>>
  func.return
}

// -----

// ----------------------------------------------------------------------------------------------------------------
// Reorders, fills, casts
// ----------------------------------------------------------------------------------------------------------------

func.func @scale_of_one_side(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{scale has 1 numbers, expected two: the operand's and the result's}}
  %a = layout.reorder %x scale = [0.05] : tensor<2x8xf32> -> tensor<2x8xi8>
  func.return
}

// -----

func.func @scale_zero(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{scale 0.0 of i8 is not a positive number}}
  %a = layout.reorder %x scale = [1, 0] : tensor<2x8xf32> -> tensor<2x8xi8>
  func.return
}

// -----

func.func @zero_point_of_floats(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{zero point 3.0 of f32: expected integers}}
  %a = layout.reorder %x zero_point = [3, 0] : tensor<2x8xf32> -> tensor<2x8xi8>
  func.return
}

// -----

func.func @negative_channels_without_a_dim(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{scale of the result is a list of 2, one number per channel: say along which dim they run, such as dim = 1}}
  %a = layout.reorder %x scale = [1, [0.5, 0.25]] : tensor<2x8xf32> -> tensor<2x8xi8>
  func.return
}

// -----

func.func @negative_as_many_scales_as_another_dim_has(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{scale of the result has 2 numbers, dim 1 of 2x8 has extent 8: give one for each index, or one for the tensor without brackets}}
  %a = layout.reorder %x scale = [1, [0.5, 0.25]] dim = 1 : tensor<2x8xf32> -> tensor<2x8xi8>
  func.return
}

// -----

func.func @negative_as_many_zero_points_as_another_dim_has(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{zero_point of the result has 3 numbers, dim 0 of 2x8 has extent 2}}
  %a = layout.reorder %x scale = [1, [0.5, 0.25]] zero_point = [0, [1, 2, 3]] dim = 0 : tensor<2x8xf32> -> tensor<2x8xi8>
  func.return
}

// -----

func.func @negative_no_such_dim(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{dim = 2 is no dim of 2x8: expected one of the 2 dims, from 0 on}}
  %a = layout.reorder %x scale = [1, [0.5, 0.25]] dim = 2 : tensor<2x8xf32> -> tensor<2x8xi8>
  func.return
}

// -----

func.func @negative_dim_below_zero(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{dim = -1 is no dim of 2x8}}
  %a = layout.reorder %x scale = [1, [0.5, 0.25]] dim = -1 : tensor<2x8xf32> -> tensor<2x8xi8>
  func.return
}

// -----

func.func @negative_dim_without_channels(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{dim = 0 says where channels are, but no list has a number for each: leave it out}}
  %a = layout.reorder %x scale = [1, 0.5] dim = 0 : tensor<2x8xf32> -> tensor<2x8xi8>
  func.return
}

// -----

func.func @negative_scale_of_a_channel(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{scale -0.5 for channel 1 of i8 is not a positive number}}
  %a = layout.reorder %x scale = [1, [0.5, -0.5]] dim = 0 : tensor<2x8xf32> -> tensor<2x8xi8>
  func.return
}

// -----

func.func @negative_zero_point_of_a_channel(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{zero point 128.0 for channel 0 of i8: expected integers from -128 to 127}}
  %a = layout.reorder %x zero_point = [0, [128, 3]] dim = 0 : tensor<2x8xf32> -> tensor<2x8xi8>
  func.return
}

// -----

func.func @negative_zero_point_between_integers(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{zero point 0.5 for channel 1 of i8: expected integers}}
  %a = layout.reorder %x zero_point = [0, [0, 0.5]] dim = 0 : tensor<2x8xf32> -> tensor<2x8xi8>
  func.return
}

// -----

func.func @negative_zero_points_of_floats(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{zero point 1.0 for channel 0 of f32: expected integers}}
  %a = layout.reorder %x zero_point = [[1, 0], 0] dim = 0 : tensor<2x8xf32> -> tensor<2x8xi8>
  func.return
}

// -----

func.func @negative_one_pad_for_several_zero_points(%x : tensor<2x9xf32>) {
  // expected-error@+1 {{pad = zp writes the zero point of the destination, of which there is one for each index of dim 0: use another policy}}
  %a = layout.reorder %x zero_point = [0, [1, 3]] dim = 0 : tensor<2x9xf32> -> tensor<2x9xi8, #layout.format<(n, c) : [n, c, c:8], pad = zp>>
  func.return
}

// -----

// The same for every channel is one.
func.func @one_pad_for_equal_zero_points(%x : tensor<2x9xf32>) {
  %a = layout.reorder %x zero_point = [0, [3, 3]] dim = 0 : tensor<2x9xf32> -> tensor<2x9xi8, #layout.format<(n, c) : [n, c, c:8], pad = zp>>
  func.return
}

// -----

func.func @reorder_shape(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{layout.reorder keeps the shape: operand has 2x8, result has 8x2}}
  %a = layout.reorder %x : tensor<2x8xf32> -> tensor<8x2xf32>
  func.return
}

// -----

func.func @overlap(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{keeps several elements at one address}}
  %a = layout.reorder %x : tensor<2x8xf32> -> tensor<2x8xf32, #layout.format<(n, c) : [n*4, c]>>
  func.return
}

// -----

func.func @fill_moves(%x : tensor<2x8x2x2xf32, #layout.tag<nchw>>) {
  // expected-error@+1 {{layout.fill_pads moves nothing, but (n, c, h, w) : [n, c, h, w] and (n, c, h, w) : [n, h, w, c] store 2x8x2x2 differently: use layout.reorder}}
  %a = layout.fill_pads %x : tensor<2x8x2x2xf32, #layout.tag<nchw>> -> tensor<2x8x2x2xf32, #layout.tag<nhwc>>
  func.return
}

// -----

func.func @fill_with_nothing(%x : tensor<2x9xf32, #layout.format<(n, c) : [n, c, c:8], pad = zero>>) {
  // expected-error@+1 {{layout.fill_pads to pad = undef writes nothing: name what the pads shall hold}}
  %a = layout.fill_pads %x : tensor<2x9xf32, #layout.format<(n, c) : [n, c, c:8], pad = zero>> -> tensor<2x9xf32, #layout.format<(n, c) : [n, c, c:8]>>
  func.return
}

// -----

func.func @cast_moves(%x : tensor<2x16x2x1xf32, #layout.tag<nChw8c>>) {
  // expected-error@+1 {{keep 2x16x2x1 at different addresses: use layout.reorder}}
  %a = layout.cast %x : tensor<2x16x2x1xf32, #layout.tag<nChw8c>> -> tensor<2x16x2x1xf32, #layout.tag<nchw>>
  func.return
}

// -----

func.func @cast_promises(%x : tensor<2x9xf32, #layout.format<(n, c) : [n, c, c:8]>>) {
  // expected-error@+1 {{does not promise the pads of (n, c) : [n, c, c:8], pad = zero: use layout.fill_pads}}
  %a = layout.cast %x : tensor<2x9xf32, #layout.format<(n, c) : [n, c, c:8]>> -> tensor<2x9xf32, #layout.format<(n, c) : [n, c, c:8], pad = zero>>
  func.return
}

// -----

func.func @cast_outgrows(%x : tensor<1x8xf32>) {
  // expected-error@+1 {{needs 16 elements, the buffer of (n, c) : [n, c] has 8}}
  %a = layout.cast %x : tensor<1x8xf32> -> tensor<1x8xf32, #layout.format<(n, c) : [n, c, c:16]>>
  func.return
}

// -----

// ----------------------------------------------------------------------------------------------------------------
// Views
// ----------------------------------------------------------------------------------------------------------------

func.func @permutation(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{perm = [0, 0] is not a permutation of the 2 dims of 2x8}}
  %a = layout.permute %x perm = [0, 0] : tensor<2x8xf32> -> tensor<2x2xf32>
  func.return
}

// -----

func.func @permute_result(%x : tensor<2x8xf32, #layout.tag<nc>>) {
  // expected-error@+1 {{layout.permute of a tensor in (n, c) : [n, c] is in (c, n) : [n, c], the result is declared (n, c) : [n, c]: insert a layout.reorder}}
  %a = layout.permute %x perm = [1, 0] : tensor<2x8xf32, #layout.tag<nc>> -> tensor<8x2xf32>
  func.return
}

// -----

func.func @reshape_count(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{cannot reshape 2x8 into 3x5: 16 != 15 elements}}
  %a = layout.reshape %x : tensor<2x8xf32> -> tensor<3x5xf32>
  func.return
}

// -----

func.func @reshape_through_pads(%x : tensor<2x17x5x4xf32, #layout.tag<nChw8c>>) {
  // expected-error@+1 {{dim 'c' is padded from 17 to 24 and not the leading dim of its group}}
  %a = layout.reshape %x : tensor<2x17x5x4xf32, #layout.tag<nChw8c>> -> tensor<34x20xf32>
  func.return
}

// -----

func.func @reshape_beyond_the_buffer(%x : tensor<3xf32, #layout.format<(a) : [a]>>) {
  // expected-error@+1 {{needs 8 elements, the buffer of (n, c) : [n, c], size = 3 has 3}}
  %a = layout.reshape %x : tensor<3xf32, #layout.format<(a) : [a]>> -> tensor<1x3xf32, #layout.format<(n, c) : [n, c, n:2, c:4]>>
  func.return
}

// -----

func.func @slice_bounds(%x : tensor<2x8xf32>) {
  // expected-error@+1 {{slice [4, 12) leaves dim 1 of extent 8}}
  %a = layout.slice %x starts = [0, 4] sizes = [2, 8] : tensor<2x8xf32> -> tensor<2x8xf32>
  func.return
}
