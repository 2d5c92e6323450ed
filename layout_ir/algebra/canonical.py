"""When two layouts are the same: keys that are equal exactly when the address maps are.

A digit list with units that divide each other and no phase is determined by the function it computes, up to two
redundancies: digits that never move, and neighbours that continue each other. Removing both gives the canonical
digits. A phase (`lo`) can hide such a list or make it disappear; then `layout_ir.algebra.steps` finds the digits again,
with a phase where it must, from how the function steps. Cost: the digits; never the extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, product
from math import prod
from typing import TYPE_CHECKING, Any

from layout_ir.algebra.factors import MEMORY
from layout_ir.algebra.steps import Steps, UnitStride, fit_phased

if TYPE_CHECKING:
    from layout_ir.algebra.factors import Digit
    from layout_ir.algebra.layout import Layout

_ENUMERATION_BOUND = 1 << 16
_SEARCH_BOUND = 1 << 16
_WINDOW_BOUND = 14  # swizzles in use reach bit 10 at most
_EXTENT_BOUND = 1 << 16
_PAIRS_BOUND = 1 << 20


def canonical_digits(digits: Sequence[Digit], extent: int, axis: str = MEMORY) -> tuple[UnitStride, ...]:
    """Canonical (unit, stride) pairs on [0, extent), fine to coarse, of what the digits add on `axis`."""
    return canonical_terms([(d.unit, d.stride if d.axis == axis else 0) for d in digits], extent)


def canonical_terms(terms: Sequence[UnitStride], extent: int) -> tuple[UnitStride, ...]:
    """`terms` (units ascending, dividing each other) without the digits that say nothing on [0, extent)."""
    if extent <= 1:
        return ()
    if len(terms) == 1:
        return (terms[0],) if terms[0][0] < extent else ()
    kept: list[UnitStride] = []
    for k, (unit, stride) in enumerate(terms):
        if unit >= extent:
            break
        if k + 1 < len(terms) and terms[k + 1][0] == unit:
            continue  # a digit of one value
        if kept and kept[-1][1] * unit == stride * kept[-1][0]:
            continue
        kept.append((unit, stride))
    return tuple(kept)


def dim_key(layout: Layout, dim: int, axis: str = MEMORY) -> tuple[object, ...]:
    """Key of x -> f_dim(x) - f_dim(0) on [0, extent), for the part of f_dim that lies on `axis`."""
    if layout.lo[dim] == 0:
        return canonical_digits(layout.digits[dim], layout.shape[dim], axis)
    # With a phase digits are found again from what the function does, so that equal functions have equal keys.
    found = fit_phased(dim_steps(layout, dim, axis))
    if found is None:
        raise AssertionError(f"dim {dim} of {layout} has digits, and none were found")
    low, terms = found
    return terms if low == 0 else ("phase", low, *terms)


def _dim_values(layout: Layout, dim: int) -> list[int]:
    """f_dim at every index of the dim, in elements."""
    low = layout.lo[dim]
    return [position_value(layout, dim, y) for y in range(low, low + layout.shape[dim])]


def dim_steps(layout: Layout, dim: int, axis: str = MEMORY) -> Steps:
    """f_dim on [0, extent), in elements (places, on another axis than memory), less its value at 0."""
    terms = [(d.unit, d.stride if d.axis == axis else 0) for d in layout.digits[dim]]
    return Steps.of_terms(terms, layout.shape[dim], layout.lo[dim])


def position_value(layout: Layout, dim: int, position: int, axis: str = MEMORY) -> int:
    """What `position` of the padded box of `dim` adds to the address (to the place, on another axis)."""
    return sum(position // d.unit % d.count * d.stride for d in layout.digits[dim] if d.axis == axis)


def address_of_position(layout: Layout, position: Sequence[int]) -> int:
    """What `Layout.position_address` returns, for a position that is known to be one of the padded box."""
    total = layout.offset
    for y, digits in zip(position, layout.digits, strict=True):
        for digit in digits:
            if digit.axis == MEMORY:
                total += y // digit.unit % digit.count * digit.stride
    return swizzled(layout, total)


def swizzled(layout: Layout, address: Any) -> Any:
    """`address` (int or integer array) after the XOR swizzle of a layout."""
    if layout.swizzle is None:
        return address
    bits, base, shift = layout.swizzle
    return address ^ ((address >> (base + shift)) & ((1 << bits) - 1)) << base


def map_key(layout: Layout) -> tuple[object, ...]:
    """Equal for two layouts of one shape iff every element has the same address (and place) in both.

    Where their swizzles differ, equality of the keys is sufficient, not necessary: see `same_swizzled_map`.
    """
    if 0 in layout.shape:
        return ()
    first, dims = _axis_key(layout, MEMORY)
    return (layout.offset + first, dims, reaching_swizzle(layout), *_places(layout))


def _places(layout: Layout) -> list[tuple[object, ...]]:
    places = [(axis, *_axis_key(layout, axis)) for axis in layout.axes]
    # An axis on which every element has place 0 says nothing.
    return [p for p in places if p[1] or any(key not in ((), ((1, 0),)) for key in p[2])]


def reaching_swizzle(layout: Layout) -> tuple[int, int, int] | None:
    """The swizzle without the bits that no address has; None where nothing is left of it."""
    if layout.swizzle is None or not layout.span or layout.first_address < 0:
        return layout.swizzle
    bits, base, shift = layout.swizzle
    bits = min(bits, (layout.first_address + layout.span - 1).bit_length() - base - shift)
    return (bits, base, shift) if bits > 0 else None


def same_swizzled_map(first: Layout, second: Layout) -> bool:
    """Whether every element has the same address (and place) in both layouts of one shape, whatever their swizzles.

    A swizzle changes no bit from `window` on, and is one-to-one below. So of the two addresses before the swizzle it
    is enough to know the lower bits of the one and the difference of the two: pairs that add up dim by dim. Where the
    maps are equal, one difference goes with each lower part, which bounds the pairs by 2^window. Cost: that, times
    the extents of the dims; where either is too large, the answer is whether the keys of the maps are equal.
    """
    if map_key(first) == map_key(second):
        return True
    swizzles = reaching_swizzle(first), reaching_swizzle(second)
    window = max(0 if s is None else sum(s) for s in swizzles)
    if swizzles[0] == swizzles[1] or window > _WINDOW_BOUND or max(first.shape) > _EXTENT_BOUND:
        return False
    if _places(first) != _places(second):
        return False
    mask = (1 << window) - 1
    origin = [layout.offset for layout in (first, second)]
    steps: list[set[tuple[int, int]]] = []
    for dim in range(first.rank):
        a, b = _dim_values(first, dim), _dim_values(second, dim)
        origin = [origin[0] + a[0], origin[1] + b[0]]
        steps.append({((x - a[0]) & mask, x - a[0] - y + b[0]) for x, y in zip(a, b, strict=True)})
    pairs = {(origin[0] & mask, origin[0] - origin[1])}
    for moves in [{(0, 0)}, *steps]:
        if len(pairs) * len(moves) > _PAIRS_BOUND:
            return False
        # Each pair belongs to elements, those whose index is 0 in the dims to come.
        pairs = {((low + a) & mask, apart + b) for low, apart in pairs for a, b in moves}
        for low, apart in pairs:
            other = low - apart
            if not 0 <= other <= mask or _xor(low, swizzles[0]) != _xor(other, swizzles[1]):
                return False
    return True


def _xor(address: int, swizzle: tuple[int, int, int] | None) -> int:
    if swizzle is None:
        return address
    bits, base, shift = swizzle
    return address ^ ((address >> (base + shift)) & ((1 << bits) - 1)) << base


def _axis_key(layout: Layout, axis: str) -> tuple[int, tuple[object, ...]]:
    first = sum([position_value(layout, dim, low, axis) for dim, low in enumerate(layout.lo) if low])
    return first, tuple([dim_key(layout, dim, axis) for dim in range(layout.rank)])


def box_key(layout: Layout) -> tuple[object, ...]:
    """Equal for two layouts of one shape and map iff their pads, chunks and trailing elements agree."""
    if 0 in layout.shape and 0 in layout.padded_shape:
        return (layout.extent, layout.chunk_size)  # no elements and no pads, wherever they would be
    digits = tuple(
        canonical_digits(ds, extent) for ds, extent in zip(layout.digits, layout.padded_shape, strict=True)
    )
    return (layout.offset, layout.lo, layout.padded_shape, digits, layout.extent, layout.chunk_size)


def overlaps(layout: Layout, *, padded: bool) -> bool | None:
    """Whether two positions of the padded box (two elements, if not `padded`) share an address; None: unknown.

    Two positions of a box of digits share an address where the difference of their digits is one of two equal sums
    of strides, which `_vanishing` looks for. Where elements do not fill their digits, small layouts are enumerated.
    """
    extents = layout.padded_shape if padded else layout.shape
    if 0 in extents:
        return False
    lows = (0,) * layout.rank if padded else layout.lo
    steps: list[tuple[int, int]] = []
    filled = True
    for digits, low, extent in zip(layout.digits, lows, extents, strict=True):
        counts = [min(d.count, -(-(low + extent) // d.unit)) for d in digits]
        filled = filled and low == 0 and prod(counts) == extent
        steps += [
            (abs(d.stride), count)
            for d, count in zip(digits, counts, strict=True)
            if d.axis == MEMORY and count > 1
        ]
        if any(d.axis != MEMORY and count > 1 for d, count in zip(digits, counts, strict=True)):
            steps.append((0, 2))  # two places of another axis
    if _are_nested(steps):
        return False
    shared = _vanishing(steps)
    if shared is False or filled:
        return shared
    if prod(extents) > 1 + sum((count - 1) * stride for stride, count in steps):
        return True
    if prod(extents) > _ENUMERATION_BOUND:
        return None
    positions = product(*(range(low, low + extent) for low, extent in zip(lows, extents, strict=True)))
    seen = {address_of_position(layout, position) for position in positions}
    return len(seen) != prod(extents)


def _are_nested(steps: Sequence[tuple[int, int]]) -> bool:
    """Whether each stride exceeds the reach of all smaller ones: the usual case, which symbolic sizes decide too."""
    reach = 0
    for stride, count in sorted(steps):
        if not stride > reach:
            return False
        reach += (count - 1) * stride
    return True


def _vanishing(steps: Sequence[tuple[int, int]]) -> bool | None:
    """Whether numbers q with |q| < count, not all of them 0, make the sum of q * stride 0; None: too long a search.

    By falling stride: what the larger ones leave must be within the reach of the smaller ones, which for nested
    strides leaves one choice.
    """
    falling = sorted(steps, reverse=True)
    reach = [*accumulate([(count - 1) * stride for stride, count in reversed(falling)], initial=0)][::-1]
    open_ = {(0, False)}
    for k, (stride, count) in enumerate(falling):
        if stride == 0:
            return True
        found: set[tuple[int, bool]] = set()
        for rest, moved in open_:
            # Only differences whose first number is positive: the others are their negatives.
            first = max(-(-(-reach[k + 1] - rest) // stride), 1 - count if moved else 0)
            last = min((reach[k + 1] - rest) // stride, count - 1)
            if len(found) + last - first > _SEARCH_BOUND:
                return None
            found |= {(rest + q * stride, moved or q != 0) for q in range(first, last + 1)}
        open_ = found
    return (0, True) in open_
