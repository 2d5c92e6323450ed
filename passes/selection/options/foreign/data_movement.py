"""Ops of other dialects that move elements: reshapes, slices, concatenation, padding, and ops that make a tensor.

Reshapes run in every Format that has an image under the algebra, as `layout.reshape` does. The others run in one
Format, in which they cut and concatenate at whole blocks. A dim that is repeated or reversed has no pads in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from xdsl.dialects import arith, tensor, tosa
from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.algebra.pads import pad_number
from layout_ir.dialects.layout import is_any, is_tensor, layout_of
from layout_ir.errors import LayoutError
from layout_ir.foreign import movement
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.format_model import FormatModel, FormatOptions, tensors_of
from layout_ir.passes.selection.options.models import default_options
from layout_ir.passes.selection.options.tensor_formats import (
    bound,
    cuts_at_blocks,
    is_shape_free,
    nbytes,
    row_major,
    shape_of,
    widens_at_blocks,
)

MAKERS = (tensor.EmptyOp, tensor.SplatOp, arith.ConstantOp, tosa.ConstOp)
"""Ops that make a tensor in whatever Format is asked for, pads as its type says."""
CONCATS = (tensor.ConcatOp, tosa.ConcatOp)
CUTS = (tensor.ExtractSliceOp, tensor.InsertSliceOp, tensor.PadOp, tensor.CastOp)
NUMBERED = (movement.SLICE, movement.PAD, movement.TILE, movement.REVERSE)
"""Ops of tosa that move what their first operand holds, by numbers that are operands."""

Fits = Callable[[Format], bool]


def _reshape(op: Operation, target: Target) -> FormatOptions:
    """Every Format of one side that the algebra carries to the other; free. A shape operand is row-major."""
    source, result = op.operands[0], op.results[0]
    tensors = tensors_of(op)
    last = len(tensors) - 1
    rest = tuple(row_major(value) for _, value in tensors[1:last])

    def of(k: int, fmt: Format) -> Iterator[LayoutOption]:
        value, other = (source, result) if k == 0 else (result, source)
        layout = bound(fmt, value)
        try:
            # The pads of the result are in the buffer of the operand.
            image = None if layout is None else layout.reshape(shape_of(other), keep_pads=k != 0).format
        except LayoutError:
            return
        if image is not None:
            here, there = (fmt, image) if k == 0 else (image, fmt)
            yield LayoutOption((here, *rest), (there,), 0)

    return FormatOptions((), of, (tensors[0], tensors[last]))


def _concat(op: Operation, target: Target) -> FormatOptions:
    """One Format for all, in which every part but the last ends with a whole block."""
    axis = axis_of(op)

    def fits(fmt: Format) -> bool:
        return all(shape_of(value)[axis] % fmt.blocks()[axis] == 0 for value in op.operands[:-1])

    return _same_format(op, target, fits)


def _cut(op: Operation, target: Target) -> FormatOptions:
    """One Format for all, in which slices and pads are whole blocks; row-major where the rank changes."""
    tensors = _tensors(op)
    shapes = [shape_of(value) for value in tensors]
    if len({len(shape) for shape in shapes}) > 1:
        plain = _option(op, {value: row_major(value) for value in tensors}, target)
        return FormatOptions((plain,), lambda k, fmt: (), ())
    return _same_format(op, target, lambda fmt: _cuts_whole_blocks(op, fmt))


def _numbered(op: Operation, target: Target) -> FormatOptions:
    """One Format for what is moved, all else row-major; row-major as a whole where numbers are not known."""
    whole = movement.whole_dims_of(op)
    if whole is None and movement.cuts_of(op) is None and movement.widening_of(op) is None:
        return FormatOptions(tuple(default_options(op, lambda value: (), target)), lambda k, fmt: (), ())
    tensors = tensors_of(op)

    def fits(fmt: Format) -> bool:
        layout = bound(fmt, op.operands[0])
        return layout is not None and (
            _cuts_whole_blocks(op, fmt)
            if whole is None
            else all(layout.padded_shape[dim] == layout.shape[dim] for dim in whole)
        )

    others = {value: row_major(value) for _, value in tensors}
    return _same_format(op, target, fits, (tensors[0], tensors[-1]), others)


reshape_options = FormatModel(_reshape)
concat_options = FormatModel(_concat)
cut_options = FormatModel(_cut)
numbered_options = FormatModel(_numbered)


def _cuts_whole_blocks(op: Operation, fmt: Format) -> bool:
    """Whether what `op` cuts out, puts in or adds is whole blocks; numbers that only the run time knows are not."""
    blocks = fmt.blocks()
    cuts, ends = movement.cuts_of(op), movement.widening_of(op)
    if cuts is not None:
        whole = shape_of(op.results[0] if isinstance(op, tensor.InsertSliceOp) else op.operands[0])
        return all(
            block == 1 or (movement.is_known(cut) and cuts_at_blocks(block, extent, *cut))
            for block, extent, cut in zip(blocks, whole, cuts, strict=True)
        )
    if ends is not None:
        whole = shape_of(op.operands[0])
        return all(
            block == 1 or (movement.is_known(more) and widens_at_blocks(block, extent, *more))
            for block, extent, more in zip(blocks, whole, ends, strict=True)
        )
    return True


def _tensors(op: Operation) -> list[SSAValue]:
    return [value for value in (*op.operands, *op.results) if is_tensor(value.type)]


def _same_format(
    op: Operation,
    target: Target,
    fits: Fits,
    tensors: Sequence[tuple[int, SSAValue]] | None = None,
    others: Mapping[SSAValue, Format] | None = None,
) -> FormatOptions:
    """One Format for `tensors` (None: for all), and those of `others` for what is not among them."""
    tensors = tuple(tensors_of(op) if tensors is None else tensors)
    values = [value for _, value in tensors]
    alike = len({shape_of(value) for value in values}) == 1

    def of(k: int, fmt: Format) -> Iterator[LayoutOption]:
        fmt = fmt.with_pad("undef")
        bounds = all(bound(fmt, value) is not None for value in values)
        if bounds and (alike or is_shape_free(fmt)) and fits(fmt):
            yield _option(op, {**(others or {}), **dict.fromkeys(values, fmt)}, target)

    return FormatOptions((), of, tensors)


def _option(op: Operation, formats: dict[SSAValue, Format], target: Target) -> LayoutOption:
    total = sum(nbytes(formats[value], value) for value in _tensors(op))
    ins = tuple(formats[value] for value in op.operands if is_tensor(value.type))
    return LayoutOption(ins, tuple(formats[value] for value in op.results), target.rates.stream(total))


def axis_of(op: Operation) -> int:
    """The dim that a concat joins along."""
    if isinstance(op, tensor.ConcatOp):
        return op.dim.value.data
    assert isinstance(op, tosa.ConcatOp)
    return op.axis.value.data


# Pads ----------------------------------------------------------------------------------------------------------------


def writes_zero(op: Operation) -> float | None:
    """Ops that move elements write 0 into the pads of what they make, as those of `nn` do."""
    return 0.0


def keeps_view(op: Operation) -> float | None:
    """A reshape shows the pads of its operand where the algebra says that they are pads of the result."""
    source, result = op.operands[0], op.results[0]
    if is_any(source.type) or is_any(result.type):
        return None
    try:
        view = layout_of(source.type).reshape(shape_of(result))
    except LayoutError:
        return None
    return pad_number(view.pad)
