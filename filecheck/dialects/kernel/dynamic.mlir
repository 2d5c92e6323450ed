// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=haswell}" | filecheck %s
// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=haswell}" | layout-opt | filecheck %s
// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=haswell}" -t llvm-ir | filecheck %s --check-prefix=LLVM
// RUN: layout-opt %s -p layout-fold-reorders | filecheck %s --check-prefix=FOLD

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>
#nChw8c = #layout.tag<nChw8c>

// Extents that the program does not know are arguments of the kernel; a call hands over those of its operand.
// CHECK-LABEL: func.func @shared(
// CHECK-NEXT:    %a = kernel.call @reorder_0 %x : tensor<?x64x?x?xf32, #nchw> -> tensor<?x64x?x?xf32, #nhwc>
// CHECK-NEXT:    %b = kernel.call @reorder_0 %y : tensor<?x64x?x?xf32, #nchw> -> tensor<?x64x?x?xf32, #nhwc>
// Nothing is folded whose size nobody knows.
// FOLD-LABEL: func.func @shared(
// FOLD-COUNT-2: layout.reorder
func.func @shared(%x : tensor<?x64x?x?xf32, #nchw>, %y : tensor<?x64x?x?xf32, #nchw>)
    -> (tensor<?x64x?x?xf32, #nhwc>, tensor<?x64x?x?xf32, #nhwc>) {
  %a = layout.reorder %x : tensor<?x64x?x?xf32, #nchw> -> tensor<?x64x?x?xf32, #nhwc>
  %b = layout.reorder %y : tensor<?x64x?x?xf32, #nchw> -> tensor<?x64x?x?xf32, #nhwc>
  func.return %a, %b : tensor<?x64x?x?xf32, #nhwc>, tensor<?x64x?x?xf32, #nhwc>
}

// CHECK-LABEL: func.func @others(
// CHECK-NEXT:    %a = kernel.call @reorder_1 %x : tensor<?x?xf32> -> tensor<?x?xi8>
// CHECK-NEXT:    %b = kernel.call @reorder_2 %y : tensor<2x3x4x5xf32, #nchw> -> tensor<2x3x4x5xf32, #nhwc>
func.func @others(%x : tensor<?x?xf32>, %y : tensor<2x3x4x5xf32, #nchw>)
    -> (tensor<?x?xi8>, tensor<2x3x4x5xf32, #nhwc>) {
  %a = layout.reorder %x scale = [1, 0.05] zero_point = [0, 3] : tensor<?x?xf32> -> tensor<?x?xi8>
  %b = layout.reorder %y : tensor<2x3x4x5xf32, #nchw> -> tensor<2x3x4x5xf32, #nhwc>
  func.return %a, %b : tensor<?x?xi8>, tensor<2x3x4x5xf32, #nhwc>
}

// CHECK: kernel.dynamic @reorder_0 shape <?, 64, ?, ?> from <(n, c, h, w) : [n, c, h, w]> to <(n, c, h, w) : [n, h, w, c]> elements <f32 to f32> cpu "haswell"
// CHECK-NEXT: kernel.dynamic @reorder_1 shape <?, ?> from <(n, c) : [n, c]> to <(n, c) : [n, c]> elements <f32 to i8, dst_scale 0.05000000074505806, dst_zero 3.0> cpu "haswell"
// CHECK-NEXT: kernel.plan @reorder_2 cpu "haswell"

// A kernel for dynamic extents takes them from memory, and chooses among its plans.
// LLVM: define internal void @reorder_0.0(ptr noalias %src, ptr noalias %dst, i64 %part, i64 %parts, ptr noalias %extents)
// LLVM: getelementptr i64, ptr %extents, i64 {{[0-9]}}
// LLVM: define internal void @reorder_0.choice(
// LLVM: define void @reorder_0_part(ptr %src, ptr %dst, i64 %part, i64 %parts, ptr %extents)
// LLVM: define void @reorder_0(ptr %src, ptr %dst, ptr %extents)
// LLVM: define i64 @reorder_0_src_bytes(ptr %extents)
// LLVM: define internal void @reorder_1.0(
// LLVM: fmul <{{[0-9]+}} x float>
// LLVM: define void @reorder_1(ptr %src, ptr %dst, ptr %extents)
// LLVM: define void @reorder_2(ptr noalias %src, ptr noalias %dst, i64 %part, i64 %parts)
