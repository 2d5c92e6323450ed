kernel.plan @converted15 {
  width 4 src 28800 dst 40716 convert <ui32 to ui32, dst_scale tensor, beta 0.10000000149011612, dst_zero channel, dim 3 of 1000000000000000000000000000000>
  step src 0 dst 4500
    for 48 src 600 dst 768 parallel
      copy 1 for 25 src 24 dst 4
  step src 0 dst 12
    fill 3840 with 0 width 4 parallel
}