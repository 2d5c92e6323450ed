// RUN: layout-opt %s -p convert-layout-to-linalg --split-input-file --verify-diagnostics
// RUN: layout-opt %s -p convert-layout-to-loops --split-input-file --verify-diagnostics

// expected-error@+1 {{is still to be chosen: run layout-propagate first}}
func.func @open(%x : tensor<2x3xf32, #layout.any>) -> tensor<2x3xf32, #layout.any> {
  func.return %x : tensor<2x3xf32, #layout.any>
}

// -----

// Stock bufferization would drop an encoding without a word.

// expected-error@+1 {{whose encoding bufferization would drop}}
func.func @theirs(%x : tensor<2x3xf32, "theirs">) -> tensor<2x3xf32, "theirs"> {
  func.return %x : tensor<2x3xf32, "theirs">
}
