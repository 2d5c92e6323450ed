// RUN: layout-opt %s | filecheck %s
// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | filecheck %s --check-prefix=GENERIC

// Every loop and every micro-kernel.
// CHECK-LABEL: kernel.plan @everything {
kernel.plan @everything {
  // CHECK-NEXT:   width 4 src 65536 dst 65536
  width 4 src 65536 dst 65536
  // CHECK-NEXT:   step src 0 dst 0
  step src 0 dst 0
  // CHECK-NEXT:     for 2 src 1024 dst 1024 parallel prefetch
    for 2 src 1024 dst 1024 parallel prefetch
  // CHECK-NEXT:       copy 64 for 4 src 64 dst 128 streaming
      copy 64 for 4 src 64 dst 128 streaming
  // A loop may run backwards through the source.
  // CHECK-NEXT:   step src 4096 dst 4096
  step src 4096 dst 4096
  // CHECK-NEXT:     for 4 src -16 dst 16
    for 4 src -16 dst 16
  // CHECK-NEXT:       elements 4 for 2 src 128 dst 4 parallel
      elements 4 for 2 src 128 dst 4 parallel
  // CHECK-NEXT:   step src 8192 dst 8192
  step src 8192 dst 8192
  // CHECK-NEXT:     table <0:0, 128:64, 64:128> parallel
    table <0:0, 128:64, 64:128> parallel
  // CHECK-NEXT:       tile 4 rows 4 by 256 cols 4 by 16 schedule <cols 4, rows 4, cols 4> valid 3 pad 255
      tile 4 rows 4 by 256 cols 4 by 16 schedule <cols 4, rows 4, cols 4> valid 3 pad 255
  // The bounds of the inner level vary.
  // CHECK-NEXT:   step src 16384 dst 16384
  step src 16384 dst 16384
  // CHECK-NEXT:     positions 2 to 11 <1: for 4 src 4 dst 4, 4: table <0:0, 64:16, 16:64>>
    positions 2 to 11 <1: for 4 src 4 dst 4, 4: table <0:0, 64:16, 16:64>>
  // CHECK-NEXT:       copy 4 parallel
      copy 4 parallel
  // CHECK-NEXT:   step src 20480 dst 20480
  step src 20480 dst 20480
  // CHECK-NEXT:     deinterleave 4 ways 3 of 16 by 64 block 16 streaming parallel
    deinterleave 4 ways 3 of 16 by 64 block 16 streaming parallel
  // CHECK-NEXT:   step src 0 dst 24576
  step src 0 dst 24576
  // CHECK-NEXT:     fill 32 with 1077936128 width 4 for 3 src 0 dst 64 parallel
    fill 32 with 1077936128 width 4 for 3 src 0 dst 64 parallel
  // CHECK-NEXT:   step src 0 dst 28672
  step src 0 dst 28672
  // CHECK-NEXT:     padded_copy 4 of 64 with 0 width 4 for 3 src 32 dst 64 streaming parallel
    padded_copy 4 of 64 with 0 width 4 for 3 src 32 dst 64 streaming parallel
  // Columns of two digits, prefetches in every row.
  // CHECK-NEXT:   step src 0 dst 36864
  step src 0 dst 36864
  // CHECK-NEXT:     tile 4 rows 16 by 576 cols 144 by 1024 fold 9 by 64 schedule <cols 16, rows 16> square prefetch_distance 256 parallel
    tile 4 rows 16 by 576 cols 144 by 1024 fold 9 by 64 schedule <cols 16, rows 16> square prefetch_distance 256 parallel
  // CHECK-NEXT:   step src 32768 dst 32768
  step src 32768 dst 32768
  // CHECK-NEXT:     staged 1024 streaming parallel {
    staged 1024 streaming parallel {
  // CHECK-NEXT:       step src 0 dst 0
      step src 0 dst 0
  // CHECK-NEXT:         tile 4 rows 16 by 64 cols 16 by 64 schedule <rows 16, cols 16> square
        tile 4 rows 16 by 64 cols 16 by 64 schedule <rows 16, cols 16> square
  // CHECK-NEXT:     }
    }
  // CHECK-NEXT:   step src 0 dst 49152
  step src 0 dst 49152
  // CHECK-NEXT:     staged 128 rows 16 by 260 row_stride 196 iterations 2 src 2048 streaming parallel {
    staged 128 rows 16 by 260 row_stride 196 iterations 2 src 2048 streaming parallel {
  // CHECK-NEXT:       step src 0 dst 0
      step src 0 dst 0
  // CHECK-NEXT:         tile 4 rows 32 by 64 cols 16 by 196 schedule <rows 16, cols 16> square prefetch_distance 2048
        tile 4 rows 32 by 64 cols 16 by 196 schedule <rows 16, cols 16> square prefetch_distance 2048
  // CHECK-NEXT:     }
    }
  // CHECK-NEXT: }
}

