// RUN: layout-opt %s --split-input-file --verify-diagnostics

func.func @negative_inner(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  // expected-error@+1 {{inner extent mismatch between operands 2x3 and 4x5: 3 != 4}}
  %0 = nn.matmul %a, %b : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

func.func @negative_scalar(%a: tensor<2x3xf32>, %b: tensor<f32>) {
  // expected-error@+1 {{nn.matmul needs rank 1 or more, but the operands are 2x3 and scalar}}
  %0 = nn.matmul %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @negative_batch(%a: tensor<2x2x3xf32>, %b: tensor<4x3x5xf32>) {
  // expected-error@+1 {{shapes 2 and 4 do not broadcast: 2 != 4 in dim 0}}
  %0 = nn.matmul %a, %b : (tensor<2x2x3xf32>, tensor<4x3x5xf32>) -> tensor<2x2x5xf32>
  func.return
}

// -----

func.func @negative_gemm_rank(%a: tensor<2x2x3xf32>, %b: tensor<3x5xf32>) {
  // expected-error@+1 {{nn.gemm works on matrices, but operand a is 2x2x3: rank 3 != 2}}
  %0 = nn.gemm %a, %b : (tensor<2x2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

func.func @negative_gemm_inner(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>) {
  // expected-error@+1 {{inner extent mismatch between a 2x3 and b 3x5 transposed: 3 != 5}}
  %0 = nn.gemm %a, %b trans_b = true : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @negative_gemm_c(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>, %c: tensor<7x2x5xf32>) {
  // expected-error@+1 {{c 7x2x5 does not broadcast to the result 2x5}}
  %0 = nn.gemm %a, %b, %c : (tensor<2x3xf32>, tensor<3x5xf32>, tensor<7x2x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

#undef = #layout.format<(m, k) : [m, k, k:8]>
func.func @negative_dirty_left(%a: tensor<5x17xf32, #undef>, %b: tensor<17x6xf32>) {
  // expected-error@+1 {{nn.matmul reduces over dim 1 of operand 0, pads included, so they must hold 0}}
  %0 = nn.matmul %a, %b : (tensor<5x17xf32, #undef>, tensor<17x6xf32>) -> tensor<5x6xf32>
  func.return
}

// -----

#undef = #layout.format<(n, k) : [n, k, k:8]>
func.func @negative_dirty_right(%a: tensor<5x17xf32>, %b: tensor<6x17xf32, #undef>) {
  // expected-error@+1 {{nn.gemm reduces over dim 1 of operand 1, pads included, so they must hold 0}}
  %0 = nn.gemm %a, %b trans_b = true : (tensor<5x17xf32>, tensor<6x17xf32, #undef>) -> tensor<5x6xf32>
  func.return
}
