// RUN: layout-opt %s -p 'layout-propagate{target=blocked8 costs="%S/Inputs/costs-blocks.json"}' | filecheck %s
// RUN: layout-opt %s -p 'layout-propagate{target=blocked8}' | filecheck %s --check-prefix=MODEL
// RUN: layout-ir optimize %s --target blocked8 --costs %S/Inputs/costs-blocks.json | filecheck %s --check-prefix=TOOL

#nchw = #layout.tag<nchw>

// The table says that a relu runs ten times faster in blocks and that reorders cost next to nothing.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %[[X:.+]] = layout.reorder %x : tensor<1x64x56x56xf32, #nchw> -> tensor<1x64x56x56xf32, #nChw8c>
// CHECK-NEXT:    %a = nn.relu %[[X]] : tensor<1x64x56x56xf32, #nChw8c>
// CHECK-NEXT:    %{{.+}} = layout.reorder %a : tensor<1x64x56x56xf32, #nChw8c> -> tensor<1x64x56x56xf32, #nchw>
// MODEL-LABEL: func.func @main(
// MODEL-NEXT:    %a = nn.relu %x : tensor<1x64x56x56xf32, #nchw>
// TOOL: proven optimal for cost table {{.*}}, target {{.*}}: cost {{[0-9]+}} ns
func.func @main(%x : tensor<1x64x56x56xf32, #nchw>) -> tensor<1x64x56x56xf32, #nchw> {
  %a = nn.relu %x {layout.options = [
      #layout.option<ins = [#nchw], outs = [#nchw], cost = 5>,
      #layout.option<ins = [#layout.tag<nChw8c>], outs = [#layout.tag<nChw8c>], cost = 4>]}
    : (tensor<1x64x56x56xf32, #nchw>) -> tensor<1x64x56x56xf32, #layout.any>
  %y = layout.reorder %a : tensor<1x64x56x56xf32, #layout.any> -> tensor<1x64x56x56xf32, #nchw>
  func.return %y : tensor<1x64x56x56xf32, #nchw>
}
