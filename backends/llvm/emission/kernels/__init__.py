"""Micro-kernels: each file turns one kernel of a plan into instructions."""
