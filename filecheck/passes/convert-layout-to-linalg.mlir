// RUN: layout-opt %s -p convert-layout-to-linalg --split-input-file | filecheck %s
// RUN: layout-opt %s -p 'convert-layout-to-linalg{reorders=pack}' --split-input-file | filecheck %s --check-prefix PACK
// RUN: layout-opt %s -p 'convert-layout-to-linalg{reorders=call}' --split-input-file | filecheck %s --check-prefix CALL

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>
#nChw8c = #layout.tag<nChw8c>

// A reorder to blocks, with a partial last tile.

// CHECK:      func.func @to_blocks(%x: tensor<2x17x5x4xf32>) -> tensor<2x3x5x4x8xf32> {
// CHECK:        tensor.pad %x low[0, 0, 0, 0] high[0, 7, 0, 0] {
// CHECK:        } : tensor<2x17x5x4xf32> to tensor<2x24x5x4xf32>
// CHECK:        tensor.expand_shape {{.*}} : tensor<2x24x5x4xf32> into tensor<2x3x8x5x4xf32>
// CHECK:        linalg.transpose {{.*}} permutation = [0, 1, 3, 4, 2]

// PACK:       func.func @to_blocks(%x: tensor<2x17x5x4xf32>) -> tensor<2x3x5x4x8xf32> {
// PACK:         %y = linalg.pack %x padding_value({{.*}} : f32) inner_dims_pos = [1] inner_tiles = [8] into {{.*}} : tensor<2x17x5x4xf32> -> tensor<2x3x5x4x8xf32>

// CALL:       func.func @to_blocks(%x: tensor<2x17x5x4xf32>) -> tensor<2x3x5x4x8xf32> {
// CALL:         bufferization.to_buffer %x read_only : tensor<2x17x5x4xf32> to memref<2x17x5x4xf32>
// CALL:         memref.alloc() : memref<2x3x5x4x8xf32>
// CALL:         func.call @reorder_0({{.*}}) : (memref<2x17x5x4xf32>, memref<2x3x5x4x8xf32>) -> ()
// CALL:         %y = bufferization.to_tensor {{.*}} restrict writable : memref<2x3x5x4x8xf32> to tensor<2x3x5x4x8xf32>
// CALL:       func.func private @reorder_0(memref<2x17x5x4xf32>, memref<2x3x5x4x8xf32>)
// CALL-SAME:    llvm.bareptr
func.func @to_blocks(%x : tensor<2x17x5x4xf32, #nchw>) -> tensor<2x17x5x4xf32, #nChw8c> {
  %y = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nChw8c>
  func.return %y : tensor<2x17x5x4xf32, #nChw8c>
}

// -----

// The way back.

// CHECK:      func.func @from_blocks(
// CHECK:        linalg.transpose {{.*}} permutation = [0, 1, 4, 2, 3]
// CHECK:        tensor.collapse_shape
// CHECK:        tensor.extract_slice {{.*}} : tensor<2x24x5x4xf32> to tensor<2x17x5x4xf32>

// PACK:       func.func @from_blocks(
// PACK:         linalg.unpack {{.*}} inner_dims_pos = [1] inner_tiles = [8] into
func.func @from_blocks(%x : tensor<2x17x5x4xf32, #layout.tag<nChw8c>>) -> tensor<2x17x5x4xf32> {
  %y = layout.reorder %x : tensor<2x17x5x4xf32, #layout.tag<nChw8c>> -> tensor<2x17x5x4xf32>
  func.return %y : tensor<2x17x5x4xf32>
}

// -----

// A convolution in channels last is the named op of that order; what it does to its result is its definition.

