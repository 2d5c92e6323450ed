// RUN: layout-opt %s -p 'layout-propagate{target=blocked8},layout-fold-reorders' | filecheck %s

#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>

// A convolution in a loop: the reorders stand outside, the loop carries blocks.
// CHECK-LABEL: func.func @loop(
// CHECK:         %[[X:.+]] = layout.reorder %x
// CHECK:         %r = scf.for {{.*}} iter_args(%a = %[[X]]) -> (tensor<1x64x8x8xf32, #nChw8c>)
// CHECK-NEXT:      %b = nn.conv %a, %{{.+}} pads = [1, 1, 1, 1]
// CHECK-NEXT:      %c = nn.relu %b
// CHECK-NEXT:      scf.yield %c
// CHECK:         %{{.+}} = layout.reorder %r
func.func @loop(%x : tensor<1x64x8x8xf32, #nchw>) -> tensor<1x64x8x8xf32, #nchw> {
  %low = arith.constant 0 : index
  %high = arith.constant 100 : index
  %step = arith.constant 1 : index
  %w = nn.constant dense<0.5> : tensor<64x64x3x3xf32, #layout.any>
  %i = layout.reorder %x : tensor<1x64x8x8xf32, #nchw> -> tensor<1x64x8x8xf32, #layout.any>
  %r = scf.for %k = %low to %high step %step iter_args(%a = %i) -> (tensor<1x64x8x8xf32, #layout.any>) {
    %b = nn.conv %a, %w pads = [1, 1, 1, 1] : (tensor<1x64x8x8xf32, #layout.any>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x8x8xf32, #layout.any>
    %c = nn.relu %b : tensor<1x64x8x8xf32, #layout.any>
    scf.yield %c : tensor<1x64x8x8xf32, #layout.any>
  }
  %y = layout.reorder %r : tensor<1x64x8x8xf32, #layout.any> -> tensor<1x64x8x8xf32, #nchw>
  func.return %y : tensor<1x64x8x8xf32, #nchw>
}

// What a loop reads from outside is reordered once, outside.
// CHECK-LABEL: func.func @hoisted(
// CHECK:         %[[X:.+]] = layout.reorder %x
// CHECK:         scf.for
// CHECK-NOT:       layout.reorder
// CHECK:           scf.yield
func.func @hoisted(%x : tensor<1x64x8x8xf32, #nchw>, %s : tensor<1x64x8x8xf32, #nChw8c>) -> tensor<1x64x8x8xf32, #nChw8c> {
  %low = arith.constant 0 : index
  %high = arith.constant 100 : index
  %step = arith.constant 1 : index
  %w = nn.constant dense<0.5> : tensor<64x64x3x3xf32, #layout.any>
  %r = scf.for %k = %low to %high step %step iter_args(%a = %s) -> (tensor<1x64x8x8xf32, #nChw8c>) {
    %b = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x64x8x8xf32, #nchw>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x8x8xf32, #layout.any>
    %c = nn.add %a, %b : (tensor<1x64x8x8xf32, #nChw8c>, tensor<1x64x8x8xf32, #layout.any>) -> tensor<1x64x8x8xf32, #layout.any>
    %d = layout.reorder %c : tensor<1x64x8x8xf32, #layout.any> -> tensor<1x64x8x8xf32, #nChw8c>
    scf.yield %d : tensor<1x64x8x8xf32, #nChw8c>
  }
  func.return %r : tensor<1x64x8x8xf32, #nChw8c>
}

// Both branches meet in one format.
// CHECK-LABEL: func.func @branches(
// CHECK:         %r = scf.if %p -> (tensor<1x64x8x8xf32, #nChw8c>) {
// CHECK:           scf.yield %{{.+}} : tensor<1x64x8x8xf32, #nChw8c>
// CHECK:           scf.yield %{{.+}} : tensor<1x64x8x8xf32, #nChw8c>
func.func @branches(%p : i1, %x : tensor<1x64x8x8xf32, #nChw8c>) -> tensor<1x64x8x8xf32, #nChw8c> {
  %w = nn.constant dense<0.5> : tensor<64x64x3x3xf32, #layout.any>
  %r = scf.if %p -> (tensor<1x64x8x8xf32, #layout.any>) {
    %a = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x64x8x8xf32, #nChw8c>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x8x8xf32, #layout.any>
    scf.yield %a : tensor<1x64x8x8xf32, #layout.any>
  } else {
    %b = nn.relu %x : (tensor<1x64x8x8xf32, #nChw8c>) -> tensor<1x64x8x8xf32, #layout.any>
    scf.yield %b : tensor<1x64x8x8xf32, #layout.any>
  }
  %y = layout.reorder %r : tensor<1x64x8x8xf32, #layout.any> -> tensor<1x64x8x8xf32, #nChw8c>
  func.return %y : tensor<1x64x8x8xf32, #nChw8c>
}

// A function that is called takes its argument as its callers have it and its body wants it.
// CHECK-LABEL: func.func @caller(
// CHECK-NEXT:    %a = func.call @callee(%x) : (tensor<1x64x8x8xf32, #nChw8c>) -> tensor<1x64x8x8xf32, #nChw8c>
// CHECK-NEXT:    %b = func.call @callee(%a) : (tensor<1x64x8x8xf32, #nChw8c>) -> tensor<1x64x8x8xf32, #nChw8c>
// CHECK-LABEL: func.func private @callee(%x: tensor<1x64x8x8xf32, #nChw8c>) -> tensor<1x64x8x8xf32, #nChw8c>
func.func @caller(%x : tensor<1x64x8x8xf32, #nChw8c>) -> tensor<1x64x8x8xf32, #nChw8c> {
  %i = layout.reorder %x : tensor<1x64x8x8xf32, #nChw8c> -> tensor<1x64x8x8xf32, #layout.any>
  %a = func.call @callee(%i) : (tensor<1x64x8x8xf32, #layout.any>) -> tensor<1x64x8x8xf32, #layout.any>
  %b = func.call @callee(%a) : (tensor<1x64x8x8xf32, #layout.any>) -> tensor<1x64x8x8xf32, #layout.any>
  %y = layout.reorder %b : tensor<1x64x8x8xf32, #layout.any> -> tensor<1x64x8x8xf32, #nChw8c>
  func.return %y : tensor<1x64x8x8xf32, #nChw8c>
}

func.func private @callee(%x : tensor<1x64x8x8xf32, #layout.any>) -> tensor<1x64x8x8xf32, #layout.any> {
  %w = nn.constant dense<0.5> : tensor<64x64x3x3xf32, #layout.any>
  %a = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x64x8x8xf32, #layout.any>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x8x8xf32, #layout.any>
  func.return %a : tensor<1x64x8x8xf32, #layout.any>
}
