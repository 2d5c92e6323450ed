// Ten steps of a recurrence, with reorders inside of the loop: one of what the loop carries, one of what it only reads.
// Both belong outside, and the loop should carry what its convolution wants.
//   layout-ir optimize examples/loop.mlir --target avx2 --report

#nchw = #layout.tag<nchw>

func.func @main(%start : tensor<1x16x12x12xf32, #nchw>, %force : tensor<1x16x12x12xf32, #nchw>) -> tensor<1x16x12x12xf32, #nchw> {
  %low = arith.constant 0 : index
  %high = arith.constant 10 : index
  %one = arith.constant 1 : index
  %w = nn.constant dense<0.005> : tensor<16x16x3x3xf32, #layout.any>
  %first = layout.reorder %start : tensor<1x16x12x12xf32, #nchw> -> tensor<1x16x12x12xf32, #layout.any>
  %last = scf.for %step = %low to %high step %one iter_args(%state = %first) -> (tensor<1x16x12x12xf32, #layout.any>) {
    %s = layout.reorder %state : tensor<1x16x12x12xf32, #layout.any> -> tensor<1x16x12x12xf32, #layout.any>
    %f = layout.reorder %force : tensor<1x16x12x12xf32, #nchw> -> tensor<1x16x12x12xf32, #layout.any>
    %a = nn.conv %s, %w pads = [1, 1, 1, 1] : (tensor<1x16x12x12xf32, #layout.any>, tensor<16x16x3x3xf32, #layout.any>) -> tensor<1x16x12x12xf32, #layout.any>
    %b = nn.add %a, %f : tensor<1x16x12x12xf32, #layout.any>
    %c = nn.tanh %b : tensor<1x16x12x12xf32, #layout.any>
    %d = layout.reorder %c : tensor<1x16x12x12xf32, #layout.any> -> tensor<1x16x12x12xf32, #layout.any>
    scf.yield %d : tensor<1x16x12x12xf32, #layout.any>
  }
  %y = layout.reorder %last : tensor<1x16x12x12xf32, #layout.any> -> tensor<1x16x12x12xf32, #nchw>
  func.return %y : tensor<1x16x12x12xf32, #nchw>
}
