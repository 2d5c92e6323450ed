"""Tests of the checker of certificates."""
