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

// -----

func.func @negative_pad(%x : tensor<4xf32>, %c : f32) -> tensor<3xf32> {
  // expected-error@+1 {{a pad by less than nothing, or by what only the run time knows, has no form as loops}}
  %y = tensor.pad %x low[-1] high[0] {
  ^bb0(%i : index):
    tensor.yield %c : f32
  } : tensor<4xf32> to tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----

func.func @pad_of_the_run_time(%x : tensor<4xf32>, %c : f32, %n : index) -> tensor<6xf32> {
  // expected-error@+1 {{a pad by less than nothing, or by what only the run time knows, has no form as loops}}
  %y = tensor.pad %x low[%n] high[%n] {
  ^bb0(%i : index):
    tensor.yield %c : f32
  } : tensor<4xf32> to tensor<6xf32>
  func.return %y : tensor<6xf32>
}
