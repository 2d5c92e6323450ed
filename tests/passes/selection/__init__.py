"""Tests of layout selection."""
