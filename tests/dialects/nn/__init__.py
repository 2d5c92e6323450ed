"""Tests of the `nn` dialect."""
