"""Tests of `layout_ir.dialects.layout`; most are texts in filecheck/dialects/layout."""
