"""Formats of the tensors of an op, as models of options need them: bound to their shapes, shape-free, cut at blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from layout_ir.algebra.format import Format, bound_format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.tag import names_for
from layout_ir.dialects.layout import dtype_of, format_of
from layout_ir.dialects.layout.types import extents_of, tensor_type
from layout_ir.errors import LayoutError

Candidates = Callable[[SSAValue], Sequence[Format]]
"""Gives the Formats known so far for a value."""


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The logical shape of a tensor. Raises LayoutError for what is no tensor."""
    return extents_of(tensor_type(value.type))


def row_major(value: SSAValue) -> Format:
    """The dense row-major Format of a tensor, with the dim names of its type or the usual ones."""
    known = format_of(value.type)
    names = known.names if known is not None else names_for(len(shape_of(value)))
    return Format.row_major(names)


def is_shape_free(fmt: Format) -> bool:
    """Whether `fmt` means the same for other shapes: no stride, offset or size in it was computed for one tensor."""
    computed = any(f.stride is not None for f in fmt.all_factors)
    return not (computed or fmt.offset or fmt.lo or fmt.size is not None or fmt.swizzle is not None)


def bound(fmt: Format, value: SSAValue) -> Layout | None:
    """`fmt` at the shape of `value`, or None where it does not fit."""
    return bound_to(fmt, shape_of(value))


def bound_to(fmt: Format, shape: tuple[int, ...]) -> Layout | None:
    """`fmt` at `shape`, or None where it does not fit."""
    try:
        return bound_format(fmt, shape)
    except LayoutError:
        return None


def cuts_at_blocks(block: int, extent: int, start: int, size: int, step: int = 1) -> bool:
    """Whether the `size` elements start, start + step, ... of a dim of `extent` are whole blocks of `block` elements.

    The last may be the partial block at the end of the dim.
    """
    whole = size % block == 0 or start + size == extent
    return block == 1 or (step == 1 and start % block == 0 and whole)


def widens_at_blocks(block: int, extent: int, begin: int, end: int) -> bool:
    """Whether a dim of `extent` stays in whole blocks with `begin` more elements in front and `end` more behind.

    Elements behind may fill the pads of the last block. A negative number takes elements away.
    """
    whole = end >= 0 or (extent + begin + end) % block == 0
    return block == 1 or (begin % block == 0 and whole)


def nbytes(fmt: Format, value: SSAValue) -> int:
    """Bytes of a tensor in `fmt`, pads included; 0 where that does not fit its shape."""
    layout = bound(fmt, value)
    return 0 if layout is None else layout.nbytes(dtype_of(value.type))
