"""Options of ops that compute element by element in words of their own: any Format that reaches them.

An operand that is broadcast lies as the result does, in the same order of dims; in blocks its one element would have
to be written out.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.foreign.pointwise import pointwise_operands
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.format_model import FormatModel, FormatOptions, tensors_of
from layout_ir.passes.selection.options.models import default_options
from layout_ir.passes.selection.options.tensor_formats import (
    bound,
    is_shape_free,
    nbytes,
    row_major,
    shape_of,
)


def _says(op: Operation, target: Target) -> FormatOptions:
    count = pointwise_operands(op)
    if not count:
        return FormatOptions(tuple(default_options(op, lambda value: (), target)), lambda k, fmt: (), ())
    tensors = tensors_of(op)
    taking = [*tensors[:count], tensors[-1]]
    alike = len({shape_of(value) for _, value in taking}) == 1
    rest = tuple(row_major(value) for _, value in tensors[count:-1])

    def of(k: int, fmt: Format) -> Iterator[LayoutOption]:
        fmt = fmt.with_pad("undef")
        if not alike and (not is_shape_free(fmt) or any(block > 1 for block in fmt.blocks())):
            return
        if all(bound(fmt, value) is not None for _, value in taking):
            total = sum(nbytes(fmt, value) for _, value in taking)
            yield LayoutOption(((fmt,) * count) + rest, (fmt,), target.rates.stream(total))

    return FormatOptions((), of, tuple(taking))


pointwise_options = FormatModel(_says)
