"""Tests of `layout_ir.passes.selection.problem`."""
