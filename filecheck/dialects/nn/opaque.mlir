// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

#nc = #layout.format<(n, c) : [n, c]>

// CHECK-LABEL: func.func @several_results
func.func @several_results(%x: tensor<3x8xf32, #nc>, %k: tensor<1xi64>) {
  // CHECK-NEXT: %v, %i = nn.opaque "TopK" opset 11 (%x, %k) {axis = 1 : i64, largest = 0 : i64} : (tensor<3x8xf32, #nc>, tensor<1xi64>) -> (tensor<3x2xf32, #layout.any>, tensor<3x2xi64>)
  %v, %i = nn.opaque "TopK" opset 11 (%x, %k) {axis = 1 : i64, largest = 0 : i64} : (tensor<3x8xf32, #nc>, tensor<1xi64>) -> (tensor<3x2xf32, #layout.any>, tensor<3x2xi64>)
  func.return
}

// CHECK-LABEL: func.func @inputs_and_outputs_left_out
func.func @inputs_and_outputs_left_out(%x: tensor<5x1x4xf32>, %w: tensor<1x8x4xf32>, %r: tensor<1x8x2xf32>, %h: tensor<1x1x2xf32>) {
  // CHECK-NEXT: %0 = nn.opaque "LSTM" opset 14 (%x, %w, %r, none, none, %h) {hidden_size = 2 : i64} : (tensor<5x1x4xf32>, tensor<1x8x4xf32>, tensor<1x8x2xf32>, tensor<1x1x2xf32>) -> (none, tensor<1x1x2xf32>)
  %0 = nn.opaque "LSTM" opset 14 (%x, %w, %r, none, none, %h) {hidden_size = 2 : i64} : (tensor<5x1x4xf32>, tensor<1x8x4xf32>, tensor<1x8x2xf32>, tensor<1x1x2xf32>) -> (none, tensor<1x1x2xf32>)
  func.return
}

// CHECK-LABEL: func.func @no_inputs
func.func @no_inputs() {
  // CHECK-NEXT: %0 = nn.opaque "RandomNormal" opset 1 () {seed = 5.000000e-01 : f32, shape = array<i64: 2, 3>} : () -> tensor<2x3xf32>
  %0 = nn.opaque "RandomNormal" opset 1 () {seed = 0.5 : f32, shape = array<i64: 2, 3>} : () -> tensor<2x3xf32>
  func.return
}

// Of another domain, with a subgraph that uses outer values and operators of ONNX's own domain.
// CHECK-LABEL: func.func @subgraph
func.func @subgraph(%c: tensor<i1>, %x: tensor<2xf32>) {
  // CHECK-NEXT: %0 = nn.opaque "org.example::Maybe" opset {ai.onnx = 17 : i64, org.example = 1 : i64} (%c) captures(%x as "x/0", %c as "c") {body = #nn.proto<"name: 'body' type: GRAPH">} attributes {tag} : (tensor<i1>, tensor<2xf32>, tensor<i1>) -> tensor<2xf32>
  %0 = nn.opaque "org.example::Maybe" opset {ai.onnx = 17 : i64, org.example = 1 : i64} (%c) captures(%x as "x/0", %c as "c") {body = #nn.proto<"name: 'body' type: GRAPH">} attributes {tag} : (tensor<i1>, tensor<2xf32>, tensor<i1>) -> tensor<2xf32>
  func.return
}
