// RUN: layout-opt %s -p layout-fold-reorders | filecheck %s

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>

// What the loop does not change is reordered in front of it.
// CHECK-LABEL: func.func @out_of_loop(
// CHECK:         %a = layout.reorder %x
// CHECK-NEXT:    %r = scf.for
// CHECK-NEXT:      %b = nn.add %s, %a
// CHECK-NEXT:      scf.yield %b
func.func @out_of_loop(%x : tensor<2x17x5x4xf32, #nchw>, %i : tensor<2x17x5x4xf32, #nhwc>, %n : index) -> tensor<2x17x5x4xf32, #nhwc> {
  %low = arith.constant 0 : index
  %step = arith.constant 1 : index
  %r = scf.for %k = %low to %n step %step iter_args(%s = %i) -> (tensor<2x17x5x4xf32, #nhwc>) {
    %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
    %b = nn.add %s, %a : tensor<2x17x5x4xf32, #nhwc>
    scf.yield %b : tensor<2x17x5x4xf32, #nhwc>
  }
  func.return %r : tensor<2x17x5x4xf32, #nhwc>
}

// A loop that never runs does not pay for it.
// CHECK-LABEL: func.func @negative_loop_never_runs(
// CHECK:         scf.for
// CHECK-NEXT:      %a = layout.reorder %x
func.func @negative_loop_never_runs(%x : tensor<2x17x5x4xf32, #nchw>, %i : tensor<2x17x5x4xf32, #nhwc>) -> tensor<2x17x5x4xf32, #nhwc> {
  %low = arith.constant 0 : index
  %step = arith.constant 1 : index
  %r = scf.for %k = %low to %low step %step iter_args(%s = %i) -> (tensor<2x17x5x4xf32, #nhwc>) {
    %a = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nhwc>
    %b = nn.add %s, %a : tensor<2x17x5x4xf32, #nhwc>
    scf.yield %b : tensor<2x17x5x4xf32, #nhwc>
  }
  func.return %r : tensor<2x17x5x4xf32, #nhwc>
}

