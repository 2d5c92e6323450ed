"""Sets of formats by their numbers, as bits of an integer."""

from __future__ import annotations

from collections.abc import Iterable


def bits_of(numbers: Iterable[int]) -> int:
    """The set of these numbers, from 0 on."""
    return sum([1 << number for number in set(numbers)])


def only_member(bits: int) -> int | None:
    """The number in a set of one; None of any other."""
    return bits.bit_length() - 1 if bits and not bits & (bits - 1) else None
