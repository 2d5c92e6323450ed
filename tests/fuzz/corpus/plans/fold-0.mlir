kernel.plan @moved32 {
  width 4 src 1920 dst 1920
  step src 0 dst 0
    for 0 src 240 dst 480 parallel
      tile 4 rows 2 by 960 cols 60 by 120 fold 0 by 9 schedule <cols 16, rows 2, cols 4>
}