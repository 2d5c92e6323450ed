"""What a list of digits says."""

from __future__ import annotations


def value_at(terms: tuple[tuple[int, int], ...], x: int) -> int:
    """A list of digits, each with its unit and stride and the coarsest last, at x."""
    total = 0
    for unit, stride in reversed(terms):
        digit, x = divmod(x, unit)
        total += digit * stride
    return total
