// RUN: layout-opt %s --split-input-file --verify-diagnostics

func.func @unknown_op() {
  // expected-error@+1 {{unknown operation 'affine.dma_start': did you mean 'affine.store' or 'affine.max' or 'affine.vector_store'?; if this is how MLIR writes 'affine.dma_start', its generic form can be read: mlir-opt --mlir-print-op-generic FILE | layout-opt --allow-unregistered-dialect}}
  affine.dma_start
  func.return
}

// -----

func.func @form(%m : memref<4xf32>) {
  // expected-error@+1 {{its generic form can be read}}
  %n = memref.dim %m 0 : memref<4xf32>
  func.return
}

// -----

func.func @our_own(%x : tensor<4xf32>) {
  // expected-error@+1 {{unknown operation 'layout.reoder': did you mean 'layout.reorder' or 'layout.reshape' or 'layout.permute'?}}
  %0 = layout.reoder %x : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

func.func @nobodys() {
  // expected-error@+1 {{unknown operation 'stranger.op': there is no dialect 'stranger'}}
  stranger.op
  func.return
}

// -----

func.func @stablehlo(%x : tensor<4xf32>) {
  // expected-error@+1 {{unknown operation 'stablehlo.add': there is no dialect 'stablehlo'; for layouts to be chosen, make linalg of it: iree-opt --iree-stablehlo-input-transformation-pipeline}}
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  func.return
}
