// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=haswell}" -t llvm-ir | filecheck %s
// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=haswell}" | layout-opt -t llvm-ir | filecheck %s
// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=aarch64}" -t llvm-ir | filecheck %s --check-prefix=ARM
// RUN: not layout-opt %s -t llvm-ir 2>&1 | filecheck %s --check-prefix=NONE

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>

// NONE: error: there is no kernel.plan to make LLVM IR from: run convert-layout-to-kernel first

// Machine code is made for the machine that the plans name.
// CHECK: target triple = "x86_64-unknown-linux-gnu"
// ARM: target triple = "aarch64-unknown-linux-gnu"
// ARM-NOT: llvm.x86

func.func @f(%x : tensor<1x8x4x4xf32, #nchw>, %y : tensor<4x4xf32>, %z : tensor<32x64x56x56xf32, #nchw>)
    -> (tensor<1x8x4x4xf32, #nhwc>, tensor<4x4xf32>, tensor<32x64x56x56xf32, #nhwc>) {
  %a = layout.reorder %x : tensor<1x8x4x4xf32, #nchw> -> tensor<1x8x4x4xf32, #nhwc>
  %b = layout.reorder %y : tensor<4x4xf32> -> tensor<4x4xf32>
  %c = layout.reorder %z : tensor<32x64x56x56xf32, #nchw> -> tensor<32x64x56x56xf32, #nhwc>
  func.return %a, %b, %c : tensor<1x8x4x4xf32, #nhwc>, tensor<4x4xf32>, tensor<32x64x56x56xf32, #nhwc>
}

// A function per plan, which does its part of the parts that the work is split into.
// CHECK: define void @reorder_0(ptr noalias %src, ptr noalias %dst, i64 %part, i64 %parts) nounwind alignstack(64) {
// CHECK: udiv i64 {{.*}}, %parts
// CHECK: phi i64
// CHECK: shufflevector
// CHECK: ret void

// CHECK: define void @reorder_1(
// CHECK-NOT: shufflevector
// CHECK: ret void

// Streaming stores need an aligned destination, and a fence.
// CHECK: define void @reorder_2(
// CHECK: and i64 {{.*}}, 63
// CHECK: !nontemporal
// CHECK: call void @llvm.x86.sse.sfence()
// CHECK-NEXT: ret void
