// RUN: stereo-opt %s -p convert-stereo-to-nn --verify-diagnostics
// RUN: stereo-opt %s -p convert-stereo-to-nn | filecheck %s
// RUN: stereo-opt %s -p 'convert-stereo-to-nn,layout-optimize{target=avx2}' --validate=strip | filecheck %s --check-prefix=CHOSEN

// CHECK-LABEL: func.func @floats
// CHECK-NEXT:    %[[HALF:.+]] = nn.constant dense<{{.*}}> : tensor<f32>
// CHECK-NEXT:    %[[SUM:.+]] = nn.add %l, %r : tensor<480x2xf32, #layout.any>
// CHECK-NEXT:    %[[MEAN:.+]] = nn.mul %[[SUM]], %[[HALF]]
// CHECK-NEXT:    func.return %[[MEAN]]
// CHOSEN-NOT:  #layout.any
func.func @floats(%l : tensor<480x2xf32, #layout.any>, %r : tensor<480x2xf32, #layout.any>) -> tensor<480x2xf32, #layout.any> {
  %m = stereo.mid %l, %r : tensor<480x2xf32, #layout.any>
  func.return %m : tensor<480x2xf32, #layout.any>
}

// CHECK-LABEL: func.func @negative_integers
// CHECK-NEXT:    %m = stereo.mid
func.func @negative_integers(%l : tensor<480x2xi16>, %r : tensor<480x2xi16>) {
  // expected-remark@+1 {{stays: the mean of two i16 is none}}
  %m = stereo.mid %l, %r : tensor<480x2xi16>
  func.return
}
