"""Tests of `passes.physical`."""
