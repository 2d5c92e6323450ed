"""Tests of the `kernel` dialect."""
