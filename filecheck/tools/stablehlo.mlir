// RUN: layout-opt %s --allow-unregistered-dialect -p 'layout-open,layout-optimize{target=blocked8},convert-layout-to-linalg' | filecheck %s

// Ops of StableHLO in their generic form pass as they are, regions and all, between tensors that are row-major.

// CHECK:      func.func @main(%x: tensor<4x8xf32>, %zero: tensor<f32>) -> tensor<8x4xf32> {
// CHECK-NEXT:   %0 = arith.addf %x, %x : tensor<4x8xf32>
// CHECK-NEXT:   %1 = "stablehlo.transpose"(%0) <{permutation = array<i64: 1, 0>}> : (tensor<4x8xf32>) -> tensor<8x4xf32>
// CHECK-NEXT:   %2 = "stablehlo.reduce"(%1, %zero) <{dimensions = array<i64: 1>}> ({
// CHECK-NEXT:   ^bb0(%a: tensor<f32>, %b: tensor<f32>):
// CHECK-NEXT:     %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK-NEXT:     "stablehlo.return"(%c) : (tensor<f32>) -> ()
// CHECK-NEXT:   }) : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
func.func @main(%x : tensor<4x8xf32>, %zero : tensor<f32>) -> tensor<8x4xf32> {
  %0 = arith.addf %x, %x : tensor<4x8xf32>
  %1 = "stablehlo.transpose"(%0) <{permutation = array<i64: 1, 0>}> : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %2 = "stablehlo.reduce"(%1, %zero) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a : tensor<f32>, %b : tensor<f32>):
    %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  %e = tensor.empty() : tensor<8x4xf32>
  %3 = linalg.broadcast ins(%2 : tensor<8xf32>) outs(%e : tensor<8x4xf32>) dimensions = [1]
  func.return %3 : tensor<8x4xf32>
}
