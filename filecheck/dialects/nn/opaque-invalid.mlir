// RUN: layout-opt %s --split-input-file --verify-diagnostics

func.func @negative_blocked_operand(%x: tensor<1x8x2x2xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>>) {
  // expected-error@+1 {{an opaque op has row-major tensors only}}
  %0 = nn.opaque "Sin" opset 7 (%x) : (tensor<1x8x2x2xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>>) -> tensor<1x8x2x2xf32>
  func.return
}

// -----

func.func @negative_transposed_result(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{result 0 is tensor<2x3xf32, #layout.format<(n, c) : [c, n]>>: an opaque op has row-major}}
  %0 = nn.opaque "Sin" opset 7 (%x) : (tensor<2x3xf32>) -> tensor<2x3xf32, #layout.format<(n, c) : [c, n]>>
  func.return
}

// -----

func.func @negative_dynamic(%x: tensor<?xf32>) {
  // expected-error@+1 {{operand 0 is tensor<?xf32>, a tensor of static shape and a known element type is needed}}
  %0 = nn.opaque "Sin" opset 7 (%x) : (tensor<?xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @negative_number_of_types(%x: tensor<2xf32>) {
  // expected-error@+1 {{1 operands, but 2 types of operands}}
  %0 = nn.opaque "Sin" opset 7 (%x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @negative_number_of_operands(%x: tensor<2xf32>) {
  // expected-error@+1 {{Sin has 2 inputs and captured values, but the op 1 operands}}
  %0 = "nn.opaque"(%x) <{op_type = "Sin", domain = "", opsets = {ai.onnx = 7 : i64}, inputs = [true, true], captures = [], outputs = [true], node_attributes = {}}> : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @negative_number_of_results(%x: tensor<2xf32>) {
  // expected-error@+1 {{Sin has 0 outputs, but the op 1 results}}
  %0 = "nn.opaque"(%x) <{op_type = "Sin", domain = "", opsets = {ai.onnx = 7 : i64}, inputs = [true], captures = [], outputs = [], node_attributes = {}}> : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @negative_version_of_its_domain(%x: tensor<2xf32>) {
  // expected-error@+1 {{the version of the operators of ai.onnx is missing}}
  %0 = nn.opaque "Sin" opset {com.microsoft = 1 : i64} (%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @negative_version_that_is_none(%x: tensor<2xf32>) {
  // expected-error@+1 {{"new" is no version of operators}}
  %0 = nn.opaque "Sin" opset {ai.onnx = "new"} (%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @negative_name_captured_twice(%x: tensor<2xf32>, %c: tensor<i1>) {
  // expected-error@+1 {{captured names are given twice: x, x}}
  %0 = nn.opaque "If" opset 17 (%c) captures(%x as "x", %x as "x") : (tensor<i1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}
