// RUN: layout-opt %s -p convert-layout-to-loops | filecheck %s

#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>

// A constant is a global, in front of the functions.

// CHECK:      memref.global "private" constant @constant_0 : memref<2xf32> = dense<[1.000000e+00, 2.000000e+00]>

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

// CHECK:      func.func @constant() -> memref<2xf32> {
// CHECK-NEXT:   %w = memref.get_global @constant_0 : memref<2xf32>
func.func @constant() -> tensor<2xf32> {
  %w = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  func.return %w : tensor<2xf32>
}

// What every iteration starts from is copied in each, and freed behind the loop.

// CHECK:      func.func @again(
// CHECK:        %z = memref.alloc() : memref<4xf32>
// CHECK:        scf.for %i =
// CHECK-NEXT:     %t = memref.alloc() : memref<4xf32>
// CHECK:            [[E:%.*]] = memref.load %z
// CHECK-NEXT:       memref.store [[E]], %t
// CHECK:          scf.yield %t : memref<4xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   memref.dealloc %z : memref<4xf32>
func.func @again(%x : tensor<4xf32>, %s : tensor<1xf32>, %e : f32, %n : index) -> tensor<4xf32> {
  %z = tensor.splat %e : tensor<4xf32>
  %r = scf.for %i = %n to %n step %n iter_args(%a = %x) -> (tensor<4xf32>) {
    %t = tensor.insert_slice %s into %z[%i] [1] [1] : tensor<1xf32> into tensor<4xf32>
    scf.yield %t : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// What runs at most once writes there itself.

// CHECK:      func.func @negative_once(
// CHECK:        %z = memref.alloc() : memref<4xf32>
// CHECK:        scf.if %p
// CHECK-NOT:    memref.alloc
// CHECK:          memref.store [[E:%.*]], %z
// CHECK:          scf.yield %z : memref<4xf32>
func.func @negative_once(%x : tensor<4xf32>, %s : tensor<1xf32>, %e : f32, %n : index, %p : i1) -> tensor<4xf32> {
  %z = tensor.splat %e : tensor<4xf32>
  %r = scf.if %p -> (tensor<4xf32>) {
    %t = tensor.insert_slice %s into %z[%n] [1] [1] : tensor<1xf32> into tensor<4xf32>
    scf.yield %t : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// A buffer that another block uses is freed there.

// CHECK:      func.func @blocks_of_code(
// CHECK:        %t = memref.alloc() : memref<4xf32>
// CHECK-NOT:    memref.dealloc
// CHECK:        cf.br ^[[NEXT:.*]]
// CHECK:      ^[[NEXT]]:
// CHECK:        memref.load %t
// CHECK:        memref.dealloc %t : memref<4xf32>
// CHECK-NEXT:   func.return %u : memref<4xf32>
func.func @blocks_of_code(%x : tensor<4xf32>) -> tensor<4xf32> {
  %t = math.sin %x : tensor<4xf32>
  cf.br ^next
^next:
  %u = arith.addf %t, %x : tensor<4xf32>
  func.return %u : tensor<4xf32>
}

// Regions that run at most once keep their form.

// CHECK:      func.func @regions(
// CHECK:        %e = scf.execute_region -> f32 {
// CHECK:          %t = memref.alloc() : memref<4xf32>
// CHECK:          %v = memref.load %t[%n] : memref<4xf32>
// CHECK-NEXT:     memref.dealloc %t : memref<4xf32>
// CHECK-NEXT:     scf.yield %v : f32
// CHECK:        scf.index_switch %n -> memref<4xf32>
func.func @regions(%x : tensor<4xf32>, %n : index) -> (f32, tensor<4xf32>) {
  %e = scf.execute_region -> f32 {
    %t = math.exp %x : tensor<4xf32>
    %v = tensor.extract %t[%n] : tensor<4xf32>
    scf.yield %v : f32
  }
  %r = scf.index_switch %n -> tensor<4xf32>
  case 0 {
    %t = math.exp %x : tensor<4xf32>
    scf.yield %t : tensor<4xf32>
  }
  default {
    scf.yield %x : tensor<4xf32>
  }
  func.return %e, %r : f32, tensor<4xf32>
}
