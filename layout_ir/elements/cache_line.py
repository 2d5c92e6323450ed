"""The unit in which memory moves."""

LINE = 64
"""Bytes of a cache line, on every machine that code is made for, and of the widest register."""
