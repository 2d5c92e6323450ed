"""From an address back to what lies there: the digits of a position, found by dividing by strides, largest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import gcd
from typing import TYPE_CHECKING

from layout_ir.algebra.factors import MEMORY
from layout_ir.errors import LayoutError

if TYPE_CHECKING:
    from layout_ir.algebra.layout import Layout


_MOST_TRIES = 1 << 16


def positions_at(layout: Layout, target: int) -> Iterator[tuple[int, ...]]:
    """Positions of the padded box whose address is offset + target, before the swizzle.

    Digits by falling |stride|; a value is tried only if the finer digits can still reach the remainder, by their
    interval and by what divides them all. For nested strides that leaves one value per digit. Of the values of a digit
    that does not move, those are given that come first at all, first and next to the first element, and last.
    Raises LayoutError where more than `_MOST_TRIES` values would be tried, as overlapping strides can make it.
    """
    if 0 in layout.padded_shape:
        return
    digits = sorted(
        ((dim, d) for dim, ds in enumerate(layout.digits) for d in ds if d.axis == MEMORY and d.count > 1),
        key=lambda entry: -abs(entry[1].stride),
    )
    steps = [(d.count - 1) * d.stride for _, d in digits]
    # reach[k]: the interval that digits k.. span together.
    lows = [*accumulate([min(s, 0) for s in reversed(steps)], initial=0)][::-1]
    highs = [*accumulate([max(s, 0) for s in reversed(steps)], initial=0)][::-1]
    # All sums of the digits k.. are multiples of divisors[k].
    divisors = [*accumulate([d.stride for _, d in reversed(digits)], gcd, initial=0)][::-1]
    position = [0] * layout.rank
    tries = 0

    def search(k: int, rest: int) -> Iterator[tuple[int, ...]]:
        nonlocal tries
        tries += 1
        if tries > _MOST_TRIES:
            raise LayoutError(
                f"what lies {target} elements behind the first of {layout.format} is not found in {_MOST_TRIES} tries: "
                "its strides overlap"
            )
        if not lows[k] <= rest <= highs[k] or (divisors[k] and rest % divisors[k]):
            return
        if k == len(digits):
            if rest == 0:
                yield tuple(position)
            return
        dim, digit = digits[k]
        first, last = 0, digit.count - 1
        if digit.stride:
            # rest - q * stride must lie in what the finer digits reach.
            bounds = (rest - highs[k + 1], rest - lows[k + 1])
            near, far = bounds if digit.stride > 0 else (-bounds[1], -bounds[0])
            first, last = max(first, -(-near // abs(digit.stride))), min(last, far // abs(digit.stride))
        values: Sequence[int] = range(first, last + 1)
        if not digit.stride:
            begin = layout.lo[dim] // digit.unit % digit.count
            values = sorted({0, begin, min(begin + 1, last), last})
        for q in values:
            position[dim] += q * digit.unit
            yield from search(k + 1, rest - q * digit.stride)
            position[dim] -= q * digit.unit

    yield from search(0, target)
