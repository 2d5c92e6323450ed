// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | filecheck %s --check-prefix=GENERIC
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

func.func @several_tiles(%x: tensor<60x30xf32>, %to: tensor<2x2x16x32xf32>, %back: tensor<60x30xf32>, %pad: f32)
    -> tensor<60x30xf32> {
  // CHECK: linalg.pack %x padding_value(%pad : f32) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [16, 32] into %to {foo = 1 : i32} : tensor<60x30xf32> -> tensor<2x2x16x32xf32>
  // GENERIC: "linalg.pack"(%x, %to, %pad) <{inner_dims_pos = array<i64: 1, 0>, static_inner_tiles = array<i64: 16, 32>, outer_dims_perm = array<i64: 1, 0>, operandSegmentSizes = array<i32: 1, 1, 1, 0>}> {foo = 1 : i32}
  %p = linalg.pack %x padding_value(%pad : f32) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0]
    inner_tiles = [16, 32] into %to {foo = 1 : i32} : tensor<60x30xf32> -> tensor<2x2x16x32xf32>
  // CHECK: linalg.unpack %p outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [16, 32] into %back : tensor<2x2x16x32xf32> -> tensor<60x30xf32>
  // GENERIC: "linalg.unpack"(%p, %back) <{inner_dims_pos = array<i64: 1, 0>, static_inner_tiles = array<i64: 16, 32>, outer_dims_perm = array<i64: 1, 0>}>
  %u = linalg.unpack %p outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [16, 32]
    into %back : tensor<2x2x16x32xf32> -> tensor<60x30xf32>
  func.return %u : tensor<60x30xf32>
}

func.func @whole_tiles(%x: tensor<64x8xf32>, %to: tensor<2x8x32xf32>) -> tensor<2x8x32xf32> {
  // CHECK: linalg.pack %x inner_dims_pos = [0] inner_tiles = [32] into %to : tensor<64x8xf32> -> tensor<2x8x32xf32>
  // GENERIC: "linalg.pack"(%x, %to) <{inner_dims_pos = array<i64: 0>, static_inner_tiles = array<i64: 32>, operandSegmentSizes = array<i32: 1, 1, 0, 0>}>
  %p = linalg.pack %x inner_dims_pos = [0] inner_tiles = [32] into %to : tensor<64x8xf32> -> tensor<2x8x32xf32>
  func.return %p : tensor<2x8x32xf32>
}

func.func @dynamic(%x: tensor<60x?xf32>, %to: tensor<?x2x32x?xf32>, %pad: f32, %tile: index) -> tensor<?x2x32x?xf32> {
  // CHECK: linalg.pack %x padding_value(%pad : f32) outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = [32, %tile] into %to : tensor<60x?xf32> -> tensor<?x2x32x?xf32>
  // GENERIC: "linalg.pack"(%x, %to, %pad, %tile) <{inner_dims_pos = array<i64: 0, 1>, static_inner_tiles = array<i64: 32, -9223372036854775808>, outer_dims_perm = array<i64: 1, 0>, operandSegmentSizes = array<i32: 1, 1, 1, 1>}>
  %p = linalg.pack %x padding_value(%pad : f32) outer_dims_perm = [1, 0] inner_dims_pos = [0, 1]
    inner_tiles = [32, %tile] into %to : tensor<60x?xf32> -> tensor<?x2x32x?xf32>
  func.return %p : tensor<?x2x32x?xf32>
}
