kernel.plan @p {
  width 4 src 64 dst 64
  step src 0 dst 0
    positions 0 to 64 <1: table <0:0, 4:4>, 4: table <0:0>>
      copy 4
}
