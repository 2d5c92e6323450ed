"""Layouts made of several: tensors side by side in one buffer, and a layout read through another.

`concat` and `split` are inverse to each other: the parts of a tensor, taken as slices, join to its layout again.
`compose` chains two maps, index to flat index to address, as CuTe's composition does, with rows instead of columns
as the flat order. Both answer by finding digits in the joined function (`fit`), so their cost is the extents of the
dims concerned, not the number of elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import prod

from layout_ir.algebra.canonical import canonical_digits, dim_key, dim_steps, position_value
from layout_ir.algebra.factors import BoundFactor
from layout_ir.algebra.layout import Layout, check_layouts
from layout_ir.algebra.layout_builder import chains_of, counted, ordered, with_steps
from layout_ir.algebra.steps import Steps, UnitStride, fit
from layout_ir.argument_checks import checked_dim, checked_integers
from layout_ir.errors import LayoutError, public, shape_text

_ENUMERATION_BOUND = 1 << 16
_COMPOSED_BOUND = 1 << 20
"""Indices of all dims of the inner layout: a second of work."""


@public
def split(layout: Layout, sizes: Sequence[int], dim: int) -> list[Layout]:
    """The layouts of consecutive parts of `sizes` along `dim`, in the same buffer.

    Requires sizes that add up to the extent of `dim`. Ensures addresses as `numpy.split` has them, and that `concat` of
    the parts has the map of `layout`. Pads stay pads in the last part only. Raises LayoutError.

    >>> split(Format.from_tag("ab").bind((2, 8)), (3, 5), 1)
    [Format.parse("(a, b) : [a*8, b]").bind((2, 3)), Format.parse("(a, b) : [a*8, b], offset = 3").bind((2, 5))]
    """
    check_layouts(layout)
    dim, sizes = checked_dim(dim, layout.shape), checked_integers("sizes", sizes)
    if sum(sizes) != layout.shape[dim] or any(size < 0 for size in sizes):
        raise LayoutError(
            f"parts {list(sizes)} do not add up to dim {dim} of extent {layout.shape[dim]}: {sum(sizes)}"
        )
    parts: list[Layout] = []
    start = 0
    for size in sizes:
        starts = [start if d == dim else 0 for d in range(layout.rank)]
        parts.append(layout.slice(starts, [size if d == dim else x for d, x in enumerate(layout.shape)]))
        start += size
    return parts


@public
def concat(layouts: Sequence[Layout], dim: int) -> Layout:
    """The layout of tensors of one buffer set side by side along `dim`, without a copy.

    Requires parts that agree in every other dim and in their swizzle, and whose addresses along `dim` continue each
    other as digits; the offsets say where in the buffer each part lies. Ensures addresses as `numpy.concatenate` has
    them. The policy stays where all pads of the result are pads of the parts, else it becomes undef. Raises LayoutError
    where no layout says that.

    >>> concat(split(Format.from_tag("ab").bind((2, 8)), (3, 5), 1), 1)
    Format.parse("(a, b) : [a, b]").bind((2, 8))
    """
    try:
        layouts = list(layouts)
    except TypeError:
        raise LayoutError(f"concat takes a sequence of Layouts, not {layouts!r}") from None
    if not layouts:
        raise LayoutError("concat needs at least one layout")
    check_layouts(*layouts)
    first = layouts[0]
    dim = checked_dim(dim, first.shape)
    for other in layouts[1:]:
        _check_parts(first, other, dim)
    parts = [part for part in layouts if part.shape[dim]] or [first]
    if len(parts) == 1:
        return parts[0]
    first, last = parts[0], parts[-1]
    extent = sum(part.shape[dim] for part in parts)
    shape = tuple(extent if d == dim else x for d, x in enumerate(first.shape))
    if first.nelems == 0:
        return replace(
            first, shape=shape, factors=_with_chain(first, dim, [BoundFactor(dim, extent, 1)]), chunk_rank=0
        )
    steps = _joined([dim_steps(part, dim) for part in parts], parts, dim)
    same_box = all(_box(part, dim) == _box(first, dim) and part.pad == first.pad for part in parts)
    pad = first.pad if same_box else "undef"
    tail = last.padded_shape[dim] - last.lo[dim] - last.shape[dim]
    if same_box and not last.lo[dim] and tail:
        # The pads behind the last part may stay pads of the result.
        padded = replace(last, shape=tuple(x + tail * (d == dim) for d, x in enumerate(last.shape)))
        whole = _joined([dim_steps(part, dim) for part in (*parts[:-1], padded)], parts, dim)
        chain = _chain(fit(whole), extent + tail, dim)
        if chain is not None and prod(f.count for f in chain) == extent + tail:
            return replace(first, shape=shape, factors=_with_chain(first, dim, chain), chunk_rank=0, pad=pad)
    joined = with_steps(first, dim, position_value(first, dim, first.lo[dim]), steps)
    if joined is None:
        sizes = ", ".join(str(part.shape[dim]) for part in parts)
        raise LayoutError(
            f"cannot concat parts of {sizes} along dim '{first.names[dim]}' in one buffer: their addresses do not "
            f"continue each other as digits ({first.format} and {parts[1].format})"
        )
    return replace(joined, pad=pad if joined.padded_shape[dim] == extent else "undef")


def _check_parts(first: Layout, other: Layout, dim: int) -> None:
    if first.rank != other.rank:
        raise LayoutError(
            f"rank mismatch between {shape_text(first.shape)} and {shape_text(other.shape)}: "
            f"{first.rank} != {other.rank}"
        )
    if first.axes or other.axes:
        raise LayoutError(
            f"cannot concat {(first if first.axes else other).format}: it has places on other axes than memory"
        )
    if first.swizzle != other.swizzle:
        raise LayoutError(f"cannot concat layouts of different swizzles: {first.swizzle} != {other.swizzle}")
    for d in range(first.rank):
        if d == dim:
            continue
        if first.shape[d] != other.shape[d]:
            raise LayoutError(
                f"cannot concat {shape_text(first.shape)} and {shape_text(other.shape)} along dim {dim}: "
                f"dim {d} has {first.shape[d]} and {other.shape[d]} elements"
            )
        if dim_key(first, d) != dim_key(other, d):
            raise LayoutError(
                f"cannot concat {first.format} and {other.format} along dim {dim} in one buffer: "
                f"dim '{first.names[d]}' has other strides"
            )


def _first(layout: Layout) -> int:
    """The address of the first element, before the swizzle."""
    return layout.offset + sum(position_value(layout, d, low) for d, low in enumerate(layout.lo))


def _joined(steps: Sequence[Steps], parts: Sequence[Layout], dim: int) -> Steps:
    """The addresses along `dim` of `parts`, one behind the other, whose own are `steps`."""
    result = steps[0]
    for (before, part), own in zip(pairwise(parts), steps[1:], strict=True):
        low = before.lo[dim]
        last = position_value(before, dim, low + before.shape[dim] - 1) - position_value(before, dim, low)
        result = result.joined(_first(part) - _first(before) - last, own)
    return result


def _box(layout: Layout, dim: int) -> list[tuple[object, ...]]:
    """Digits and window of every other dim."""
    return [(layout.digits[d], layout.lo[d]) for d in range(layout.rank) if d != dim]


def _chain(terms: tuple[UnitStride, ...] | None, extent: int, dim: int) -> list[BoundFactor] | None:
    return None if terms is None else counted(terms, extent, dim)


def _with_chain(layout: Layout, dim: int, chain: list[BoundFactor]) -> tuple[BoundFactor, ...]:
    chains = chains_of(layout)
    chains[dim] = chain
    return ordered(chains)


@public
def compose(outer: Layout, inner: Layout) -> Layout:
    """The layout index -> outer address of the element whose row-major number is `inner.address(index)`.

    Requires that `inner` stays inside the elements of `outer`, that the address is a sum over the dims of `inner` (they
    do not carry into each other in the digits of `outer`), and that each term is a digit list. Ensures
    `outer.addresses().ravel()[inner.addresses()]`; nothing is promised of pads. Raises LayoutError otherwise.

    >>> compose(Format.parse("(a) : [a*3]").bind((24,)), Format.from_tag("ba").bind((4, 6)))
    Format.parse("(a, b) : [b, a*3]").bind((4, 6))
    """
    check_layouts(outer, inner)
    if outer.axes or inner.axes or inner.swizzle is not None:
        raise LayoutError(
            f"cannot compose {outer.format} with {inner.format}: places and inner swizzles have no strides"
        )
    factors = tuple(BoundFactor(d, x, 0) for d, x in enumerate(inner.shape))
    empty = Layout(
        inner.names, inner.shape, factors, (0,) * inner.rank, size=outer.size, swizzle=outer.swizzle
    )
    if inner.nelems == 0:
        return empty
    if sum(inner.shape) > _COMPOSED_BOUND:
        raise LayoutError(
            f"cannot compose {outer.format} with {inner.format} of {shape_text(inner.shape)}: every index of a dim is "
            f"looked at, and there are more than {_COMPOSED_BOUND}"
        )
    columns = [
        [position_value(inner, d, low + x) for x in range(extent)]
        for d, (low, extent) in enumerate(zip(inner.lo, inner.shape, strict=True))
    ]
    lowest = inner.offset + sum(min(c) for c in columns)
    highest = inner.offset + sum(max(c) for c in columns)
    if lowest < 0 or highest >= outer.nelems:
        raise LayoutError(
            f"cannot compose: {inner.format} reaches [{lowest}, {highest}], "
            f"the outer layout has {outer.nelems} elements"
        )
    # Numbers relative to the lowest one; without carries the address is then a sum over the dims.
    parts = [[v - min(c) for v in c] for c in columns]
    carry = _carry(outer, lowest, parts)
    if carry is not None and not _is_sum(outer, lowest, parts):
        raise LayoutError(
            f"cannot compose {outer.format} with {inner.format}: its dims together carry over {carry}"
        )
    base = _numbered(outer, lowest)
    result = replace(empty, offset=base)
    for d, part in enumerate(parts):
        values = [_numbered(outer, lowest + v) - base for v in part]
        view = with_steps(result, d, values[0], Steps.of_values(values))
        if view is None:
            raise LayoutError(
                f"cannot compose {outer.format} with {inner.format}: dim '{inner.names[d]}' of the result would need "
                "units that do not divide each other"
            )
        result = view
    return result


def _numbered(layout: Layout, number: int) -> int:
    """The address, before the swizzle, of the element with row-major `number`."""
    address = layout.offset
    for d in reversed(range(layout.rank)):
        number, x = divmod(number, layout.shape[d])
        address += position_value(layout, d, layout.lo[d] + x)
    return address


def _carry(outer: Layout, lowest: int, parts: list[list[int]]) -> str | None:
    """The first digit of `outer` that the parts overflow together, in words; without one they add up digit by digit."""
    scale = 1
    for d in reversed(range(outer.rank)):
        extent, low, name = outer.shape[d], outer.lo[d], outer.names[d]
        start, steps = lowest // scale % extent, [{v // scale % extent for v in part} for part in parts]
        if d and start + sum(max(s) for s in steps) >= extent:
            return f"the extent {extent} of dim '{name}'"
        digits = outer.digits[d]
        units = [u.unit for u in digits] if low else [unit for unit, _ in canonical_digits(digits, extent)]
        for unit, above in pairwise(units):
            if (low + start) % above // unit + sum(
                max(x % above // unit for x in s) for s in steps
            ) >= above // unit:
                return f"the unit {above} of dim '{name}'"
        scale *= extent
    return None


def _is_sum(outer: Layout, lowest: int, parts: list[list[int]]) -> bool:
    """Whether addresses add up over the parts all the same, by trying every index; False where there are too many."""
    if prod(map(len, parts)) > _ENUMERATION_BOUND:
        return False
    base = _numbered(outer, lowest)
    relative = [[(v, _numbered(outer, lowest + v) - base) for v in part] for part in parts]
    return all(
        _numbered(outer, lowest + sum(v for v, _ in steps)) - base == sum(moved for _, moved in steps)
        for steps in product(*relative)
    )
