"""Tests of `layout_ir.elements`."""
