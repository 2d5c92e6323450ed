"""From two layouts to a plan: boxes, loops, micro-kernels, and every choice in it."""
