"""Graphs that other compilers write about themselves: what they execute, and why they copy."""
