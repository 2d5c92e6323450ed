// layout-opt 
kernel.plan @p {
  width 4 src 64 dst 64
  step src 0 dst 0
    positions 16 to 8 <1: for 4 src 4 dst 4, 4: for 4 src 16 dst 16>
      copy 4
}
