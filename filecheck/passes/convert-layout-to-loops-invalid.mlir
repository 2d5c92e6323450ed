// RUN: layout-opt %s -p convert-layout-to-loops --split-input-file --verify-diagnostics

// Iterations that may run at the same time have no form yet.

func.func @parallel(%x : tensor<4xf32>, %m : memref<4xf32>, %n : index) {
  scf.parallel (%i) = (%n) to (%n) step (%n) {
    // expected-error@+1 {{tensor.extract on tensors in scf.parallel has no form as loops}}
    %e = tensor.extract %x[%i] : tensor<4xf32>
    memref.store %e, %m[%i] : memref<4xf32>
    scf.reduce
  }
  func.return
}
