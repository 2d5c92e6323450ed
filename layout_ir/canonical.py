"""When two layouts are the same: keys that are equal exactly when the address maps are.

A digit list with units that divide each other and no phase is determined by the function it computes, up to two
redundancies: digits that never move, and neighbours that continue each other. Removing both gives the canonical
digits. A phase (`lo`) can hide such a list or make it disappear; then the function is tabulated over its dim, and
`fit` either finds the digits again or the table itself is the key. Cost: the digits, or with a phase the extents of
the dims concerned; never the number of elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import gcd, prod
from typing import TYPE_CHECKING

from layout_ir.format import MEMORY

if TYPE_CHECKING:
    from layout_ir.layout import Digit, Layout

_ENUMERATION_BOUND = 1 << 16

Term = tuple[int, int]
"""(unit, stride) of a canonical digit; its count is given by the next unit or by the extent."""


def canonical_digits(digits: Sequence[Digit], extent: int, axis: str = MEMORY) -> tuple[Term, ...]:
    """Canonical (unit, stride) pairs on [0, extent), fine to coarse, of what the digits add on `axis`."""
    return canonical_terms([(d.unit, d.stride if d.axis == axis else 0) for d in digits], extent)


def canonical_terms(terms: Sequence[Term], extent: int) -> tuple[Term, ...]:
    """`terms` (units ascending, dividing each other) without the digits that say nothing on [0, extent)."""
    if extent <= 1:
        return ()
    kept: list[Term] = []
    for k, (unit, stride) in enumerate(terms):
        if unit >= extent:
            break
        if k + 1 < len(terms) and terms[k + 1][0] == unit:
            continue  # a digit of one value
        if kept and kept[-1][1] * unit == stride * kept[-1][0]:
            continue
        kept.append((unit, stride))
    return tuple(kept)


def fit(values: Sequence[int]) -> tuple[Term, ...] | None:
    """Canonical digits of the function x -> values[x] - values[0], or None if no digit list computes it."""
    if len(values) <= 1:
        return ()
    base = values[0]
    current = [v - base for v in values]
    unit, terms = 1, list[Term]()
    while len(current) > 1:
        stride = current[1]
        run = 1
        while run < len(current) and current[run] == run * stride:
            run += 1
        terms.append((unit, stride))
        if run == len(current):
            break
        # The longest linear prefix is exactly one digit: what is left may depend on x div run alone.
        if any(current[x] - x % run * stride != current[x - x % run] for x in range(len(current))):
            return None
        current = current[::run]
        unit *= run
    return tuple(terms)


def fit_phased(values: Sequence[int]) -> tuple[int, tuple[Term, ...]] | None:
    """(low, digits) such that x -> values[x] - values[0] is what the digits say of low + x, from low on; or None.

    Low is 0 wherever a digit list without a phase exists. Otherwise the stride inside the finest block is one of the
    first two steps, and the steps that differ from it are a multiple of the block apart; the largest block is tried
    first.
    """
    terms = fit(values)
    if terms is not None:
        return 0, terms
    steps = [b - a for a, b in pairwise(values)]
    for stride in dict.fromkeys(steps[:2]):
        breaks = [x + 1 for x, step in enumerate(steps) if step != stride]
        if not breaks:
            continue
        apart = gcd(*(x - breaks[0] for x in breaks)) or max(breaks[0], len(values) - breaks[0])
        for unit in (u for u in range(apart, 1, -1) if apart % u == 0):
            head = (breaks[0] - 1) % unit + 1
            skip = unit - head
            heads = [values[0] - skip * stride, *values[head::unit]]
            if any(heads[(x + skip) // unit] + (x + skip) % unit * stride != v for x, v in enumerate(values)):
                continue
            coarse = fit_phased(heads)
            if coarse is not None:
                low, terms = coarse
                return low * unit + skip, ((1, stride), *((u * unit, s) for u, s in terms))
    return None


def dim_key(layout: Layout, dim: int, axis: str = MEMORY) -> tuple[object, ...]:
    """Key of x -> f_dim(x) - f_dim(0) on [0, extent), for the part of f_dim that lies on `axis`."""
    if layout.lo[dim] == 0:
        return canonical_digits(layout.digits[dim], layout.shape[dim], axis)
    values = dim_values(layout, dim, axis)
    terms = fit(values)
    return terms if terms is not None else ("table", *(v - values[0] for v in values))


def dim_values(layout: Layout, dim: int, axis: str = MEMORY) -> list[int]:
    """f_dim at every index of the dim, in elements (places, on another axis than memory)."""
    low = layout.lo[dim]
    return [position_value(layout, dim, y, axis) for y in range(low, low + layout.shape[dim])]


def position_value(layout: Layout, dim: int, position: int, axis: str = MEMORY) -> int:
    """What `position` of the padded box of `dim` adds to the address (to the place, on another axis)."""
    return sum(position // d.unit % d.count * d.stride for d in layout.digits[dim] if d.axis == axis)


def map_key(layout: Layout) -> tuple[object, ...]:
    """Equal for two layouts of one shape iff every element has the same address (and place) in both.

    With a swizzle equality of the keys is sufficient, not necessary.
    """
    if 0 in layout.shape:
        return ()
    swizzle = layout.swizzle if layout.swizzle and layout.swizzle[0] else None
    first, dims = _axis_key(layout, MEMORY)
    places = [(axis, *_axis_key(layout, axis)) for axis in layout.axes]
    # An axis on which every element has place 0 says nothing.
    places = [p for p in places if p[1] or any(key not in ((), ((1, 0),)) for key in p[2])]
    return (layout.offset + first, dims, swizzle, *places)


def _axis_key(layout: Layout, axis: str) -> tuple[int, tuple[object, ...]]:
    first = sum(position_value(layout, dim, low, axis) for dim, low in enumerate(layout.lo))
    return first, tuple(dim_key(layout, dim, axis) for dim in range(layout.rank))


def box_key(layout: Layout) -> tuple[object, ...]:
    """Equal for two layouts of one shape and map iff their pads, chunks and trailing elements agree."""
    digits = tuple(
        canonical_digits(ds, extent) for ds, extent in zip(layout.digits, layout.padded_shape, strict=True)
    )
    return (layout.offset, layout.lo, layout.padded_shape, digits, layout.extent, layout.chunk_size)


def overlaps(layout: Layout, *, padded: bool) -> bool | None:
    """Whether two positions of the padded box (two elements, if not `padded`) share an address; None: unknown.

    Strides of which each exceeds the reach of all smaller ones never overlap; otherwise small layouts are enumerated.
    """
    extents = layout.padded_shape if padded else layout.shape
    if 0 in extents:
        return False
    lows = (0,) * layout.rank if padded else layout.lo
    steps: list[tuple[int, int]] = []
    for digits, low, extent in zip(layout.digits, lows, extents, strict=True):
        for d in digits:
            count = min(d.count, -(-(low + extent) // d.unit))
            if d.axis == MEMORY and count > 1:
                steps.append((abs(d.stride), count))
    reach, nested = 0, True
    for stride, count in sorted(steps):
        nested = nested and stride > reach
        reach += (count - 1) * stride
    if nested:
        return False
    if prod(extents) > reach + 1:
        return True
    if prod(extents) > _ENUMERATION_BOUND:
        return None
    positions = product(*(range(low, low + extent) for low, extent in zip(lows, extents, strict=True)))
    seen = {layout.position_address(position) for position in positions}
    return len(seen) != prod(extents)
