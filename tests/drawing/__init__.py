"""Tests of the pictures of layouts."""
