// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
#low = #layout.format<(n, c) : [n, c, c:8], pad = -inf>
#undef = #layout.format<(n, c) : [n, c, c:8]>

// CHECK-LABEL: func.func @batch_norm
func.func @batch_norm(%x: tensor<2x3x4x4xf32>, %p: tensor<3xf32>) {
  // CHECK-NEXT: %0 = nn.batch_norm %x, %p, %p, %p, %p epsilon = 0.001 : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4x4xf32>
  %0 = nn.batch_norm %x, %p, %p, %p, %p epsilon = 1.0e-3 : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4x4xf32>
  // CHECK-NEXT: %1 = nn.batch_norm %x, %p, %p, %p, %p : (
  %1 = nn.batch_norm %x, %p, %p, %p, %p epsilon = 1.0e-5 : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4x4xf32>
  func.return
}

// CHECK-LABEL: func.func @lrn
func.func @lrn(%x: tensor<2x17x4x4xf32, #nChw8c>) {
  // CHECK-NEXT: %0 = nn.lrn %x size = 5 alpha = 0.002 beta = 0.5 bias = 2.0 : tensor<2x17x4x4xf32, #nChw8c>
  %0 = nn.lrn %x size = 5 alpha = 2.0e-3 beta = 0.5 bias = 2.0 : tensor<2x17x4x4xf32, #nChw8c>
  func.return
}

// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<2x17xf32>, %y: tensor<2x17xf32, #low>, %z: tensor<2x17xf32, #undef>) {
  // CHECK-NEXT: %0 = nn.softmax %x : tensor<2x17xf32>
  %0 = nn.softmax %x axis = 1 : tensor<2x17xf32>
  // CHECK-NEXT: %1 = nn.log_softmax %x axis = 0 : tensor<2x17xf32>
  %1 = nn.log_softmax %x axis = 0 : tensor<2x17xf32>
  // CHECK-NEXT: %2 = nn.softmax %y : (tensor<2x17xf32, #{{.*}}>) -> tensor<2x17xf32, #{{.*}}>
  %2 = nn.softmax %y : (tensor<2x17xf32, #low>) -> tensor<2x17xf32, #undef>
  // CHECK-NEXT: %3 = nn.softmax %z axis = 0 : tensor<2x17xf32, #{{.*}}>
  %3 = nn.softmax %z axis = 0 : tensor<2x17xf32, #undef>
  func.return
}

// CHECK-LABEL: func.func @layer_norm
func.func @layer_norm(%x: tensor<2x5x8xf32>, %s: tensor<8xf32>, %t: tensor<5x1xf32>) {
  // CHECK-NEXT: %0 = nn.layer_norm %x, %s, %s : (tensor<2x5x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
  %0 = nn.layer_norm %x, %s, %s axes = [2] epsilon = 1.0e-5 : (tensor<2x5x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
  // CHECK-NEXT: %1 = nn.layer_norm %x, %t axes = [1] epsilon = 0.001 : (tensor<2x5x8xf32>, tensor<5x1xf32>) -> tensor<2x5x8xf32>
  %1 = nn.layer_norm %x, %t axes = [1] epsilon = 1.0e-3 : (tensor<2x5x8xf32>, tensor<5x1xf32>) -> tensor<2x5x8xf32>
  // CHECK-NEXT: %2 = nn.rms_norm %x, %s : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
  %2 = nn.rms_norm %x, %s : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
  func.return
}

// CHECK-LABEL: func.func @group_norm
func.func @group_norm(%x: tensor<2x17x4x4xf32, #nChw8c>, %p: tensor<17xf32>) {
  // CHECK-NEXT: %0 = nn.group_norm %x, %p, %p groups = 17 epsilon = 0.001 : (tensor<2x17x4x4xf32, #nChw8c>, tensor<17xf32>, tensor<17xf32>) -> tensor<2x17x4x4xf32, #nChw8c>
  %0 = nn.group_norm %x, %p, %p groups = 17 epsilon = 1.0e-3 : (tensor<2x17x4x4xf32, #nChw8c>, tensor<17xf32>, tensor<17xf32>) -> tensor<2x17x4x4xf32, #nChw8c>
  func.return
}
