"""Reshape: the same elements in row-major order of the index, seen with other extents.

Old and new dims are matched from the right into minimal groups of equal product. In a group the digits of all old
dims, inner dim first, form one list over the row-major index of the group; it is cut where the new dims want it.
That succeeds exactly when a layout says the result, because the canonical digits of the group are unique. Two things
have no layout: padding inside a group (the result would need dims fused into one digit list) and a cut that neither
divides a unit nor is divided by it (the result would need units that do not divide each other).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from layout_ir.algebra.canonical import canonical_digits, canonical_terms, dim_steps, position_value
from layout_ir.algebra.factors import BoundFactor
from layout_ir.algebra.layout_builder import counted, on_axes, ordered, with_low, with_terms
from layout_ir.algebra.steps import UnitStride, fit
from layout_ir.algebra.tag import names_for
from layout_ir.argument_checks import checked_dim
from layout_ir.errors import LayoutError, shape_text

if TYPE_CHECKING:
    from layout_ir.algebra.layout import Layout


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[range, range]]:
    """Old and new dims in minimal groups of equal product, matched from the right.

    Dims of extent 1 that are left over form groups of their own, with no dims on the other side.
    """
    result: list[tuple[range, range]] = []
    i, j = len(old), len(new)
    while i > 0 or j > 0:
        oi, nj = i, j
        a = b = 1
        if i > 0 and j > 0:
            i, j = i - 1, j - 1
            a, b = old[i], new[j]
        elif i > 0:
            i -= 1
            a = old[i]
        else:
            j -= 1
            b = new[j]
        while a != b:
            if a < b and i > 0:
                i -= 1
                a *= old[i]
            elif b < a and j > 0:
                j -= 1
                b *= new[j]
            else:
                break
        result.append((range(i, oi), range(j, nj)))
    return result[::-1]


def reshape(layout: Layout, shape: Sequence[int], *, keep_pads: bool = False) -> Layout:
    """The same elements in row-major order of the logical index, seen as `shape`.

    Requires as many elements, and that a layout says the result: inside each group of dims with equal product, every
    dim but the leading one is free of padding, and each cut between two new dims falls between digits or divides one.
    Ensures addresses as `numpy.reshape(addresses, shape)` has them. With `keep_pads` pads stay pads; otherwise they may
    leave the padded box, and the policy becomes undef. Raises LayoutError exactly where no layout exists.

    >>> Format.from_tag("nhwc").bind((2, 16, 5, 4)).reshape((2, 4, 4, 20))
    Format.parse("(n, c, h, w) : [n, w, c, h]").bind((2, 4, 4, 20))
    >>> Format.from_tag("aB8b").bind((2, 17)).reshape((34,), keep_pads=True)
    Traceback (most recent call last):
    layout_ir.errors.LayoutError: cannot reshape 2x17 into 34 ...: dim 'b' is padded from 17 to 24 ...
    """
    if prod(shape) != layout.nelems or any(extent < 0 for extent in shape):
        raise LayoutError(
            f"cannot reshape {shape_text(layout.shape)} into {shape_text(shape)}: "
            f"{layout.nelems} != {prod(shape)} elements"
        )
    if tuple(shape) == layout.shape:
        return layout
    if layout.nelems == 0:
        return _empty(layout, shape)
    try:
        return _reshape(layout, shape, keep_pads=keep_pads)
    except LayoutError:
        if keep_pads or not layout.is_padded:
            raise
        tight = _without_pads(layout)
        if tight is None:
            raise
        return _reshape(tight, shape, keep_pads=False)


def merge_dims(layout: Layout, dim: int, count: int) -> Layout:
    """The layout with dims [dim, dim + count) as one dim, in row-major order.

    Requires and ensures what `reshape` does. Raises LayoutError as it does, and for dims that do not exist.

    >>> Format.from_tag("abc").bind((2, 3, 4)).merge_dims(0, 2)
    Format.parse("(n, c) : [n, c]").bind((6, 4))
    """
    if not (dim >= 0 and count >= 1 and dim + count <= layout.rank):
        raise LayoutError(f"dims [{dim}, {dim + count}) do not exist in shape {shape_text(layout.shape)}")
    merged = prod(layout.shape[dim : dim + count])
    return reshape(layout, (*layout.shape[:dim], merged, *layout.shape[dim + count :]))


def split_dim(layout: Layout, dim: int, extents: Sequence[int]) -> Layout:
    """The layout with `dim` as several dims of `extents`, in row-major order: the inverse of `merge_dims`.

    Requires that the product of `extents` is that of `dim`, and what `reshape` does. Raises LayoutError as it does.

    >>> Format.from_tag("aB4b").bind((2, 8)).split_dim(1, (2, 4))
    Format.parse("(n, c, w) : [n, c, w], pad = zero").bind((2, 2, 4))
    """
    dim = checked_dim(dim, layout.shape)
    if prod(extents) != layout.shape[dim]:
        raise LayoutError(
            f"cannot split dim {dim} of extent {layout.shape[dim]} into {shape_text(extents)}: "
            f"{layout.shape[dim]} != {prod(extents)}"
        )
    return reshape(layout, (*layout.shape[:dim], *extents, *layout.shape[dim + 1 :]))


def _refused(layout: Layout, shape: Sequence[int]) -> str:
    return f"cannot reshape {shape_text(layout.shape)} into {shape_text(shape)} in {layout.format}"


def _without_pads(layout: Layout) -> Layout | None:
    """The same address map with a padded box as small as its digits allow, or None where a phase forbids it."""
    for dim in range(layout.rank):
        if layout.padded_shape[dim] != layout.shape[dim]:
            if on_axes(layout, dim):
                return None
            extent, low = layout.shape[dim], layout.lo[dim]
            terms = fit(dim_steps(layout, dim)) if low else canonical_digits(layout.digits[dim], extent)
            if terms is None:
                return None
            base = position_value(layout, dim, layout.lo[dim])
            layout = with_terms(with_low(replace(layout, offset=layout.offset + base), dim, 0), dim, terms)
    return replace(layout, pad="undef")


def _reshape(layout: Layout, shape: Sequence[int], *, keep_pads: bool) -> Layout:
    old_dims = [d for d in range(layout.rank) if layout.shape[d] != 1 or layout.padded_shape[d] != 1]
    new_dims = _paired_dims(shape, [layout.shape[d] for d in old_dims])
    chains: list[list[BoundFactor]] = [[] for _ in shape]
    lo = [0] * len(shape)
    kept = True
    for olds, news in _groups([layout.shape[d] for d in old_dims], [shape[d] for d in new_dims]):
        old, new = [old_dims[k] for k in olds], [new_dims[k] for k in news]
        kept = _reshape_group(layout, shape, old, new, chains, lo, keep_pads) and kept
    for dim, chain in enumerate(chains):
        if not chain:
            # A new dim of extent 1 lies nowhere; next to its right neighbour it reads most naturally.
            right = next((c[0].stride * c[0].count for c in chains[dim + 1 :] if c), 1)
            chain.append(BoundFactor(dim, 1, right))
    return replace(
        layout,
        names=_names(layout, shape),
        shape=tuple(shape),
        factors=ordered(chains),
        lo=tuple(lo),
        chunk_rank=0,
        pad=layout.pad if kept else "undef",
    )


def _names(layout: Layout, shape: Sequence[int]) -> tuple[str, ...]:
    return layout.names if len(shape) == layout.rank else names_for(len(shape))


def _empty(layout: Layout, shape: Sequence[int]) -> Layout:
    factors = tuple(BoundFactor(d, extent, 1) for d, extent in enumerate(shape))
    return replace(
        layout,
        names=_names(layout, shape),
        shape=tuple(shape),
        factors=factors,
        lo=(0,) * len(shape),
        chunk_rank=0,
        swizzle=None,
    )


def _paired_dims(shape: Sequence[int], old: Sequence[int]) -> list[int]:
    """Dims of the result that take part in the matching: all but unit dims, except those that padded units become."""
    wanted: list[int] = []  # per padded unit dim, the product of the extents left of it
    running = 1
    for extent in old:
        if extent == 1:
            wanted.append(running)
        running *= extent
    result: list[int] = []
    running = 1
    for dim, extent in enumerate(shape):
        if extent != 1:
            result.append(dim)
            running *= extent
        elif running in wanted:
            wanted.remove(running)
            result.append(dim)
    if wanted:
        raise LayoutError("a dim of extent 1 that carries padding has no dim of extent 1 to become")
    return result


def _reshape_group(
    layout: Layout, shape: Sequence[int], old: list[int], new: list[int],
    chains: list[list[BoundFactor]], lo: list[int], keep_pads: bool,
) -> bool:  # fmt: skip
    """Writes the factors of the new dims of one group; returns whether its pads are still pads."""
    if len(old) == 1 and len(new) == 1:
        d, e = old[0], new[0]
        chains[e] = [replace(f, dim=e) for f in layout.factors if f.dim == d]
        lo[e] = layout.lo[d]
        return True
    for d in old:
        if on_axes(layout, d):
            raise LayoutError(
                f"{_refused(layout, shape)}: dim '{layout.names[d]}' has places on another axis than memory"
            )
    for d in old[1:]:
        if layout.lo[d] or layout.padded_shape[d] != layout.shape[d]:
            raise LayoutError(
                f"{_refused(layout, shape)}: dim "
                f"'{layout.names[d]}' is padded from {layout.shape[d]} to {layout.padded_shape[d]} and not the leading "
                "dim of its group, so the result would need a group of fused dims"
            )
    terms: list[UnitStride] = []
    scale = 1
    for d in reversed(old):
        terms += [(x.unit * scale, x.stride) for x in layout.digits[d]]
        scale *= layout.shape[d]
    head = old[0] if old else None
    low = 0 if head is None else layout.lo[head] * (scale // layout.shape[head])
    padded = 1 if head is None else layout.padded_shape[head] * (scale // layout.shape[head])
    terms = list(canonical_terms(terms, max(padded, 2))) if terms else []
    if not terms:
        terms = [(1, 0)]
    suffix = 1
    kept = True
    for e in reversed(new):
        is_top = e == new[0]
        between = _between(layout, shape, terms, suffix, None if is_top else suffix * shape[e])
        if is_top:
            if padded % suffix or low % suffix:
                if keep_pads:
                    raise LayoutError(
                        f"{_refused(layout, shape)} and keep the pads: "
                        f"{padded} padded elements do not divide by {suffix}"
                    )
                kept = False
                if low:
                    raise LayoutError(
                        f"{_refused(layout, shape)}: {low} pads in front do not divide by {suffix}"
                    )
                capacity = shape[e]
            else:
                capacity = padded // suffix
            lo[e] = low // suffix
        else:
            capacity = shape[e]
        chains[e] = counted(canonical_terms(between, max(capacity, 2)) if capacity > 1 else (), capacity, e)
        suffix *= shape[e]
    return kept


def _between(
    layout: Layout, shape: Sequence[int], terms: list[UnitStride], low: int, high: int | None
) -> list[UnitStride]:
    """The digits between the cuts `low` and `high` (None: no upper cut), with units counted from `low`."""
    for cut in (low, high):
        if cut is None:
            continue
        at = max(k for k, (unit, _) in enumerate(terms) if unit <= cut)
        unit = terms[at][0]
        above = terms[at + 1][0] if at + 1 < len(terms) else None
        if cut % unit or (above is not None and above % cut):
            raise LayoutError(
                f"{_refused(layout, shape)}: a cut after {cut} elements "
                f"falls inside the digit from {unit}"
                + (f" to {above}" if above is not None else "")
                + ", so the result would need units that do not divide each other"
            )
    result: list[UnitStride] = []
    for k, (unit, stride) in enumerate(terms):
        above = terms[k + 1][0] if k + 1 < len(terms) else None
        if (high is not None and unit >= high) or (above is not None and above <= low):
            continue
        start = max(unit, low)
        result.append((start // low, stride * (start // unit)))
    return result
