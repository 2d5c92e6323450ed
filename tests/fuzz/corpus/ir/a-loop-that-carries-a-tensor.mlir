// layout-opt -p layout-optimize --validate=execute
func.func @f(%i : tensor<2x3xf32>, %n : index) -> tensor<2x3xf32> {
  %low = arith.constant 0 : index
  %step = arith.constant 1 : index
  %r = scf.for %k = %low to %n step %step iter_args(%s = %i) -> (tensor<2x3xf32>) {
    %b = nn.add %s, %s : tensor<2x3xf32>
    scf.yield %b : tensor<2x3xf32>
  }
  func.return %r : tensor<2x3xf32>
}