// A reorder at both ends of a loop-carried value goes around the loop.
// CHECK-LABEL: func.func @around_loop(
// CHECK:         %[[I:.+]] = layout.reorder %x
// CHECK:         scf.for {{.*}} iter_args(%s = %[[I]]) -> (tensor<1x16x5x4xf32, #nhwc>)
// CHECK-NEXT:      %b = nn.conv %s, %w
// CHECK-NEXT:      scf.yield %b
// CHECK:         %{{.+}} = layout.reorder %r
func.func @around_loop(%x : tensor<1x16x5x4xf32, #nchw>, %w : tensor<16x16x1x1xf32, #nhwc>, %n : index) -> tensor<1x16x5x4xf32, #nchw> {
  %low = arith.constant 0 : index
  %step = arith.constant 1 : index
  %r = scf.for %k = %low to %n step %step iter_args(%s = %x) -> (tensor<1x16x5x4xf32, #nchw>) {
    %a = layout.reorder %s : tensor<1x16x5x4xf32, #nchw> -> tensor<1x16x5x4xf32, #nhwc>
    %b = nn.conv %a, %w : (tensor<1x16x5x4xf32, #nhwc>, tensor<16x16x1x1xf32, #nhwc>) -> tensor<1x16x5x4xf32, #nhwc>
    %c = layout.reorder %b : tensor<1x16x5x4xf32, #nhwc> -> tensor<1x16x5x4xf32, #nchw>
    scf.yield %c : tensor<1x16x5x4xf32, #nchw>
  }
  func.return %r : tensor<1x16x5x4xf32, #nchw>
}

// What the body makes lies as the loop carries it: carrying the other layout would reorder it instead.
// CHECK-LABEL: func.func @negative_one_end(
// CHECK:         scf.for {{.*}} iter_args(%s = %x) -> (tensor<1x16x5x4xf32, #nchw>)
// CHECK-NEXT:      %a = layout.reorder %s
func.func @negative_one_end(%x : tensor<1x16x5x4xf32, #nchw>, %w : tensor<16x16x1x1xf32, #nhwc>, %n : index) -> tensor<1x16x5x4xf32, #nchw> {
  %low = arith.constant 0 : index
  %step = arith.constant 1 : index
  %r = scf.for %k = %low to %n step %step iter_args(%s = %x) -> (tensor<1x16x5x4xf32, #nchw>) {
    %a = layout.reorder %s : tensor<1x16x5x4xf32, #nchw> -> tensor<1x16x5x4xf32, #nhwc>
    %b = nn.conv %a, %w : (tensor<1x16x5x4xf32, #nhwc>, tensor<16x16x1x1xf32, #nhwc>) -> tensor<1x16x5x4xf32, #nchw>
    scf.yield %b : tensor<1x16x5x4xf32, #nchw>
  }
  func.return %r : tensor<1x16x5x4xf32, #nchw>
}

// Only one branch needs it.
// CHECK-LABEL: func.func @into_branch(
// CHECK-NEXT:    %r = scf.if %p
// CHECK-NEXT:      %a = layout.reorder %x
// CHECK-NEXT:      %b = nn.conv %a, %w
func.func @into_branch(%p : i1, %x : tensor<1x16x5x4xf32, #nchw>, %y : tensor<1x16x5x4xf32, #nhwc>, %w : tensor<16x16x1x1xf32, #nhwc>) -> tensor<1x16x5x4xf32, #nhwc> {
  %a = layout.reorder %x : tensor<1x16x5x4xf32, #nchw> -> tensor<1x16x5x4xf32, #nhwc>
  %r = scf.if %p -> (tensor<1x16x5x4xf32, #nhwc>) {
    %b = nn.conv %a, %w : (tensor<1x16x5x4xf32, #nhwc>, tensor<16x16x1x1xf32, #nhwc>) -> tensor<1x16x5x4xf32, #nhwc>
    scf.yield %b : tensor<1x16x5x4xf32, #nhwc>
  } else {
    scf.yield %y : tensor<1x16x5x4xf32, #nhwc>
  }
  func.return %r : tensor<1x16x5x4xf32, #nhwc>
}

// CHECK-LABEL: func.func @negative_both_branches(
// CHECK-NEXT:    %a = layout.reorder %x
// CHECK-NEXT:    %r = scf.if %p
func.func @negative_both_branches(%p : i1, %x : tensor<1x16x5x4xf32, #nchw>, %w : tensor<16x16x1x1xf32, #nhwc>) -> tensor<1x16x5x4xf32, #nhwc> {
  %a = layout.reorder %x : tensor<1x16x5x4xf32, #nchw> -> tensor<1x16x5x4xf32, #nhwc>
  %r = scf.if %p -> (tensor<1x16x5x4xf32, #nhwc>) {
    %b = nn.conv %a, %w : (tensor<1x16x5x4xf32, #nhwc>, tensor<16x16x1x1xf32, #nhwc>) -> tensor<1x16x5x4xf32, #nhwc>
    scf.yield %b : tensor<1x16x5x4xf32, #nhwc>
  } else {
    scf.yield %a : tensor<1x16x5x4xf32, #nhwc>
  }
  func.return %r : tensor<1x16x5x4xf32, #nhwc>
}

// Every branch ends with the same reorder.
// CHECK-LABEL: func.func @behind_branches(
// CHECK-NEXT:    %r = scf.if %p -> (tensor<1x16x5x4xf32, #nchw>)
// CHECK-NEXT:      scf.yield %x
// CHECK:           scf.yield %y
// CHECK:         %{{.+}} = layout.reorder %r
func.func @behind_branches(%p : i1, %x : tensor<1x16x5x4xf32, #nchw>, %y : tensor<1x16x5x4xf32, #nchw>) -> tensor<1x16x5x4xf32, #nhwc> {
  %r = scf.if %p -> (tensor<1x16x5x4xf32, #nhwc>) {
    %a = layout.reorder %x : tensor<1x16x5x4xf32, #nchw> -> tensor<1x16x5x4xf32, #nhwc>
    scf.yield %a : tensor<1x16x5x4xf32, #nhwc>
  } else {
    %b = layout.reorder %y : tensor<1x16x5x4xf32, #nchw> -> tensor<1x16x5x4xf32, #nhwc>
    scf.yield %b : tensor<1x16x5x4xf32, #nhwc>
  }
  func.return %r : tensor<1x16x5x4xf32, #nhwc>
}

// The other branch has nothing to give up.
// CHECK-LABEL: func.func @negative_one_branch(
// CHECK-NEXT:    %r = scf.if %p -> (tensor<1x16x5x4xf32, #nhwc>)
// CHECK-NEXT:      %a = layout.reorder %x
func.func @negative_one_branch(%p : i1, %x : tensor<1x16x5x4xf32, #nchw>, %y : tensor<1x16x5x4xf32, #nhwc>) -> tensor<1x16x5x4xf32, #nhwc> {
  %r = scf.if %p -> (tensor<1x16x5x4xf32, #nhwc>) {
    %a = layout.reorder %x : tensor<1x16x5x4xf32, #nchw> -> tensor<1x16x5x4xf32, #nhwc>
    scf.yield %a : tensor<1x16x5x4xf32, #nhwc>
  } else {
    scf.yield %y : tensor<1x16x5x4xf32, #nhwc>
  }
  func.return %r : tensor<1x16x5x4xf32, #nhwc>
}

// A reorder in front of the loop is seen from inside of it.
// CHECK-LABEL: func.func @shared_across_blocks(
// CHECK:         %a = layout.reorder %x
// CHECK-NEXT:    scf.if
// CHECK-NEXT:      %c = nn.conv %a, %w
func.func @shared_across_blocks(%p : i1, %x : tensor<1x16x5x4xf32, #nchw>, %w : tensor<16x16x1x1xf32, #nhwc>) -> (tensor<1x16x5x4xf32, #nhwc>, tensor<1x16x5x4xf32, #nhwc>) {
  %a = layout.reorder %x : tensor<1x16x5x4xf32, #nchw> -> tensor<1x16x5x4xf32, #nhwc>
  %r = scf.if %p -> (tensor<1x16x5x4xf32, #nhwc>) {
    %b = layout.reorder %x : tensor<1x16x5x4xf32, #nchw> -> tensor<1x16x5x4xf32, #nhwc>
    %c = nn.conv %b, %w : (tensor<1x16x5x4xf32, #nhwc>, tensor<16x16x1x1xf32, #nhwc>) -> tensor<1x16x5x4xf32, #nhwc>
    scf.yield %c : tensor<1x16x5x4xf32, #nhwc>
  } else {
    scf.yield %a : tensor<1x16x5x4xf32, #nhwc>
  }
  func.return %a, %r : tensor<1x16x5x4xf32, #nhwc>, tensor<1x16x5x4xf32, #nhwc>
}
