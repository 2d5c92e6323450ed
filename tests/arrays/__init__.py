"""Tests of `layout_ir.arrays`."""
