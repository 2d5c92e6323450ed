"""Tests of `layout_ir.selection`."""
