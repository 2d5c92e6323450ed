"""Elementwise ops, reductions and normalizations over tensors in any layouts, as compiled loops."""