// Nothing to do.
// CHECK-LABEL: kernel.plan @nothing cpu "aarch64" {
kernel.plan @nothing cpu "aarch64" {
  // CHECK-NEXT:   width 8 src 0 dst 0
  width 8 src 0 dst 0
  // CHECK-NEXT: }
}

// The bits of a pad need not be a signed number.
// CHECK-LABEL: kernel.plan @pads {
kernel.plan @pads {
  // CHECK-NEXT:   width 8 src 0 dst 64
  width 8 src 0 dst 64
  // CHECK-NEXT:   step src 0 dst 0
  step src 0 dst 0
  // CHECK-NEXT:     fill 64 with 18442240474082181120 width 8
    fill 64 with 18442240474082181120 width 8
  // CHECK-NEXT: }
}

// Elements change their type; channels follow the loops.
// CHECK-LABEL: kernel.plan @converts {
kernel.plan @converts {
  // CHECK-NEXT:   width 1 src 65536 dst 16384 convert <f32 to i8, src_zero 1.0, dst_scale channel, beta tensor, dst_zero -3.0, dim 1 of 64>
  width 1 src 65536 dst 16384 convert <f32 to i8, src_zero 1.0, dst_scale channel, beta tensor, dst_zero -3.0, dim 1 of 64>
  // CHECK-NEXT:   step src 0 dst 0 channel 8
  step src 0 dst 0 channel 8
  // CHECK-NEXT:     for 2 src 4096 dst 1024 channel 32 parallel
    for 2 src 4096 dst 1024 channel 32 parallel
  // CHECK-NEXT:       tile 1 rows 16 by 128 channel 1 cols 32 by 16 schedule <rows 16, cols 16> prefetch_distance 256
      tile 1 rows 16 by 128 channel 1 cols 32 by 16 schedule <rows 16, cols 16> prefetch_distance 256
  // CHECK-NEXT:   step src 8192 dst 4096
  step src 8192 dst 4096
  // CHECK-NEXT:     copy 16 for 4 src 64 dst 32 channel 1 streaming parallel
    copy 16 for 4 src 64 dst 32 channel 1 streaming parallel
  // CHECK-NEXT:   step src 16384 dst 8192
  step src 16384 dst 8192
  // CHECK-NEXT:     positions 2 to 11 <1: for 4 src 4 dst 4 channel 1, 4: table <0:0, 64:16, 16:64> channel 4>
    positions 2 to 11 <1: for 4 src 4 dst 4 channel 1, 4: table <0:0, 64:16, 16:64> channel 4>
  // CHECK-NEXT:       copy 1 channel 2 parallel
      copy 1 channel 2 parallel
  // CHECK-NEXT: }
}

// Every way is a channel.
// CHECK-LABEL: kernel.plan @deinterleaves_and_converts {
kernel.plan @deinterleaves_and_converts {
  // CHECK-NEXT:   width 1 src 192 dst 144 convert <f32 to i8, dst_scale channel, dim 1 of 3>
  width 1 src 192 dst 144 convert <f32 to i8, dst_scale channel, dim 1 of 3>
  // CHECK-NEXT:   step src 0 dst 0
  step src 0 dst 0
  // CHECK-NEXT:     deinterleave 1 ways 3 of 16 by 64 channel 1 block 16 parallel
    deinterleave 1 ways 3 of 16 by 64 channel 1 block 16 parallel
  // CHECK-NEXT: }
}

// Sides of 4-bit elements count half bytes.
// CHECK-LABEL: kernel.plan @halves {
kernel.plan @halves {
  // CHECK-NEXT:   width 1 src 8 dst 16 convert <i4 to ui8>
  width 1 src 8 dst 16 convert <i4 to ui8>
  // CHECK-NEXT:   step src 1 dst 0
  step src 1 dst 0
  // CHECK-NEXT:     copy 1 for 15 src 1 dst 1 parallel
    copy 1 for 15 src 1 dst 1 parallel
  // CHECK-NEXT: }
}

// Lines and spaces are alike.
// CHECK-LABEL: kernel.plan @in_one_line {
// CHECK-NEXT:    width 4 src 64 dst 64
// CHECK-NEXT:    step src 0 dst 0
// CHECK-NEXT:      for 2 src 32 dst 32
// CHECK-NEXT:        copy 32
// GENERIC: "kernel.plan"() <{sym_name = "in_one_line", plan = #kernel.plan<width 4 src 64 dst 64 step src 0 dst 0 for 2 src 32 dst 32 copy 32>}> : () -> ()
kernel.plan @in_one_line { width 4 src 64 dst 64 step src 0 dst 0 for 2 src 32 dst 32 copy 32 }

// CHECK-LABEL: kernel.plan @with_attributes cpu "haswell" attributes {note = "a"} {
kernel.plan @with_attributes cpu "haswell" attributes {note = "a"} { width 4 src 0 dst 0 }
