// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

// CHECK-LABEL: func.func @activations
func.func @activations(%x: tensor<2x3xf32>, %i: tensor<4xi32>) {
  // CHECK-NEXT: %0 = nn.relu %x : tensor<2x3xf32>
  %0 = nn.relu %x : tensor<2x3xf32>
  // CHECK-NEXT: %1 = nn.leaky_relu %0 alpha = 0.25 : tensor<2x3xf32>
  %1 = nn.leaky_relu %0 alpha = 0.25 : tensor<2x3xf32>
  // CHECK-NEXT: %2 = nn.elu %1 alpha = 2.0 : tensor<2x3xf32>
  %2 = nn.elu %1 alpha = 2 : tensor<2x3xf32>
  // CHECK-NEXT: %3 = nn.sigmoid %2 : tensor<2x3xf32>
  %3 = nn.sigmoid %2 : tensor<2x3xf32>
  // CHECK-NEXT: %4 = nn.hard_sigmoid %3 alpha = 0.16666666666666666 : tensor<2x3xf32>
  %4 = nn.hard_sigmoid %3 alpha = 0.16666666666666666 beta = 0.5 : tensor<2x3xf32>
  // CHECK-NEXT: %5 = nn.hard_swish %4 : tensor<2x3xf32>
  %5 = nn.hard_swish %4 : tensor<2x3xf32>
  // CHECK-NEXT: %6 = nn.softplus %5 : tensor<2x3xf32>
  %6 = nn.softplus %5 : tensor<2x3xf32>
  // CHECK-NEXT: %7 = nn.gelu %6 : tensor<2x3xf32>
  %7 = nn.gelu %6 approximate = none : tensor<2x3xf32>
  // CHECK-NEXT: %8 = nn.gelu %7 approximate = tanh : tensor<2x3xf32>
  %8 = nn.gelu %7 approximate = tanh : tensor<2x3xf32>
  // CHECK-NEXT: %9 = nn.clip %8 max = 6.0 : tensor<2x3xf32>
  %9 = nn.clip %8 min = -inf max = 6.0 : tensor<2x3xf32>
  // CHECK-NEXT: %10 = nn.clip %i min = -3.0 : tensor<4xi32>
  %10 = nn.clip %i min = -3 max = inf : tensor<4xi32>
  func.return
}
