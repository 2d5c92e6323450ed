// What doing without a reorder costs is said in the unit of the cost table, and its entries know ops by the names they have.
// RUN: layout-opt %s --allow-unregistered-dialect -p 'layout-explain{target=blocked8 costs="%S/Inputs/costs-units.json"}' 2>&1 | filecheck %s
// RUN: layout-opt %s --allow-unregistered-dialect -p 'layout-propagate{target=blocked8 costs="%S/Inputs/costs-units.json"}' 2>&1 | filecheck %s --check-prefix=NAME

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>
#nChw8c = #layout.tag<nChw8c>

// CHECK: doing without would cost {{[0-9]+}} bytes more
func.func @forced(%x : tensor<1x64x56x56xf32, #nchw>, %w : tensor<64x64x3x3xf32, #layout.tag<OIhw8i8o>>) -> tensor<1x64x56x56xf32, #nChw8c> {
  %a = layout.reorder %x : tensor<1x64x56x56xf32, #nchw> -> tensor<1x64x56x56xf32, #nChw8c>
  %b = nn.conv %a, %w pads = [1, 1, 1, 1] : (tensor<1x64x56x56xf32, #nChw8c>, tensor<64x64x3x3xf32, #layout.tag<OIhw8i8o>>) -> tensor<1x64x56x56xf32, #nChw8c>
  func.return %b : tensor<1x64x56x56xf32, #nChw8c>
}

// NAME: %b = "foo.a"({{.*}}) : (tensor<1x64x8x8xf32, #nchw>) -> tensor<1x64x8x8xf32, #nchw>
func.func @named(%x : tensor<1x64x8x8xf32, #layout.any>) -> tensor<1x64x8x8xf32, #layout.any> {
  %b = "foo.a"(%x) {layout.options = [#layout.option<ins = [#nhwc], outs = [#nhwc], cost = 5>, #layout.option<ins = [#nchw], outs = [#nchw], cost = 9>]} : (tensor<1x64x8x8xf32, #layout.any>) -> tensor<1x64x8x8xf32, #layout.any>
  func.return %b : tensor<1x64x8x8xf32, #layout.any>
}
