// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

#blocked = #layout.format<(m, k) : [m, k, k:8], pad = zero>
#transposed = #layout.format<(k, n) : [n, k, k:8], pad = zero>

// CHECK-LABEL: func.func @matmul
func.func @matmul(%a: tensor<5x1x2x3xf32>, %b: tensor<4x3x7xf32>, %v: tensor<3xf32>) {
  // CHECK-NEXT: %0 = nn.matmul %a, %b : (tensor<5x1x2x3xf32>, tensor<4x3x7xf32>) -> tensor<5x4x2x7xf32>
  %0 = nn.matmul %a, %b : (tensor<5x1x2x3xf32>, tensor<4x3x7xf32>) -> tensor<5x4x2x7xf32>
  // CHECK-NEXT: %1 = nn.matmul %a, %v : (tensor<5x1x2x3xf32>, tensor<3xf32>) -> tensor<5x1x2xf32>
  %1 = nn.matmul %a, %v : (tensor<5x1x2x3xf32>, tensor<3xf32>) -> tensor<5x1x2xf32>
  // CHECK-NEXT: %2 = nn.matmul %v, %v : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
  %2 = nn.matmul %v, %v : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
  func.return
}

// CHECK-LABEL: func.func @gemm
func.func @gemm(%a: tensor<3x2xf32>, %b: tensor<3x4xf32>, %c: tensor<4xf32>, %s: tensor<f32>, %q: tensor<4x4xf32>) {
  // CHECK-NEXT: %0 = nn.gemm %a, %b, %c alpha = 0.5 beta = 2.0 trans_a = true : (tensor<3x2xf32>, tensor<3x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %0 = nn.gemm %a, %b, %c alpha = 0.5 beta = 2 trans_a = true : (tensor<3x2xf32>, tensor<3x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: %1 = nn.gemm %b, %a, %s trans_a = true : (tensor<3x4xf32>, tensor<3x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %1 = nn.gemm %b, %a, %s alpha = 1.0 beta = 1.0 trans_a = true trans_b = false : (tensor<3x4xf32>, tensor<3x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  // CHECK-NEXT: %2 = nn.gemm %q, %q trans_b = true : tensor<4x4xf32>
  %2 = nn.gemm %q, %q trans_b = true : tensor<4x4xf32>
  func.return
}

// CHECK-LABEL: func.func @padded_inner_dim
func.func @padded_inner_dim(%a: tensor<5x17xf32, #blocked>, %b: tensor<17x6xf32, #transposed>) {
  // CHECK-NEXT: %0 = nn.matmul %a, %b : (tensor<5x17xf32, #{{.*}}>, tensor<17x6xf32, #{{.*}}>) -> tensor<5x6xf32>
  %0 = nn.matmul %a, %b : (tensor<5x17xf32, #blocked>, tensor<17x6xf32, #transposed>) -> tensor<5x6xf32>
  func.return
}
