"""Tests of `layout_ir.passes.folding`."""
