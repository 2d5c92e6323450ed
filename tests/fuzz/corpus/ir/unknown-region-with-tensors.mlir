// layout-opt --allow-unregistered-dialect -p layout-propagate
func.func @f(%x : tensor<4x4xf32, #layout.any>) -> tensor<4x4xf32, #layout.any> {
  %y = "my.region"(%x) ({
  ^bb0(%a : tensor<4x4xf32, #layout.any>):
    "my.yield"(%a) : (tensor<4x4xf32, #layout.any>) -> ()
  }) : (tensor<4x4xf32, #layout.any>) -> tensor<4x4xf32, #layout.any>
  func.return %y : tensor<4x4xf32, #layout.any>
}
