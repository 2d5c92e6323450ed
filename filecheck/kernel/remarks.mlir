// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=haswell}" --split-input-file --verify-diagnostics
// RUN: not layout-opt %s -p "convert-layout-to-kernel{cpu=pentium}" --split-input-file 2>&1 | filecheck %s --check-prefix=CPU

// CPU: error: unknown cpu 'pentium': known are host, x86-64-v2, haswell

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>

func.func @negative_converted(%x : tensor<1x3x4x4xf32, #nchw>) -> tensor<1x3x4x4xi8, #nhwc> {
  // expected-remark@+1 {{reorder stays: a compiled reorder keeps the element type: f32 != i8}}
  %y = layout.reorder %x : tensor<1x3x4x4xf32, #nchw> -> tensor<1x3x4x4xi8, #nhwc>
  func.return %y : tensor<1x3x4x4xi8, #nhwc>
}

// -----

#nchw = #layout.tag<nchw>

func.func @negative_open(%x : tensor<1x3x4x4xf32, #nchw>) -> tensor<1x3x4x4xf32, #layout.any> {
  // expected-remark@+1 {{has no layout: its encoding is #layout.any}}
  %y = layout.reorder %x : tensor<1x3x4x4xf32, #nchw> -> tensor<1x3x4x4xf32, #layout.any>
  func.return %y : tensor<1x3x4x4xf32, #layout.any>
}

// -----

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>

func.func @negative_nibbles(%x : tensor<1x3x4x4xi4, #nchw>) -> tensor<1x3x4x4xi4, #nhwc> {
  // expected-remark@+1 {{reorder stays: elements of 4 bits (i4) cannot be moved: whole bytes are needed}}
  %y = layout.reorder %x : tensor<1x3x4x4xi4, #nchw> -> tensor<1x3x4x4xi4, #nhwc>
  func.return %y : tensor<1x3x4x4xi4, #nhwc>
}
