// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=haswell}" | filecheck %s
// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=haswell}" | layout-opt | filecheck %s
// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=haswell}" -t llvm-ir | filecheck %s --check-prefix=LLVM
// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=riscv64}" -t llvm-ir | filecheck %s --check-prefix=RISCV

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>
#nChw8c = #layout.tag<nChw8c>

// Reorders that change the element type are plans, too.
// CHECK-LABEL: func.func @converts(
// CHECK-COUNT-5: kernel.call
// CHECK-NOT: layout.reorder
func.func @converts(%x : tensor<1x64x56x56xf32, #nchw>, %p : tensor<1x3x20x20xui8, #nhwc>,
                    %q : tensor<2x17x5x4xf32, #nchw>, %r : tensor<1x3x4x4xi4, #nchw>) {
  %1 = layout.reorder %x : tensor<1x64x56x56xf32, #nchw> -> tensor<1x64x56x56xbf16, #nhwc>
  %2 = layout.reorder %p : tensor<1x3x20x20xui8, #nhwc> -> tensor<1x3x20x20xf32, #nchw>
  %3 = layout.reorder %q : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xi8, #nChw8c>
  %4 = layout.reorder %r : tensor<1x3x4x4xi4, #nchw> -> tensor<1x3x4x4xf16, #nchw>
  %5 = layout.reorder %p scale = [[0.5, 2, 0.25], 1] zero_point = [[128, 127, 0], 0] dim = 1 : tensor<1x3x20x20xui8, #nhwc> -> tensor<1x3x20x20xf32, #nchw>
  func.return
}

// Whole lines of the narrower elements.
// CHECK-LABEL: kernel.plan @reorder_0 cpu "haswell" {
// CHECK-NEXT:    width 2 src 802816 dst 401408 convert <f32 to bf16>
// CHECK-NEXT:    step src 0 dst 0
// CHECK-NEXT:      tile 2 rows 64 by 12544 cols 3136 by 128 schedule <{{.*}}> prefetch_distance 256 parallel

// CHECK-LABEL: kernel.plan @reorder_1 cpu "haswell" {
// CHECK-NEXT:    width 1 src 1200 dst 4800 convert <ui8 to f32>
// CHECK:           deinterleave 1 ways 3 of 400 by 1600 block 32

// Groups of 8 bytes go in two passes, of which the first converts; pads are filled with what they hold in the
// destination's type.
// CHECK-LABEL: kernel.plan @reorder_2 cpu "haswell" {
// CHECK-NEXT:    width 1 src 2720 dst 960 convert <f32 to i8>
// CHECK:           staged 320 {
// CHECK:             tile 1 rows 16 by 80 cols 20 by 16
// CHECK:           } then {
// CHECK:             deinterleave 8 ways 2 of 20 by 160
// CHECK:           fill 7 with 0 width 1

// CHECK-LABEL: kernel.plan @reorder_3 cpu "haswell" {
// CHECK-NEXT:    width 1 src 24 dst 96 convert <i4 to f16>
// CHECK-NEXT:    step src 0 dst 0
// CHECK-NEXT:      copy 48 parallel

// A number for each channel.
// CHECK-LABEL: kernel.plan @reorder_4 cpu "haswell" {
// CHECK-NEXT:    width 1 src 1200 dst 4800 convert <ui8 to f32, src_zero [128.0, 127.0, 0.0], src_scale [0.5, 2.0, 0.25], dim 1 of 3>
// CHECK:           deinterleave 1 ways 3 of 400 by 1600 channel 1 block 32

// bf16 is rounded with integers, on every target.
// LLVM-LABEL: define void @reorder_0(
// LLVM: add <{{.*}} x i32> {{.*}}, splat (i32 32767)
// LLVM: trunc <{{.*}} x i32> {{.*}} to <{{.*}} x i16>
// LLVM-LABEL: define void @reorder_2(
// LLVM: fadd <{{.*}} x float> {{.*}}, splat (float 0x4168000000000000)
// LLVM-LABEL: define void @reorder_3(
// LLVM: fptrunc <{{.*}} x float> {{.*}} to <{{.*}} x half>

// Numbers of channels are constants beside the code.
// LLVM: @reorder_4.table0 = private unnamed_addr constant [12 x i8] c"\00\00\00\43\00\00\FE\42\00\00\00\00", align 4
// LLVM-NEXT: @reorder_4.table1 = private unnamed_addr constant [12 x i8] c"\00\00\00\3F\00\00\00\40\00\00\80\3E", align 4

// Nothing that only a library could do.
// RISCV-NOT: half
// RISCV-NOT: bfloat
