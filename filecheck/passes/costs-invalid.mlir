// A cost table that is wrong is refused at its place in the file, by passes and by tools, with status 1.
// RUN: not layout-opt %s -p 'layout-propagate{costs="%S/Inputs/costs-syntax.json"}' 2>&1 | filecheck %s --check-prefix=SYNTAX
// RUN: not layout-opt %s -p 'layout-optimize{costs="%S/Inputs/costs-syntax.json"}' 2>&1 | filecheck %s --check-prefix=SYNTAX
// RUN: not layout-opt %s -p 'layout-explain{costs="%S/Inputs/costs-syntax.json"}' 2>&1 | filecheck %s --check-prefix=SYNTAX
// RUN: not layout-ir optimize %s --costs %S/Inputs/costs-syntax.json 2>&1 | filecheck %s --check-prefix=SYNTAX
// RUN: not layout-ir run %s --costs %S/Inputs/costs-syntax.json 2>&1 | filecheck %s --check-prefix=SYNTAX
// SYNTAX: {{^}}{{.*}}costs-syntax.json:3:19: error: not JSON: Expecting ',' delimiter

// RUN: not layout-opt %s -p 'layout-propagate{costs="%S/Inputs/costs-negative.json"}' 2>&1 | filecheck %s --check-prefix=NEGATIVE
// RUN: not layout-ir optimize %s --costs %S/Inputs/costs-negative.json 2>&1 | filecheck %s --check-prefix=NEGATIVE
// NEGATIVE: {{^}}{{.*}}costs-negative.json: error: reorder[1]: cost = -10 is not in [0, 2^48)

// RUN: not layout-ir optimize %s --costs %S/Inputs/costs-contradiction.json 2>&1 | filecheck %s --check-prefix=CONTRADICTION
// CONTRADICTION: {{^}}{{.*}}costs-contradiction.json: error: op[1] contradicts op[0]: cost 2 != 1

// RUN: not layout-ir optimize %s --costs %S/Inputs/costs-shape.json 2>&1 | filecheck %s --check-prefix=SHAPE
// SHAPE: {{^}}{{.*}}costs-shape.json: error: reorder[0]: from: rank mismatch between format (n, c, h, w) and shape 1x64x56: 4 != 3

// RUN: not layout-ir optimize %s --costs %S/Inputs/none.json 2>&1 | filecheck %s --check-prefix=NONE
// NONE: {{^}}{{.*}}none.json: error: cannot be read: No such file or directory

// What the table forbids may leave no way at all.
// RUN: not layout-opt %s -p 'layout-propagate{target=blocked8 costs="%S/Inputs/costs-forbid.json"}' 2>&1 | filecheck %s --check-prefix=FORBID
// FORBID: costs-invalid.mlir:{{.*}}error: no choice of options fits together: func.func makes %x in nchw, and nn.relu takes it in nchw or nChw8c; nn.relu makes %a in nchw or nChw8c, and layout.reorder takes it in nChw8c; all of this cannot be: allow a reorder, or give an op another option

#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>
func.func @main(%x : tensor<1x64x56x56xf32, #nchw>) -> tensor<1x64x56x56xf32, #nChw8c> {
  %a = nn.relu %x : (tensor<1x64x56x56xf32, #nchw>) -> tensor<1x64x56x56xf32, #layout.any>
  %y = layout.reorder %a : tensor<1x64x56x56xf32, #layout.any> -> tensor<1x64x56x56xf32, #nChw8c>
  func.return %y : tensor<1x64x56x56xf32, #nChw8c>
}
