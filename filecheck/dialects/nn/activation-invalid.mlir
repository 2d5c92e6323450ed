// RUN: layout-opt %s --split-input-file --verify-diagnostics

func.func @negative_word(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{approximate = cosh is unknown, expected one of none, tanh}}
  %0 = nn.gelu %x approximate = cosh : tensor<2x3xf32>
  func.return
}

// -----

func.func @negative_word_generic(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{approximate = cosh is unknown, expected one of none, tanh}}
  %0 = "nn.gelu"(%x) <{approximate = "cosh"}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @negative_no_number(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{literal expected}}
  %0 = nn.elu %x alpha = big : tensor<2x3xf32>
  func.return
}

// -----

func.func @negative_attribute(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{nn.relu has no attribute alpha, its attributes: none}}
  %0 = nn.relu %x alpha = 0.1 : tensor<2x3xf32>
  func.return
}

// -----

func.func @negative_unsigned(%x: tensor<2x3xui8>) {
  // expected-error@+1 {{element type ui8 of operand 0 is not supported by nn.relu, expected one of f16, bf16, f32, f64, i8, i32, i64}}
  %0 = nn.relu %x : tensor<2x3xui8>
  func.return
}
