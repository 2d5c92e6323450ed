// layout-opt -p layout-optimize --validate=execute
func.func @f(%x : tensor<?x4xf32>) -> tensor<?x4xf32> {
  func.return %x : tensor<?x4xf32>
}
