// layout-opt 
kernel.plan @p width 4 src 64 dst 64 {
  kernel.step src 0 dst 0 {
    kernel.ragged 0 to 64 <1: <0:0, 4:4>, 4: <0:0>> {
      kernel.copy 4
    }
  }
}
