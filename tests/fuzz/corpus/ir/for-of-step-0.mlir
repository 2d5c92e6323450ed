// layout-opt -p layout-optimize --validate=execute
func.func @f(%x : tensor<4xf32>) -> tensor<4xf32> {
  %a = arith.constant 0 : index
  %b = arith.constant 4 : index
  %r = scf.for %i = %a to %b step %a iter_args(%v = %x) -> (tensor<4xf32>) {
    scf.yield %v : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
