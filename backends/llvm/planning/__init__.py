"""From two layouts to a plan: loops, micro-kernels, and every choice in it."""
