"""Pads in the problem: what ops ask of them and leave in them, and which states a format has."""
