// RUN: layout-opt %s -p 'layout-optimize{target=blocked8 attach=true}' --validate -o %t.mlir
// RUN: layout-ir verify-certificate %t.mlir | filecheck %s
// RUN: layout-opt %t.mlir -p layout-strip | filecheck %s --check-prefix=STRIP
// RUN: not layout-ir verify-certificate %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not layout-opt %s -p 'layout-optimize{target=blocked8 solver=greedy attach=true}' 2>&1 | filecheck %s --check-prefix=GREEDY

// CHECK: optimal: cost {{[0-9]+}} = bound {{[0-9]+}}, {{[1-9]}} ops
// STRIP-NOT: layout.certificate
// NONE: attach.mlir: the module carries no layout.certificate: layout-propagate{attach=true} writes it
// GREEDY: -p:1:1: error: pass 'layout-optimize': solver 'greedy' proves nothing: no certificate can be written to the module's layout.certificate
func.func @main(%x : tensor<1x64x56x56xf32, #layout.any>) -> tensor<1x64x56x56xf32, #layout.any> {
  %a = nn.relu %x : tensor<1x64x56x56xf32, #layout.any>
  func.return %a : tensor<1x64x56x56xf32, #layout.any>
}
