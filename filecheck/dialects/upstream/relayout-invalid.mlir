// RUN: layout-opt %s --split-input-file --verify-diagnostics

func.func @partial_tile(%x: tensor<60x8xf32>, %d: tensor<2x8x32xf32>) {
  // expected-error@+1 {{the last tile of dim 0 is partial, 60 = 1 * 32 + 28: say with padding_value what fills it}}
  %r = linalg.pack %x inner_dims_pos = [0] inner_tiles = [32] into %d : tensor<60x8xf32> -> tensor<2x8x32xf32>
  func.return
}

// -----

func.func @number_of_tiles(%x: tensor<60x8xf32>, %d: tensor<3x8x32xf32>, %p: f32) {
  // expected-error@+1 {{60x8 in these tiles is 2x8x32, not 3x8x32}}
  %r = linalg.pack %x padding_value(%p : f32) inner_dims_pos = [0] inner_tiles = [32] into %d : tensor<60x8xf32> -> tensor<3x8x32xf32>
  func.return
}

// -----

func.func @dim_twice(%x: tensor<64x8xf32>, %d: tensor<2x8x32x1xf32>) {
  // expected-error@+1 {{inner_dims_pos = [0, 0] has to name dims of 64x8, 0 to 1, each at most once}}
  %r = linalg.pack %x inner_dims_pos = [0, 0] inner_tiles = [32, 1] into %d : tensor<64x8xf32> -> tensor<2x8x32x1xf32>
  func.return
}

// -----

func.func @no_such_dim(%x: tensor<64x8xf32>, %d: tensor<2x8x32xf32>) {
  // expected-error@+1 {{inner_dims_pos = [2] has to name dims of 64x8, 0 to 1, each at most once}}
  %r = linalg.pack %x inner_dims_pos = [2] inner_tiles = [32] into %d : tensor<64x8xf32> -> tensor<2x8x32xf32>
  func.return
}

// -----

func.func @empty_tile(%x: tensor<64x8xf32>, %d: tensor<2x8x32xf32>) {
  // expected-error@+1 {{inner_tiles = [0]: a tile has at least one element}}
  %r = linalg.pack %x inner_dims_pos = [0] inner_tiles = [0] into %d : tensor<64x8xf32> -> tensor<2x8x32xf32>
  func.return
}

// -----

func.func @tile_size(%x: tensor<64x8xf32>, %d: tensor<2x8x32xf32>) {
  // expected-error@+1 {{64x8 in these tiles is 4x8x16, not 2x8x32}}
  %r = linalg.pack %x inner_dims_pos = [0] inner_tiles = [16] into %d : tensor<64x8xf32> -> tensor<2x8x32xf32>
  func.return
}

// -----

func.func @order(%x: tensor<64x8xf32>, %d: tensor<2x8x32xf32>) {
  // expected-error@+1 {{outer_dims_perm = [0] is no permutation of the 2 dims of 64x8}}
  %r = linalg.pack %x outer_dims_perm = [0] inner_dims_pos = [0] inner_tiles = [32] into %d : tensor<64x8xf32> -> tensor<2x8x32xf32>
  func.return
}

// -----

func.func @padding_type(%x: tensor<60x8xf32>, %d: tensor<2x8x32xf32>, %p: i32) {
  // expected-error@+1 {{padding_value is i32, but elements are f32}}
  %r = linalg.pack %x padding_value(%p : i32) inner_dims_pos = [0] inner_tiles = [32] into %d : tensor<60x8xf32> -> tensor<2x8x32xf32>
  func.return
}

// -----

func.func @packed_rank(%x: tensor<64x8xf32>, %d: tensor<2x8xf32>) {
  // expected-error@+1 {{the packed tensor has rank 2, but rank 2 and 1 tiles make 3}}
  %r = linalg.pack %x inner_dims_pos = [0] inner_tiles = [32] into %d : tensor<64x8xf32> -> tensor<2x8xf32>
  func.return
}

// -----

func.func @element_type(%x: tensor<64x8xf32>, %d: tensor<2x8x32xf16>) {
  // expected-error@+1 {{the element type stays: the packed tensor has f16, the other f32}}
  %r = linalg.pack %x inner_dims_pos = [0] inner_tiles = [32] into %d : tensor<64x8xf32> -> tensor<2x8x32xf16>
  func.return
}

// -----

func.func @sizes(%x: tensor<64x8xf32>, %d: tensor<2x8x32xf32>) {
  // expected-error@+1 {{inner_tiles has 2 sizes for the 1 dims of inner_dims_pos}}
  %r = linalg.pack %x inner_dims_pos = [0] inner_tiles = [32, 1] into %d : tensor<64x8xf32> -> tensor<2x8x32xf32>
  func.return
}

// -----

func.func @unpacked_shape(%x: tensor<2x8x32xf32>, %d: tensor<32x8xf32>) {
  // expected-error@+1 {{32x8 in these tiles is 1x8x32, not 2x8x32}}
  %r = linalg.unpack %x inner_dims_pos = [0] inner_tiles = [32] into %d : tensor<2x8x32xf32> -> tensor<32x8xf32>
  func.return
}

// -----

func.func @dynamic_tile(%x: tensor<64x8xf32>, %d: tensor<2x8x32xf32>, %t: index) {
  // expected-error@+1 {{a tile of ? cannot be a dim of 32: both are static or both dynamic}}
  %r = linalg.pack %x inner_dims_pos = [0] inner_tiles = [%t] into %d : tensor<64x8xf32> -> tensor<2x8x32xf32>
  func.return
}

// -----

func.func @dynamic_dim(%x: tensor<64x8xf32>, %d: tensor<2x8x?xf32>) {
  // expected-error@+1 {{a tile of 32 cannot be a dim of ?: both are static or both dynamic}}
  %r = linalg.pack %x inner_dims_pos = [0] inner_tiles = [32] into %d : tensor<64x8xf32> -> tensor<2x8x?xf32>
  func.return
}

// -----

func.func @result(%x: tensor<64x8xf32>, %d: tensor<2x8x32xf32>) {
  // expected-error@+1 {{the result is tensor<2x8x16xf32>, but the destination tensor<2x8x32xf32>}}
  %r = "linalg.pack"(%x, %d) <{inner_dims_pos = array<i64: 0>, static_inner_tiles = array<i64: 32>, operandSegmentSizes = array<i32: 1, 1, 0, 0>}> : (tensor<64x8xf32>, tensor<2x8x32xf32>) -> tensor<2x8x16xf32>
  func.return
}

// -----

func.func @memref(%x: memref<64x8xf32>, %d: memref<2x8x32xf32>) {
  // expected-error@+1 {{linalg.pack takes tensors, not memref<64x8xf32>}}
  %r = linalg.pack %x inner_dims_pos = [0] inner_tiles = [32] into %d : memref<64x8xf32> -> memref<2x8x32xf32>
  func.return
}