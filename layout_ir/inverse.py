"""From an address back to what lies there: the digits of a position, found by dividing by strides, largest first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from layout_ir.format import MEMORY

if TYPE_CHECKING:
    from layout_ir.layout import Layout


def positions_at(layout: Layout, target: int) -> Iterator[tuple[int, ...]]:
    """Positions of the padded box whose address is offset + target, before the swizzle.

    Digits by falling |stride|; a value is tried only if the finer digits can still reach the remainder. For
    nested strides that leaves one value per digit.
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
    position = [0] * layout.rank

    def search(k: int, rest: int) -> Iterator[tuple[int, ...]]:
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
        for q in range(first, last + 1):
            position[dim] += q * digit.unit
            yield from search(k + 1, rest - q * digit.stride)
            position[dim] -= q * digit.unit

    yield from search(0, target)
