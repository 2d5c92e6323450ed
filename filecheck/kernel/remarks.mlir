// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=haswell}" --split-input-file --verify-diagnostics
// RUN: not layout-opt %s -p "convert-layout-to-kernel{cpu=pentium}" --split-input-file 2>&1 | filecheck %s --check-prefix=CPU

// CPU: error: unknown cpu 'pentium': known are host, x86-64-v2, haswell

#nchw = #layout.tag<nchw>

func.func @negative_open(%x : tensor<1x3x4x4xf32, #nchw>) -> tensor<1x3x4x4xf32, #layout.any> {
  // expected-remark@+1 {{has no layout: its encoding is #layout.any}}
  %y = layout.reorder %x : tensor<1x3x4x4xf32, #nchw> -> tensor<1x3x4x4xf32, #layout.any>
  func.return %y : tensor<1x3x4x4xf32, #layout.any>
}
