"""What code is made for: CPUs, their vector registers and caches, here or by name."""
