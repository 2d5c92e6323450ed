"""Between the two forms of a layout: a Format and a shape give a Layout, and a Layout says which Format it came from.

The two are inverse to each other: `bind(format_of(L), L.shape)` stores what L stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from layout_ir.algebra.factors import MEMORY, BoundFactor, Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.tag import names_for
from layout_ir.errors import LayoutError, shape_text

_LIMIT = 1 << 63


def bind(format: Format, shape: Sequence[int]) -> Layout:
    """The Layout of a tensor of extents `shape` under `format`.

    From the right a running product per axis (and per side of the bar) gives the strides that the format leaves
    open; extents of 0 count as 1 in it. Raises LayoutError where the format does not fit the shape.
    """
    names, lo = format.names, format.lo or (0,) * format.rank
    if len(shape) != format.rank:
        raise LayoutError(
            f"rank mismatch between format ({', '.join(names)}) and shape {'x'.join(map(str, shape))}: "
            f"{format.rank} != {len(shape)}"
        )
    for dim, extent in enumerate(shape):
        if extent < 0:
            raise LayoutError(f"extent {extent} of dim '{names[dim]}' is negative")
    blocks = format.blocks()
    chunk = prod(f.size or 1 for f in format.chunk_factors)
    running: dict[tuple[str, bool], int] = {}
    factors: list[BoundFactor] = []
    open_dims = {f.dim for f in format.all_factors if f.size is None}
    bar = len(format.factors)
    for k, factor in reversed(list(enumerate(format.all_factors))):
        dim, inside = factor.dim, k >= bar
        count = factor.size if factor.size is not None else -(-(shape[dim] + lo[dim]) // blocks[dim])
        stride = factor.stride if factor.stride is not None else running.get((factor.axis, inside), 1)
        running[factor.axis, inside] = stride * max(count, 1)
        scale = chunk if format.chunk_factors and not inside and factor.axis == MEMORY else 1
        factors.append(BoundFactor(dim, count, stride * scale, factor.axis))
    for dim, extent in enumerate(shape):
        if dim not in open_dims and blocks[dim] < extent + lo[dim]:
            front = f" and {lo[dim]} pads in front of it" if lo[dim] else ""
            raise LayoutError(
                f"dim '{names[dim]}' holds {blocks[dim]} elements in {format}, "
                f"which is less than its extent {extent}{front}"
            )
    factors.reverse()
    layout = Layout(
        names,
        tuple(shape),
        tuple(factors),
        lo,
        len(format.chunk_factors),
        format.pad,
        format.offset,
        format.size,
        format.swizzle,
    )
    if max(layout.extent, layout.span, abs(layout.first_address)) >= _LIMIT:
        raise LayoutError(
            f"{format} of shape {'x'.join(map(str, shape))} spans {_count(layout.span)} elements: not below 2^63"
        )
    # A tensor without elements spans nothing, and a digit that is always 0 goes nowhere, whatever their strides.
    strides = [digit.stride for digits in layout.digits for digit in digits]
    if (farthest := max(map(abs, strides), default=0)) >= _LIMIT:
        raise LayoutError(
            f"{format} of shape {'x'.join(map(str, shape))} has a stride of {_count(farthest)} elements: not below 2^63"
        )
    # Broadcast dims take no memory, but their indices must still count.
    if (count := prod(extent or 1 for extent in layout.padded_shape)) >= _LIMIT:
        raise LayoutError(
            f"{format} of shape {'x'.join(map(str, shape))} has {_count(count)} positions: not below 2^63"
        )
    return layout


def _count(number: int) -> str:
    """`number` for a message; a product of many sizes can have more digits than Python prints."""
    return str(number) if number < _LIMIT**2 else f"about 2^{number.bit_length() - 1}"


def strided_layout(shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Layout:
    """The layout of one stride (elements) per dim. Raises LayoutError where it leaves addresses 0 to 2^63."""
    order = sorted(range(len(shape)), key=lambda d: (-abs(strides[d]), d))
    factors = tuple(Factor(d, None, strides[d]) for d in order)
    layout = Format(names_for(len(shape)), factors, offset=offset).bind(shape)
    if layout.nelems and layout.first_address < 0:
        raise LayoutError(
            f"strides {shape_text(strides)} of shape {shape_text(shape)} reach address {layout.first_address}: "
            f"an offset of at least {offset - layout.first_address} keeps them in the buffer"
        )
    return layout


def check_addresses(layout: Layout) -> None:
    """Raises LayoutError where `layout` has places that no buffer has: below address 0, or on another axis."""
    if layout.axes:
        raise LayoutError(f"{layout} has places on other axes than memory, where no buffer is")
    if layout.span and layout.first_address < 0:
        raise LayoutError(
            f"{layout} begins {-layout.first_address} elements below address 0, where a buffer begins: "
            f"an offset of at least {layout.offset - layout.first_address} keeps it inside"
        )


def check_overlap(layout: Layout) -> None:
    """Raises LayoutError where one stride per dim puts two elements at one address, broadcasts by 0 aside."""
    # A stride of 0 says on purpose that one element serves several indices; it is left out of the question.
    moving = [f for f in layout.factors if f.stride or f.count == 1]
    shape = tuple(1 if all(f.dim != d for f in moving) else x for d, x in enumerate(layout.shape))
    kept = tuple(f if f in moving else BoundFactor(f.dim, 1, 0) for f in layout.factors)
    if replace(layout, shape=shape, factors=kept).is_injective(padded=False) is not True:
        strides = [next(f.stride for f in layout.factors if f.dim == d) for d in range(layout.rank)]
        raise LayoutError(
            f"strides {shape_text(strides)} of shape {shape_text(layout.shape)} put several elements at one address"
        )
