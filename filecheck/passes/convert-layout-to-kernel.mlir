// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=haswell}" | filecheck %s
// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=haswell}" | layout-opt | filecheck %s
// RUN: layout-opt %s -p "convert-layout-to-kernel{cpu=x86-64-v4}" | filecheck %s --check-prefix=WIDE

#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>
#nChw8c = #layout.tag<nChw8c>
#nc = #layout.tag<nc>
#blocks4 = #layout.format<(n, c) : [n, c:4, c:4], pad = 3>
#aBc8b = #layout.tag<aBc8b>
#aBc12b = #layout.tag<aBc12b>

// Every reorder is a call; reorders of different tensors that move alike share a plan.
// CHECK-LABEL: func.func @shared(
// CHECK-NEXT:    %a = kernel.call @reorder_0 %x : tensor<1x64x56x56xf32, #nchw> -> tensor<1x64x56x56xf32, #nhwc>
// CHECK-NEXT:    %b = kernel.call @reorder_0 %y : tensor<1x64x56x56xi32, #nchw> -> tensor<1x64x56x56xi32, #nhwc>
// CHECK-NEXT:    func.return %a, %b
func.func @shared(%x : tensor<1x64x56x56xf32, #nchw>, %y : tensor<1x64x56x56xi32, #nchw>)
    -> (tensor<1x64x56x56xf32, #nhwc>, tensor<1x64x56x56xi32, #nhwc>) {
  %a = layout.reorder %x : tensor<1x64x56x56xf32, #nchw> -> tensor<1x64x56x56xf32, #nhwc>
  %b = layout.reorder %y : tensor<1x64x56x56xi32, #nchw> -> tensor<1x64x56x56xi32, #nhwc>
  func.return %a, %b : tensor<1x64x56x56xf32, #nhwc>, tensor<1x64x56x56xi32, #nhwc>
}

// CHECK-LABEL: func.func @others(
// CHECK-COUNT-6: kernel.call
func.func @others(%x : tensor<2x17x5x4xf32, #nchw>, %p : tensor<1x3x20x20xf32, #nhwc>, %q : tensor<5x8xf32, #nc>,
                  %t : tensor<2x96x5xf32, #aBc8b>, %s : tensor<32x64x56x56xf32, #nchw>,
                  %g : tensor<384x256x14x14xf32, #nhwc>) {
  %1 = layout.reorder %x : tensor<2x17x5x4xf32, #nchw> -> tensor<2x17x5x4xf32, #nChw8c>
  %2 = layout.reorder %p : tensor<1x3x20x20xf32, #nhwc> -> tensor<1x3x20x20xf32, #nchw>
  %3 = layout.reorder %q : tensor<5x8xf32, #nc> -> tensor<5x8xf32, #blocks4>
  %4 = layout.reorder %t : tensor<2x96x5xf32, #aBc8b> -> tensor<2x96x5xf32, #aBc12b>
  %5 = layout.reorder %s : tensor<32x64x56x56xf32, #nchw> -> tensor<32x64x56x56xf32, #nhwc>
  %6 = layout.reorder %g : tensor<384x256x14x14xf32, #nhwc> -> tensor<384x256x14x14xf32, #nchw>
  func.return
}

// Transposed in registers, shared out over columns.
// CHECK-LABEL: kernel.plan @reorder_0 cpu "haswell" {
// CHECK-NEXT:    width 4 src 802816 dst 802816
// CHECK-NEXT:      step src 0 dst 0
// CHECK-NEXT:        tile 4 rows 64 by 12544 cols 3136 by 256 schedule <{{.*}}> square parallel

// Pads that share a block with elements are written with it.
// CHECK-LABEL: kernel.plan @reorder_1 cpu "haswell" {
// CHECK-NEXT:    width 4 src 2720 dst 3840
// CHECK-NEXT:      step src 0 dst 0
// CHECK-NEXT:        for 2 src 1360 dst 1920 parallel
// CHECK-NEXT:          for 2 src 640 dst 640
// CHECK-NEXT:            tile 4 rows 8 by 80 cols 20 by 32 schedule <{{.*}}>
// CHECK-NEXT:      step src 1280 dst 1280
// CHECK-NEXT:        for 2 src 1360 dst 1920 parallel
// CHECK-NEXT:          tile 4 rows 8 by 80 cols 20 by 32 schedule <{{.*}}> valid 1 pad 0

// Three channels are split, not transposed.
// CHECK-LABEL: kernel.plan @reorder_2 cpu "haswell" {
// CHECK-NEXT:    width 4 src 4800 dst 4800
// CHECK-NEXT:      step src 0 dst 0
// CHECK-NEXT:        deinterleave 4 ways 3 of 400 by 1600 block 8 parallel

// Pads that complete a run are stored with it.
// CHECK-LABEL: kernel.plan @reorder_3 cpu "haswell" {
// CHECK-NEXT:    width 4 src 160 dst 320
// CHECK-NEXT:      step src 0 dst 0
// CHECK-NEXT:        padded_copy 32 of 64 with 1077936128 width 4 for 5 src 32 dst 64 parallel

// Blocks that conflict need a table.
// CHECK-LABEL: kernel.plan @reorder_4 cpu "haswell" {
// CHECK-NEXT:    width 4 src 3840 dst 3840
// CHECK-NEXT:      step src 0 dst 0
// CHECK-NEXT:        table <0:0, 16:16, 160:32, 176:240, 320:256, 336:272>
// CHECK-NEXT:          for 8 src 480 dst 480 parallel
// CHECK-NEXT:            copy 16 for 5 src 32 dst 48

// What the caches do not hold is streamed where lines are written whole,
// CHECK-LABEL: kernel.plan @reorder_5 cpu "haswell" {
// CHECK-NEXT:    width 4 src 25690112 dst 25690112
// CHECK-NEXT:      step src 0 dst 0
// CHECK-NEXT:        for 32 src 802816 dst 802816 parallel
// CHECK-NEXT:          tile 4 rows 64 by 12544 cols 3136 by 256 schedule <{{.*}}> square streaming

// and where they are not it goes through a buffer.
// CHECK-LABEL: kernel.plan @reorder_6 cpu "haswell" {
// CHECK-NEXT:    width 4 src 77070336 dst 77070336
// CHECK-NEXT:      step src 0 dst 0
// CHECK-NEXT:        for 384 src 200704 dst 200704 parallel
// CHECK-NEXT:          for 16 src 64 dst 12544
// CHECK-NEXT:            staged 12544 streaming {

// Wider registers give other tiles.
// WIDE-LABEL: kernel.plan @reorder_0 cpu "x86-64-v4" {
// WIDE-NEXT:    width 4 src 802816 dst 802816
// WIDE: tile 4 rows 64 by 12544 cols 3136 by 256 schedule <{{.*}}> square parallel
// WIDE-LABEL: kernel.plan @reorder_6
// WIDE: for 384 src 200704 dst 200704 parallel prefetch
// WIDE: staged 12544 streaming {
