// What an optimizer leaves of a small network: a batch of images goes to blocks of channels, twice in the same way,
// and back to channels last.
func.func @main(%x: tensor<2x17x5x4xf32>, %y: tensor<2x17x5x4xf32>)
    -> (tensor<2x17x5x4xf32, #layout.tag<nhwc>>, tensor<2x17x5x4xf32, #layout.tag<nChw8c>>) {
  %a = layout.reorder %x : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  %b = layout.reorder %y : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  %s = nn.add %a, %b : tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  %r = layout.reorder %s : tensor<2x17x5x4xf32, #layout.tag<nChw8c>> -> tensor<2x17x5x4xf32, #layout.tag<nhwc>>
  func.return %r, %s : tensor<2x17x5x4xf32, #layout.tag<nhwc>>, tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
}
