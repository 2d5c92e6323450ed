"""Views: the same buffer under another index.

Each function takes a bound Layout and returns the Layout of the view, so that
`addresses(view(L)) == numpy_view(addresses(L))`; where no layout says that, it raises LayoutError with the reason.
A view never promises what it cannot keep: where pads of the result would be elements of the parent, the policy of
the result is undef. Names, offset of the buffer, swizzle and `size` stay, unless a function says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from layout_ir.algebra.canonical import canonical_digits, dim_steps, position_value
from layout_ir.algebra.factors import BoundFactor
from layout_ir.algebra.layout_builder import on_axes, with_low, with_steps, with_terms, with_top
from layout_ir.algebra.steps import Steps, fit
from layout_ir.algebra.tag import names_for
from layout_ir.errors import LayoutError, shape_text

if TYPE_CHECKING:
    from layout_ir.algebra.layout import Layout

_ENUMERATION_BOUND = 1 << 16


def permute(layout: Layout, order: Sequence[int]) -> Layout:
    """The layout whose dim k is dim order[k] of `layout`.

    Requires that `order` is a permutation of the dims. Ensures addresses as `numpy.transpose(addresses, order)` has
    them; pads, names and policy move along.

    >>> Format.from_tag("nchw").bind((2, 3, 4, 5)).permute((0, 2, 3, 1))
    Format.parse("(n, h, w, c) : [n, c, h, w]").bind((2, 4, 5, 3))
    """
    if sorted(order) != list(range(layout.rank)):
        raise LayoutError(
            f"{list(order)} is not a permutation of the {layout.rank} dims of shape {shape_text(layout.shape)}"
        )
    where = {old: new for new, old in enumerate(order)}
    return replace(
        layout,
        names=tuple(layout.names[d] for d in order),
        shape=tuple(layout.shape[d] for d in order),
        lo=tuple(layout.lo[d] for d in order),
        factors=tuple(replace(f, dim=where[f.dim]) for f in layout.factors),
    )


def broadcast(layout: Layout, shape: Sequence[int]) -> Layout:
    """The layout of the tensor repeated up to `shape`.

    Requires that, from the right, every dim has the extent of `shape` or 1, and that a dim to be repeated has no places
    on another axis than memory. Ensures addresses as `numpy.broadcast_to` has them: new and repeated dims have stride
    0. The pads of a repeated dim leave the padded box, and the policy becomes undef. New dims in front rename all dims.

    >>> Format.from_tag("nc").bind((3, 1)).broadcast((2, 3, 4))
    Format.parse("(n, c, w) : [w, n*0, c]").bind((2, 3, 4))
    """
    extra = len(shape) - layout.rank
    if extra < 0:
        raise LayoutError(f"shape {shape_text(layout.shape)} has more dims than {shape_text(shape)}")
    for old, new in zip(layout.shape, shape[extra:], strict=True):
        if old not in (new, 1):
            raise LayoutError(
                f"shape {shape_text(layout.shape)} does not broadcast to {shape_text(shape)}: "
                f"{old} is neither 1 nor {new}"
            )
    stretched = {d for d, old in enumerate(layout.shape) if shape[extra + d] != old}
    if placed := sorted(d for d in stretched if on_axes(layout, d)):
        raise LayoutError(
            f"dim '{layout.names[placed[0]]}' of {layout.format} has places on another axis: it cannot be stretched"
        )
    if any(layout.lo[d] or layout.padded_shape[d] != 1 for d in stretched):
        # The pads behind a stretched element have no place in the result, so they leave the padded box.
        shift = sum(position_value(layout, d, layout.lo[d]) for d in stretched)
        layout = replace(layout, offset=layout.offset + shift, pad="undef")
    factors = [BoundFactor(d, shape[d], 0) for d in range(extra)]
    for factor in layout.factors:
        if factor.dim in stretched:
            continue
        factors.append(replace(factor, dim=factor.dim + extra))
    factors = [BoundFactor(d + extra, shape[d + extra], 0) for d in sorted(stretched)] + factors
    names = names_for(len(shape)) if extra else layout.names
    lo = (0,) * extra + tuple(0 if d in stretched else low for d, low in enumerate(layout.lo))
    return replace(layout, names=names, shape=tuple(shape), factors=tuple(factors), lo=lo, chunk_rank=0)


def slice_(
    layout: Layout, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int] | None = None
) -> Layout:
    """The layout of `sizes[d]` indices of each dim d from `starts[d]` on, `steps[d]` apart (None: 1).

    A step below 0 goes backwards.
    Requires that the slice stays inside the shape and, where a step is not 1, that the indices it meets still form
    digits; with steps of 1 there is always an answer, since an unaligned start is kept as a phase (`lo`) where nothing
    simpler says it. Ensures addresses as NumPy's slicing has them. The policy stays where every pad of the result is a
    pad of `layout` (the slice ends at the border), else it becomes undef. Raises LayoutError, also for another rank.

    >>> layout = Format.from_tag("aB4b").bind((2, 10))
    >>> layout.slice((0, 4), (2, 6))
    Format.parse("(a, b) : [a*12, b, b:4], pad = zero, offset = 4").bind((2, 6))
    >>> layout.slice((0, 0), (2, 5), (1, 2))
    Format.parse("(a, b) : [a*12, b*2], pad = zero").bind((2, 5))
    """
    steps = (1,) * layout.rank if steps is None else steps
    if not len(starts) == len(sizes) == len(steps) == layout.rank:
        raise LayoutError(
            f"rank mismatch between slice starts {list(starts)}, sizes {list(sizes)}, steps {list(steps)} "
            f"and shape {shape_text(layout.shape)}"
        )
    sound = True
    for dim, (start, size, step) in enumerate(zip(starts, sizes, steps, strict=True)):
        extent = layout.shape[dim]
        last = start + (size - 1) * step
        if (
            size < 0
            or start < 0
            or start > extent
            or (size > 0 and not (start < extent and 0 <= last < extent))
        ):
            raise LayoutError(
                f"slice of {size} indices from {start} on in steps of {step} leaves dim {dim} of extent {extent}"
            )
        if step != 1 and size > 1:
            layout = _stride_dim(layout, dim, start, size, step)
            sound = sound and layout.padded_shape[dim] == size
        elif (start, size) != (0, extent):
            layout, kept = _slice_dim(layout, dim, start, size, to_border=start + size == extent)
            sound = sound and (kept or layout.padded_shape[dim] == size)
    return layout if sound else replace(layout, pad="undef")


def _stride_dim(layout: Layout, dim: int, start: int, size: int, step: int) -> Layout:
    """`size` indices of `dim`, `step` apart. The result has no pads along `dim`."""
    if on_axes(layout, dim):
        raise LayoutError(
            f"dim '{layout.names[dim]}' of {layout.format} has places on another axis: it takes no step of {step}"
        )
    low, digits = layout.lo[dim] + start, layout.digits[dim]
    if len(digits) == 1:
        shape = tuple(size if d == dim else extent for d, extent in enumerate(layout.shape))
        moved = replace(layout, shape=shape, offset=layout.offset + low * digits[0].stride)
        return with_terms(with_low(moved, dim, 0), dim, ((1, digits[0].stride * step),))
    view = with_steps(layout, dim, position_value(layout, dim, low), _strided(layout, dim, low, size, step))
    if view is None:
        raise LayoutError(
            f"every {abs(step)}th index of dim '{layout.names[dim]}' from {start} on is no digit list in "
            f"{layout.format}: the result would need units that do not divide each other"
        )
    return view


def _strided(layout: Layout, dim: int, low: int, size: int, step: int) -> Steps:
    """The addresses along `dim` at `size` positions from `low` on, `step` apart. Raises LayoutError."""
    try:
        return Steps.strided([(d.unit, d.stride) for d in layout.digits[dim]], size, low, step)
    except ValueError as error:
        if size > _ENUMERATION_BOUND:
            raise LayoutError(
                f"every {abs(step)}th index of dim '{layout.names[dim]}' of {layout.format}: {error} does not divide "
                f"or is not divided by it, and only {_ENUMERATION_BOUND} indices are tried one by one, not {size}"
            ) from error
        return Steps.of_values([position_value(layout, dim, low + k * step) for k in range(size)])


def _slice_dim(layout: Layout, dim: int, start: int, size: int, *, to_border: bool) -> tuple[Layout, bool]:
    """`layout` cut to [start, start + size) along `dim`, and whether its pads along `dim` are pads of the original."""
    digits = layout.digits[dim]
    top, low = digits[-1].unit, layout.lo[dim] + start
    shape = tuple(size if d == dim else extent for d, extent in enumerate(layout.shape))
    if on_axes(layout, dim):
        # An offset exists in memory only, so the start stays a phase.
        return with_low(replace(layout, shape=shape), dim, low), False
    skipped = replace(layout, shape=shape, offset=layout.offset + low // top * digits[-1].stride)
    if to_border and low % top == 0:
        # Whole blocks are dropped in front; the tail with its pads stays what it was.
        return with_low(with_top(skipped, dim, max(digits[-1].count - low // top, 0)), dim, 0), True
    if low % top == 0:
        terms = canonical_digits(digits, size)
    else:
        terms = fit(dim_steps(with_low(replace(layout, shape=shape), dim, low), dim))
    if terms is not None:
        base = position_value(layout, dim, low) if size else 0
        return with_terms(
            with_low(replace(layout, shape=shape, offset=layout.offset + base), dim, 0), dim, terms
        ), False
    # A phase: only the blocks that are reached remain.
    return with_low(with_top(skipped, dim, -(-(low % top + size) // top)), dim, low % top), False
