// RUN: layout-opt %s | layout-opt | filecheck %s

// Every form of the attribute is read and printed in its canonical spelling.

// CHECK-DAG: = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
// CHECK-DAG: = #layout.format<(o, i, h, w) : [o, i, h, w, i:4, o:16, i:4], pad = zero>
// CHECK-DAG: = #layout.format<(n, c, h, w) : [n, c*64, h*8, w], offset = 19>
// CHECK-DAG: = #layout.format<(n, h, w, c) : [n, h, w, c | h:8, w:8, c:32], pad = 31>
// CHECK-DAG: = #layout.format<(n, c, h, w) : [n, c, h:7, w:6], pad = zero, lo = [0, 0, 1, 1]>
// CHECK-DAG: = #layout.format<(n, c) : [n, c, c:8], pad = zp>
// CHECK-DAG: = #layout.format<(n, c) : [n, c, c:8], pad = -inf>
// CHECK-DAG: = #layout.format<(n, c) : [n@lane, c], size = 320, swizzle = (3, 3, 3)>

// CHECK-LABEL: func.func @blocked(%x: tensor<2x17x5x4xf32, #nChw8c>, %w: tensor<20x18x3x2xf32, #OIhw4i16o4i>)
func.func @blocked(%x : tensor<2x17x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>>,
                   %w : tensor<20x18x3x2xf32, #layout.tag<OIhw4i16o4i>>) {
  func.return
}

// CHECK-LABEL: func.func @strided(
func.func @strided(%x : tensor<2x16x5x4xf32, #layout.format<(n, c, h, w) : [n, c*64, h*8, w], offset = 19>>) {
  func.return
}

// CHECK-LABEL: func.func @crouton(
func.func @crouton(%x : tensor<1x3x5x30xui8, #layout.format<(n, h, w, c) : [n, h, w, c | h:8, w:8, c:32], pad = 31>>) {
  func.return
}

// CHECK-LABEL: func.func @halo(
func.func @halo(%x : tensor<1x3x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h:7, w:6], pad = zero, lo = [0, 0, 1, 1]>>) {
  func.return
}

// CHECK-LABEL: func.func @policies(
func.func @policies(%x : tensor<2x17xi8, #layout.format<(n, c) : [n, c, c:8], pad = zp>>,
                    %y : tensor<2x17xf32, #layout.format<(n, c) : [n, c, c:8], pad = -inf>>) {
  func.return
}

// CHECK-LABEL: func.func @places(
func.func @places(%x : tensor<2x17xf32, #layout.format<(n, c) : [n@lane, c], size = 320, swizzle = (3, 3, 3)>>) {
  func.return
}

// A size of 1 says nothing where the dim has another factor, and neither does pad = 0 besides pad = zero.
// CHECK-LABEL: func.func @canonical(%x: tensor<2x17x5x4xf32, #fmt
func.func @canonical(%x : tensor<2x17x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h, w:1, w:4, c:8], pad = 0>>) {
  func.return
}

// CHECK-LABEL: func.func @to_be_chosen(%x: tensor<2x17xf32, #layout.any>, %y: tensor<2x17xf32, #layout.opaque<"winograd", 4096>>)
func.func @to_be_chosen(%x : tensor<2x17xf32, #layout.any>, %y : tensor<2x17xf32, #layout.opaque<"winograd", 4096>>) {
  func.return
}
