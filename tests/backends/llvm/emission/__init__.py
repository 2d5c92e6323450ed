"""Tests of `layout_ir.backends.llvm.emission`."""
