// RUN: layout-opt %s -p 'layout-propagate{target=blocked8 report="%t.json"}' > %t.mlir && layout-ir verify-certificate %t.json | filecheck %s
// RUN: sed -i 's/"cost": /"cost": 1/' %t.json && not layout-ir verify-certificate %t.json 2>&1 | filecheck %s --check-prefix=CHANGED

// CHECK: optimal: cost [[COST:[0-9]+]] = bound [[COST]]
// CHANGED: error: {{.*}}the certificate states cost
func.func @main(%x : tensor<1x64x56x56xf32, #layout.tag<nchw>>) -> tensor<1x64x56x56xf32, #layout.tag<nchw>> {
  %w = nn.constant dense<0.5> : tensor<64x64x3x3xf32, #layout.any>
  %a = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x64x56x56xf32, #layout.tag<nchw>>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any>
  %y = layout.reorder %a : tensor<1x64x56x56xf32, #layout.any> -> tensor<1x64x56x56xf32, #layout.tag<nchw>>
  func.return %y : tensor<1x64x56x56xf32, #layout.tag<nchw>>
}
