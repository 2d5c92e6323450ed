"""What models ask of the tensors of an op: shapes, Formats bound to them, bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Operation, SSAValue

from layout_ir.dialects.layout import dtype_of, format_of
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.errors import LayoutError
from layout_ir.format import Format
from layout_ir.layout import Layout
from layout_ir.tag import names_for

OPTIONS = "layout.options"
"""The attribute by which an op of any dialect states its options in the program."""

Candidates = Callable[[SSAValue], Sequence[Format]]
"""The Formats known so far for a value."""


def name_of_op(op: Operation) -> str:
    """The name in the program, of unregistered ops too."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def shape_of(value: SSAValue) -> tuple[int, ...]:
    return tensor_type(value.type).get_shape()


def plain(value: SSAValue) -> Format:
    """Dense row-major, with the dim names the type has or the usual ones."""
    known = format_of(value.type)
    names = known.names if known is not None else names_for(len(shape_of(value)))
    return Format.row_major(names)


def is_recipe(fmt: Format) -> bool:
    """Whether `fmt` fits other shapes too: nothing in it was computed for one tensor."""
    computed = any(f.stride is not None for f in fmt.all_factors)
    return not (computed or fmt.offset or fmt.lo or fmt.size is not None or fmt.swizzle is not None)


def bound(fmt: Format, value: SSAValue) -> Layout | None:
    """`fmt` at the shape of `value`, or None where it does not fit."""
    try:
        return fmt.bind(shape_of(value))
    except LayoutError:
        return None


def nbytes(fmt: Format, value: SSAValue) -> int:
    layout = bound(fmt, value)
    return 0 if layout is None else layout.nbytes(dtype_of(value.type))
