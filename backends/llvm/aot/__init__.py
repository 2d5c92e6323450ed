"""Reorders compiled ahead of time: object files with a C interface, and their headers."""
