"""Tests of `layout_ir.symbolic`."""
