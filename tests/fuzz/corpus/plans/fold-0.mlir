kernel.plan @moved32 width 4 src 1920 dst 1920 {
  kernel.step src 0 dst 0 {
    kernel.for 0 src 240 dst 480 split {
      kernel.tile 4 rows 2 by 960 cols 60 by 120 fold 0 by 9 cuts <cols:16, rows:2, cols:4>
    }
  }
}