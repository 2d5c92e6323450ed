// RUN: layout-opt %s -p convert-layout-to-loops | filecheck %s

#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>

// A reorder to whole blocks: one loop per dim of the memory it writes.

// CHECK:      func.func @blocks(%x: memref<2x16x5x4xf32>) -> memref<2x2x5x4x8xf32> {
// CHECK-NEXT:   [[V:%.*]] = memref.expand_shape %x {{.*}} : memref<2x16x5x4xf32> into memref<2x2x8x5x4xf32>
// CHECK-NEXT:   %y = memref.alloc() : memref<2x2x5x4x8xf32>
// CHECK:        scf.for [[N:%.*]] =
// CHECK-NEXT:     scf.for [[C:%.*]] =
// CHECK-NEXT:       scf.for [[H:%.*]] =
// CHECK-NEXT:         scf.for [[W:%.*]] =
// CHECK-NEXT:           scf.for [[B:%.*]] =
// CHECK-NEXT:             [[E:%.*]] = memref.load [[V]]{{\[}}[[N]], [[C]], [[B]], [[H]], [[W]]]
// CHECK-NEXT:             memref.store [[E]], %y{{\[}}[[N]], [[C]], [[H]], [[W]], [[B]]]
// CHECK:        func.return %y : memref<2x2x5x4x8xf32>
func.func @blocks(%x : tensor<2x16x5x4xf32, #nchw>) -> tensor<2x16x5x4xf32, #nChw8c> {
  %y = layout.reorder %x : tensor<2x16x5x4xf32, #nchw> -> tensor<2x16x5x4xf32, #nChw8c>
  func.return %y : tensor<2x16x5x4xf32, #nChw8c>
}
