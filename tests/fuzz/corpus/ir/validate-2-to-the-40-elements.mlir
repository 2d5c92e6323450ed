// layout-opt -p layout-optimize --validate=execute
func.func @f(%x : tensor<1099511627776xf32>) -> tensor<1099511627776xf32> {
  func.return %x : tensor<1099511627776xf32>
}
