"""Tests of `layout_ir.exits.linalg`."""
