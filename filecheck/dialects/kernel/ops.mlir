// RUN: layout-opt %s | filecheck %s
// RUN: layout-opt %s | layout-opt | filecheck %s
// RUN: layout-opt %s --print-op-generic | layout-opt | filecheck %s

// CHECK-LABEL: kernel.plan @everything width 4 src 65536 dst 65536 {
kernel.plan @everything width 4 src 65536 dst 65536 {
  // CHECK-NEXT: kernel.step src 0 dst 0 {
  // CHECK-NEXT:   kernel.for 2 src 1024 dst 1024 split ahead {
  // CHECK-NEXT:     kernel.copy 64 for 4 src 64 dst 128 streaming
  kernel.step src 0 dst 0 {
    kernel.for 2 src 1024 dst 1024 split ahead {
      kernel.copy 64 for 4 src 64 dst 128 streaming
    }
  }
  // A loop may run backwards through the source.
  // CHECK: kernel.for 4 src -16 dst 16 {
  // CHECK-NEXT: kernel.elements 4 for 2 src 128 dst 4
  kernel.step src 4096 dst 4096 {
    kernel.for 4 src -16 dst 16 {
      kernel.elements 4 for 2 src 128 dst 4 split
    }
  }
  // CHECK: kernel.table <0:0, 128:64, 64:128> split {
  // CHECK-NEXT: kernel.tile 4 rows 4 by 256 cols 4 by 16 cuts <cols:4, rows:4, cols:4> valid 3 pad 255
  kernel.step src 8192 dst 8192 {
    kernel.table <0:0, 128:64, 64:128> split {
      kernel.tile 4 rows 4 by 256 cols 4 by 16 cuts <cols:4, rows:4, cols:4> valid 3 pad 255
    }
  }
  // CHECK: kernel.ragged 2 to 11 <1: for 4 src 4 dst 4, 4: <0:0, 64:16, 16:64>> {
  // CHECK-NEXT: kernel.copy 4
  kernel.step src 16384 dst 16384 {
    kernel.ragged 2 to 11 <1: for 4 src 4 dst 4, 4: <0:0, 64:16, 16:64>> {
      kernel.copy 4 split
    }
  }
  // CHECK: kernel.weave 4 strands 3 of 16 by 64 block 16 splits streaming split
  kernel.step src 20480 dst 20480 {
    kernel.weave 4 strands 3 of 16 by 64 block 16 splits streaming split
  }
  // CHECK: kernel.fill 32 with 1077936128 width 4 for 3 src 0 dst 64 split
  kernel.step src 0 dst 24576 {
    kernel.fill 32 with 1077936128 width 4 for 3 src 0 dst 64 split
  }
  // CHECK: kernel.padded 64 of 4 with 0 width 4 for 3 src 32 dst 64 streaming split
  kernel.step src 0 dst 28672 {
    kernel.padded 64 of 4 with 0 width 4 for 3 src 32 dst 64 streaming split
  }
  // Columns of two digits, prefetches in every row.
  // CHECK: kernel.tile 4 rows 16 by 576 cols 144 by 1024 fold 9 by 64 cuts <cols:16, rows:16> whole reach 256 split
  kernel.step src 0 dst 36864 {
    kernel.tile 4 rows 16 by 576 cols 144 by 1024 fold 9 by 64 cuts <cols:16, rows:16> whole reach 256 split
  }
  // CHECK: kernel.staged 1024 streaming split {
  // CHECK-NEXT: kernel.step src 0 dst 0 {
  // CHECK-NEXT:   kernel.tile 4 rows 16 by 64 cols 16 by 64 cuts <rows:16, cols:16> whole
  kernel.step src 32768 dst 32768 {
    kernel.staged 1024 streaming split {
      kernel.step src 0 dst 0 {
        kernel.tile 4 rows 16 by 64 cols 16 by 64 cuts <rows:16, cols:16> whole
      }
    }
  }
  // CHECK: kernel.staged 128 runs 16 by 260 pitch 196 along 2 src 2048 streaming split {
  // CHECK-NEXT: kernel.step src 0 dst 0 {
  // CHECK-NEXT:   kernel.tile 4 rows 32 by 64 cols 16 by 196 cuts <rows:16, cols:16> whole reach 2048
  kernel.step src 0 dst 49152 {
    kernel.staged 128 runs 16 by 260 pitch 196 along 2 src 2048 streaming split {
      kernel.step src 0 dst 0 {
        kernel.tile 4 rows 32 by 64 cols 16 by 196 cuts <rows:16, cols:16> whole reach 2048
      }
    }
  }
}

// Nothing to do.
// CHECK-LABEL: kernel.plan @nothing width 8 src 0 dst 0 cpu "aarch64" {
// CHECK-NEXT: }
kernel.plan @nothing width 8 src 0 dst 0 cpu "aarch64" {
}

// Elements change their type; numbers of channels follow the loops.
// CHECK-LABEL: kernel.plan @converts width 1 src 65536 dst 16384 convert <f32 to i8, src_zero 1.0, ratio channel, beta tensor, dst_zero -3.0, dim 1 of 64> {
kernel.plan @converts width 1 src 65536 dst 16384
    convert <f32 to i8, src_zero 1.0, ratio channel, beta tensor, dst_zero -3.0, dim 1 of 64> {
  // CHECK-NEXT: kernel.step src 0 dst 0 channel 8 {
  // CHECK-NEXT:   kernel.for 2 src 4096 dst 1024 channel 32 split {
  // CHECK-NEXT:     kernel.convert_tile rows 16 by 128 channel 1 cols 32 by 16 cuts <rows:16, cols:16> reach 256
  kernel.step src 0 dst 0 channel 8 {
    kernel.for 2 src 4096 dst 1024 channel 32 split {
      kernel.convert_tile rows 16 by 128 channel 1 cols 32 by 16 cuts <rows:16, cols:16> reach 256
    }
  }
  // CHECK: kernel.convert 16 for 4 src 64 dst 32 by 1 streaming split
  kernel.step src 8192 dst 4096 {
    kernel.convert 16 for 4 src 64 dst 32 by 1 streaming split
  }
  // CHECK: kernel.ragged 2 to 11 <1: for 4 src 4 dst 4 channel 1, 4: <0:0, 64:16, 16:64> channel 4> {
  // CHECK-NEXT: kernel.convert 1 channel 2
  kernel.step src 16384 dst 8192 {
    kernel.ragged 2 to 11 <1: for 4 src 4 dst 4 channel 1, 4: <0:0, 64:16, 16:64> channel 4> {
      kernel.convert 1 channel 2 split
    }
  }
}

// CHECK-LABEL: kernel.plan @splits_and_converts width 1 src 192 dst 144 convert <f32 to i8, ratio channel, dim 1 of 3> {
kernel.plan @splits_and_converts width 1 src 192 dst 144 convert <f32 to i8, ratio channel, dim 1 of 3> {
  // CHECK: kernel.convert_weave strands 3 of 16 by 64 channel 1 block 16 splits
  kernel.step src 0 dst 0 {
    kernel.convert_weave strands 3 of 16 by 64 channel 1 block 16 splits split
  }
}

// Sides of 4-bit elements count half bytes.
// CHECK-LABEL: kernel.plan @halves width 1 src 8 dst 16 convert <i4 to ui8> {
kernel.plan @halves width 1 src 8 dst 16 convert <i4 to ui8> {
  kernel.step src 1 dst 0 {
    kernel.convert 1 for 15 src 1 dst 1 split
  }
}
