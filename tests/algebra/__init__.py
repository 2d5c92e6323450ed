"""Tests of `layout_ir.algebra`."""