// CHECK:      func.func @conv(%x: tensor<2x9x8x4xf32>) -> tensor<2x4x6x6xf32> {
// CHECK:        arith.constant dense<5.000000e-01> : tensor<3x3x4x6xf32>
// CHECK:        linalg.fill
// CHECK:        linalg.conv_2d_nhwc_hwcf {strides = dense<[2, 1]> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
// CHECK:        linalg.generic
// CHECK:          arith.maximumf
#nhwc = #layout.tag<nhwc>
func.func @conv(%x : tensor<2x4x9x8xf32, #nhwc>) -> tensor<2x6x4x6xf32, #nhwc> {
  %w = nn.constant dense<0.5> : tensor<6x4x3x3xf32, #layout.tag<hwio>>
  %y = nn.conv %x, %w strides = [2, 1] : (tensor<2x4x9x8xf32, #nhwc>, tensor<6x4x3x3xf32, #layout.tag<hwio>>) -> tensor<2x6x4x6xf32, #nhwc>
  %z = nn.relu %y : tensor<2x6x4x6xf32, #nhwc>
  func.return %z : tensor<2x6x4x6xf32, #nhwc>
}

// -----

// Integers lose their sign in the type, and keep it in the ops. Halves are computed in single precision.

// CHECK:      func.func @bytes(%x: tensor<4x3xi8>, %y: tensor<4x3xi8>) -> tensor<4x3xi8> {
// CHECK:          arith.maxui
// CHECK:      func.func @halves(%x: tensor<4x3xbf16>) -> tensor<4x3xbf16> {
// CHECK:          arith.extf {{.*}} : bf16 to f32
// CHECK:          math.exp {{.*}} : f32
// CHECK:          arith.truncf {{.*}} : f32 to bf16
func.func @bytes(%x : tensor<4x3xui8>, %y : tensor<4x3xui8>) -> tensor<4x3xui8> {
  %z = nn.max %x, %y : tensor<4x3xui8>
  func.return %z : tensor<4x3xui8>
}
func.func @halves(%x : tensor<4x3xbf16>) -> tensor<4x3xbf16> {
  %z = nn.exp %x : tensor<4x3xbf16>
  func.return %z : tensor<4x3xbf16>
}

// -----

// A fill writes the pads and nothing else; where it is a call, a function does.

// CHECK:      func.func @fill(%x: tensor<2x3x5x4x8xf32>) -> tensor<2x3x5x4x8xf32> {
// CHECK-NEXT:   %0 = tensor.extract_slice %x[0, 2, 0, 0, 1] [2, 1, 5, 4, 7] [1, 1, 1, 1, 1]
// CHECK-NEXT:   %1 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:   %2 = linalg.fill ins(%1 : f32) outs(%0 : tensor<2x1x5x4x7xf32>)
// CHECK-NEXT:   %3 = tensor.insert_slice %2 into %x[0, 2, 0, 0, 1] [2, 1, 5, 4, 7] [1, 1, 1, 1, 1]
// CHECK-NEXT:   func.return %3

// CALL:       func.func @fill(
// CALL:         func.call @reorder_0(
func.func @fill(%x : tensor<2x17x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>>) -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>> {
  %y = layout.fill_pads %x : tensor<2x17x5x4xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>> -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  func.return %y : tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
}

// -----

// Two transpositions in a row are one.

// CHECK:      func.func @twice(
// CHECK:        linalg.transpose {{.*}} permutation = [3, 2, 1, 0]
// CHECK-NOT:  linalg.transpose
// CHECK:      func.return
func.func @twice(%x : tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32, #layout.format<(n, c, h, w) : [w, h, c, n]>> {
  %a = layout.reorder %x : tensor<2x3x5x4xf32> -> tensor<2x3x5x4xf32, #layout.tag<nhwc>>
  %y = layout.reorder %a : tensor<2x3x5x4xf32, #layout.tag<nhwc>> -> tensor<2x3x5x4xf32, #layout.format<(n, c, h, w) : [w, h, c, n]>>
  func.return %y : tensor<2x3x5x4xf32, #layout.format<(n, c, h, w) : [w, h, c, n]>>
}

// -----

// A transposition to where everything lies already is nothing.

// CHECK:      func.func @renamed(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
// CHECK-NEXT:   func.return %x
func.func @renamed(%x : tensor<3x4xf32>) -> tensor<4x3xf32, #layout.format<(a, b) : [b, a]>> {
  %e = tensor.empty() : tensor<4x3xf32, #layout.format<(a, b) : [b, a]>>
  %y = linalg.transpose ins(%x : tensor<3x4xf32>) outs(%e : tensor<4x3xf32, #layout.format<(a, b) : [b, a]>>) permutation = [1, 0]
  func.return %y : tensor<4x3xf32, #layout.format<(a, b) : [b, a]>>
}

// -----

// One to another place is one.

// CHECK:      func.func @negative_moved(
// CHECK:        linalg.transpose
func.func @negative_moved(%x : tensor<3x4xf32>) -> tensor<4x3xf32> {
  %e = tensor.empty() : tensor<4x3xf32>
  %y = linalg.transpose ins(%x : tensor<3x4xf32>) outs(%e : tensor<4x3xf32>) permutation = [1, 0]
  func.return %y : tensor<4x3xf32>
}

// -----

// Constants and elementwise ops of tosa are on the memory as well; pads of a constant hold its one number too.

// CHECK:      func.func @tosa(%x: tensor<3x4x8xf32>) -> tensor<3x4x8xf32> {
// CHECK:        "tosa.const"() <{values = dense<2.000000e+00> : tensor<3x4x8xf32>}>
// CHECK:        tosa.maximum {{.*}} : (tensor<3x4x8xf32>, tensor<3x4x8xf32>) -> tensor<3x4x8xf32>
#blocks = #layout.format<(a, b) : [a, b, a:8]>
func.func @tosa(%x : tensor<17x4xf32, #blocks>) -> tensor<17x4xf32, #blocks> {
  %c = "tosa.const"() <{values = dense<2.0> : tensor<17x4xf32>}> : () -> tensor<17x4xf32, #blocks>
  %y = tosa.maximum %x, %c : (tensor<17x4xf32, #blocks>, tensor<17x4xf32, #blocks>) -> tensor<17x4xf32, #blocks>
  func.return %y : tensor<17x4xf32, #blocks>
}
