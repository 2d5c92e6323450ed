// RUN: layout-opt %s --split-input-file --verify-diagnostics

func.func @negative_shape() {
  // expected-error@+1 {{shape mismatch between the literal and its type: 3 != 4}}
  %0 = nn.constant dense<[1, 2, 3]> : tensor<4xi32>
  func.return
}

// -----

func.func @negative_ragged() {
  // expected-error@+1 {{the lists inside the literal differ in shape}}
  %0 = nn.constant dense<[[1, 2], [3]]> : tensor<2x2xi32>
  func.return
}

// -----

func.func @negative_fraction() {
  // expected-error@+1 {{0.5 is no element of type i32}}
  %0 = nn.constant dense<0.5> : tensor<4xi32>
  func.return
}

// -----

func.func @negative_range() {
  // expected-error@+1 {{-1 is no element of type ui8: not in 0..255}}
  %0 = nn.constant dense<-1> : tensor<4xui8>
  func.return
}

// -----

func.func @negative_bytes() {
  // expected-error@+1 {{a literal of 8 bytes does not fit tensor<4xf32>, which has 4 elements of 4 bytes}}
  %0 = nn.constant dense<"0x0000000000000000"> : tensor<4xf32>
  func.return
}

// -----

func.func @negative_digits() {
  // expected-error@+1 {{non-hexadecimal}}
  %0 = nn.constant dense<"0xnothing"> : tensor<4xf32>
  func.return
}

// -----

func.func @negative_element_type() {
  // expected-error@+1 {{element type i5 of the result is not supported by nn.constant}}
  %0 = nn.constant dense<1> : tensor<4xi5>
  func.return
}

// -----

func.func @negative_type() {
  // expected-error@+1 {{nn.constant has a tensor type, not i32}}
  %0 = nn.constant dense<1> : i32
  func.return
}

// -----

func.func @negative_dynamic() {
  // expected-error@+1 {{nn.constant has a tensor of numbers and a static shape, not tensor<?xi32>}}
  %0 = nn.constant dense<1> : tensor<?xi32>
  func.return
}

// -----

func.func @negative_result_shape() {
  // expected-error@+1 {{shape mismatch between the inferred result and the declared one: 3 != 4}}
  %0 = "nn.constant"() <{value = dense<[1, 2, 3]> : tensor<3xi32>}> : () -> tensor<4xi32>
  func.return
}

// -----

func.func @negative_result_element() {
  // expected-error@+1 {{element type mismatch between the literal and the result: i32 != i64}}
  %0 = "nn.constant"() <{value = dense<[1, 2, 3]> : tensor<3xi32>}> : () -> tensor<3xi64>
  func.return
}

// -----

func.func @negative_encoded_literal() {
  // expected-error@+1 {{the literal needs a tensor type without encoding, not tensor<3xi32, #layout.any>}}
  %0 = "nn.constant"() <{value = dense<[1, 2, 3]> : tensor<3xi32, #layout.any>}> : () -> tensor<3xi32, #layout.any>
  func.return
}

// -----

func.func @negative_kind() {
  // expected-error@+1 {{nn.constant holds dense<...>}}
  %0 = nn.constant 3 : i32
  func.return
}
