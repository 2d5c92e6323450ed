// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
#ones = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = 1>

// CHECK-LABEL: func.func @constants
func.func @constants() {
  // CHECK-NEXT: nn.constant dense<{{\[\[}}1, 2, 3], [4, 5, -6{{\]\]}}> : tensor<2x3xi32>
  %0 = nn.constant dense<[[1, 2, 3], [4, 5, -6]]> : tensor<2x3xi32>
  // CHECK-NEXT: nn.constant dense<-1> : tensor<2xi8>
  %1 = nn.constant dense<255> : tensor<2xi8>
  // CHECK-NEXT: nn.constant dense<255> : tensor<ui8>
  %2 = nn.constant dense<255> : tensor<ui8>
  // CHECK-NEXT: nn.constant dense<[true, false]> : tensor<2xi1>
  %3 = nn.constant dense<[true, false]> : tensor<2xi1>
  // CHECK-NEXT: nn.constant dense<5.000000e-01> : tensor<f16>
  %4 = nn.constant dense<0.5> : tensor<f16>
  // CHECK-NEXT: nn.constant dense<3.000000e+00> : tensor<4xbf16>
  %5 = nn.constant dense<3> : tensor<4xbf16>
  // CHECK-NEXT: nn.constant {note = "kept"} dense<1.000000e-01> : tensor<2xf64>
  %6 = nn.constant {note = "kept"} dense<0.1> : tensor<2xf64>
  // As in MLIR, a float in hexadecimal is its bit pattern.
  // CHECK-NEXT: nn.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
  %7 = nn.constant dense<[0x3F800000, 0x40000000]> : tensor<2xf32>
  func.return
}

// The encoding says where the elements lie, the literal what they are; the pads of a constant hold what its type says.
// CHECK-LABEL: func.func @encoded
func.func @encoded() {
  // CHECK-NEXT: nn.constant dense<2.000000e+00> : tensor<1x17x8x8xf32, #nChw8c>
  %0 = nn.constant dense<2.0> : tensor<1x17x8x8xf32, #nChw8c>
  // CHECK-NEXT: nn.constant dense<2.000000e+00> : tensor<1x17x8x8xf32, #nChw8c_pad1>
  %1 = nn.constant dense<2.0> : tensor<1x17x8x8xf32, #ones>
  // CHECK-NEXT: nn.constant dense<2.000000e+00> : tensor<1x17x8x8xf32, #layout.any>
  %2 = nn.constant dense<2.0> : tensor<1x17x8x8xf32, #layout.any>
  func.return
}
