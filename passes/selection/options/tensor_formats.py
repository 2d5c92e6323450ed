"""What models ask of the tensors of an op: shapes, Formats bound to them, bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.tag import names_for
from layout_ir.dialects.layout import dtype_of, format_of
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.errors import LayoutError

Candidates = Callable[[SSAValue], Sequence[Format]]
"""The Formats known so far for a value."""


def shape_of(value: SSAValue) -> tuple[int, ...]:
    return tensor_type(value.type).get_shape()


def row_major(value: SSAValue) -> Format:
    """Dense row-major, with the dim names the type has or the usual ones."""
    known = format_of(value.type)
    names = known.names if known is not None else names_for(len(shape_of(value)))
    return Format.row_major(names)


def is_shape_free(fmt: Format) -> bool:
    """Whether `fmt` fits other shapes too: nothing in it was computed for one tensor."""
    computed = any(f.stride is not None for f in fmt.all_factors)
    return not (computed or fmt.offset or fmt.lo or fmt.size is not None or fmt.swizzle is not None)


def bound(fmt: Format, value: SSAValue) -> Layout | None:
    """`fmt` at the shape of `value`, or None where it does not fit."""
    return bound_to(fmt, shape_of(value))


def bound_to(fmt: Format, shape: tuple[int, ...]) -> Layout | None:
    """`fmt` at `shape`, or None where it does not fit."""
    try:
        return fmt.bind(shape)
    except LayoutError:
        return None


def cuts_at_blocks(block: int, extent: int, start: int, size: int, step: int = 1) -> bool:
    """Whether elements start, start + step, ... of a dim, `size` of them, are whole blocks of it, moved as such.

    The last of them may be the broken one at the end of the dim.
    """
    whole = size % block == 0 or start + size == extent
    return block == 1 or (step == 1 and start % block == 0 and whole)


def widens_at_blocks(block: int, extent: int, begin: int, end: int) -> bool:
    """Whether a dim with `begin` more elements in front and `end` more behind keeps what it has in whole blocks.

    Elements behind it may fill the pads of the last block. A negative number takes elements away.
    """
    whole = end >= 0 or (extent + begin + end) % block == 0
    return block == 1 or (begin % block == 0 and whole)


def nbytes(fmt: Format, value: SSAValue) -> int:
    layout = bound(fmt, value)
    return 0 if layout is None else layout.nbytes(dtype_of(value.type))
