// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=haswell}" --split-input-file --verify-diagnostics
// RUN: not layout-opt %s -p "convert-layout-to-kernel{cpu=pentium}" --split-input-file 2>&1 | filecheck %s --check-prefix=CPU

// CPU: -p:1:1: error: pass 'convert-layout-to-kernel': unknown cpu 'pentium': known are host, x86-64-v2, haswell

#nchw = #layout.tag<nchw>

func.func @negative_open(%x : tensor<1x3x4x4xf32, #nchw>) -> tensor<1x3x4x4xf32, #layout.any> {
  // expected-remark@+1 {{has no layout: its encoding is #layout.any}}
  %y = layout.reorder %x : tensor<1x3x4x4xf32, #nchw> -> tensor<1x3x4x4xf32, #layout.any>
  func.return %y : tensor<1x3x4x4xf32, #layout.any>
}

// -----

#nchw = #layout.tag<nchw>

func.func @negative_open_and_dynamic(%x : tensor<?x3x4x4xf32, #nchw>) -> tensor<?x3x4x4xf32, #layout.any> {
  // expected-remark@+1 {{has no layout: its encoding is #layout.any}}
  %y = layout.reorder %x : tensor<?x3x4x4xf32, #nchw> -> tensor<?x3x4x4xf32, #layout.any>
  func.return %y : tensor<?x3x4x4xf32, #layout.any>
}

// -----

#blocks8 = #layout.format<(a, b) : [a, b, a:8]>
#blocks6 = #layout.format<(a, b) : [a, b, a:6]>

func.func @negative_blocks_that_conflict(%x : tensor<?x?xf32, #blocks8>) -> tensor<?x?xf32, #blocks6> {
  // expected-remark@+1 {{reorder stays: no kernel from (a, b) : [a, b, a:8] to (a, b) : [a, b, a:6] serves all extents of ?x?}}
  %y = layout.reorder %x : tensor<?x?xf32, #blocks8> -> tensor<?x?xf32, #blocks6>
  func.return %y : tensor<?x?xf32, #blocks6>
}
