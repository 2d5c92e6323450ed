"""Tests of `layout_ir.api`."""
