// RUN: layout-opt %s -p layout-open | filecheck %s
// RUN: layout-opt %s -p layout-open,layout-open | filecheck %s
// RUN: layout-opt %s -p 'layout-open{arguments=true results=true}' | filecheck %s --check-prefix=FREE
// RUN: layout-opt %s -p layout-open,layout-strip | filecheck %s --check-prefix=PLAIN

// CHECK-LABEL: func.func @chain(%p: tensor<2x8x32xf32>) -> tensor<60x8xf32>
// CHECK-NEXT:    %0 = layout.reorder %p : tensor<2x8x32xf32> -> tensor<2x8x32xf32, #layout.any>
// CHECK-NEXT:    %e = tensor.empty() : tensor<60x8xf32, #layout.any>
// CHECK-NEXT:    %u = linalg.unpack %0 inner_dims_pos = [0] inner_tiles = [32] into %e : tensor<2x8x32xf32, #layout.any> -> tensor<60x8xf32, #layout.any>
// CHECK-NEXT:    %r = math.exp %u : tensor<60x8xf32, #layout.any>
// CHECK-NEXT:    %1 = layout.reorder %r : tensor<60x8xf32, #layout.any> -> tensor<60x8xf32>
// CHECK-NEXT:    func.return %1 : tensor<60x8xf32>
// FREE-LABEL:  func.func @chain(%p: tensor<2x8x32xf32, #layout.any>) -> tensor<60x8xf32, #layout.any>
// FREE-NOT:      layout.reorder
// FREE:          func.return %r : tensor<60x8xf32, #layout.any>
// PLAIN-LABEL: func.func @chain(%p: tensor<2x8x32xf32>) -> tensor<60x8xf32>
// PLAIN-NEXT:    %e = tensor.empty() : tensor<60x8xf32>
// PLAIN-NEXT:    %u = linalg.unpack %p
func.func @chain(%p : tensor<2x8x32xf32>) -> tensor<60x8xf32> {
  %e = tensor.empty() : tensor<60x8xf32>
  %u = linalg.unpack %p inner_dims_pos = [0] inner_tiles = [32] into %e : tensor<2x8x32xf32> -> tensor<60x8xf32>
  %r = math.exp %u : tensor<60x8xf32>
  func.return %r : tensor<60x8xf32>
}

// What is dynamic stays as it is.
// CHECK-LABEL: func.func @negative_dynamic(
// CHECK-NEXT:    %r = math.exp %x : tensor<?xf32>
// CHECK-NEXT:    func.return
func.func @negative_dynamic(%x : tensor<?xf32>) -> tensor<?xf32> {
  %r = math.exp %x : tensor<?xf32>
  func.return %r : tensor<?xf32>
}
