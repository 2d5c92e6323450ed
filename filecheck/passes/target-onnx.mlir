// RUN: layout-opt %s -p 'layout-optimize{target=onnx},convert-layout-to-physical' | filecheck %s

!X = tensor<1x9x9x8xf32>
!A = tensor<1x9x9x8xf32, #layout.any>
!N = tensor<1x8x9x9xf32, #layout.any>
!P = tensor<1x8x4x4xf32, #layout.any>

// What converters from NHWC write: each convolution between two transpositions. Only those at the ends are left; ops
// along an axis work on the dims where they are.
// CHECK-LABEL: func.func @axes_follow(
// CHECK:         %[[T:.+]] = layout.permute {{.*}} perm = [0, 3, 1, 2] : tensor<1x9x9x8xf32> -> tensor<1x8x9x9xf32>
// CHECK-NEXT:    %c = nn.conv %[[T]], {{.*}} : (tensor<1x8x9x9xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x9x9xf32>
// CHECK-NEXT:    %s = nn.softmax %c axis = 1 : tensor<1x8x9x9xf32>
// CHECK-NEXT:    %p = nn.pad %s pads = [0, 1, 0, 0, 0, 0, 0, 0] : (tensor<1x8x9x9xf32>) -> tensor<1x9x9x9xf32>
// CHECK-NEXT:    %[[M:.+]] = nn.reduce_mean %p axes = [1] : (tensor<1x9x9x9xf32>) -> tensor<1x1x9x9xf32>
// CHECK-NEXT:    %a = nn.add %p, %[[M]] : (tensor<1x9x9x9xf32>, tensor<1x1x9x9xf32>) -> tensor<1x9x9x9xf32>
// CHECK-NEXT:    %d = nn.conv %a, {{.*}} -> tensor<1x8x9x9xf32>
// CHECK-NEXT:    %y = layout.permute %d perm = [0, 2, 3, 1] : tensor<1x8x9x9xf32> -> tensor<1x9x9x8xf32>
// CHECK-NEXT:    func.return %y
func.func @axes_follow(%x : !X) -> !X {
  %w = nn.constant dense<0.5> : tensor<8x8x1x1xf32, #layout.any>
  %v = nn.constant dense<0.5> : tensor<8x9x1x1xf32, #layout.any>
  %t = layout.permute %x perm = [0, 3, 1, 2] : !X -> !N
  %c = nn.conv %t, %w : (!N, tensor<8x8x1x1xf32, #layout.any>) -> !N
  %u = layout.permute %c perm = [0, 2, 3, 1] : !N -> !A
  %s = nn.softmax %u axis = 3 : !A
  %p = nn.pad %s pads = [0, 0, 0, 1, 0, 0, 0, 0] : (!A) -> tensor<1x9x9x9xf32, #layout.any>
  %m = nn.reduce_mean %p axes = [3] : (tensor<1x9x9x9xf32, #layout.any>) -> tensor<1x9x9x1xf32, #layout.any>
  %a = nn.add %p, %m : (tensor<1x9x9x9xf32, #layout.any>, tensor<1x9x9x1xf32, #layout.any>) -> tensor<1x9x9x9xf32, #layout.any>
  %b = layout.permute %a perm = [0, 3, 1, 2] : tensor<1x9x9x9xf32, #layout.any> -> tensor<1x9x9x9xf32, #layout.any>
  %d = nn.conv %b, %v : (tensor<1x9x9x9xf32, #layout.any>, tensor<8x9x1x1xf32, #layout.any>) -> !N
  %e = layout.permute %d perm = [0, 2, 3, 1] : !N -> !A
  %y = layout.reorder %e : !A -> !X
  func.return %y : !X
}

// Pools, normalizations per channel and resizes know their dims by position, so a tensor in nhwc is transposed for them.
// CHECK-LABEL: func.func @negative_dims_by_position(
// CHECK:         layout.permute %x perm = [0, 3, 1, 2]
// CHECK-NEXT:    %p = nn.max_pool {{.*}} : (tensor<1x8x9x9xf32>) -> tensor<1x8x4x4xf32>
// CHECK-NEXT:    %q = nn.lrn %p size = 3 : tensor<1x8x4x4xf32>
// CHECK-NEXT:    %r = nn.resize %q {{.*}} : (tensor<1x8x4x4xf32>) -> tensor<1x8x8x8xf32>
func.func @negative_dims_by_position(%x : tensor<1x8x9x9xf32, #layout.tag<nhwc>>) -> tensor<1x8x8x8xf32, #layout.any> {
  %p = nn.max_pool %x kernel = [3, 3] strides = [2, 2] : (tensor<1x8x9x9xf32, #layout.tag<nhwc>>) -> !P
  %q = nn.lrn %p size = 3 : !P
  %r = nn.resize %q scales = [1.0, 1.0, 2.0, 2.0] : (!P) -> tensor<1x8x8x8xf32, #layout.any>
  func.return %r : tensor<1x8x8x8xf32, #layout.any>
}
