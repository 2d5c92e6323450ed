"""Quantized tensors stay integers while they are only moved.

    move(dequantize(q))            becomes  dequantize(move(q)), so that bytes are moved and not floats
    quantize(dequantize(q))        becomes  q, or one conversion where scale, zero point or element type differ
    quantize(concat(x, y))         becomes  concat(quantize(x), quantize(y)), where one of them is dequantized

The measure that each rule makes smaller: the ops between a dequantization and the next quantization. Moves are views,
slices, concatenations, tiles and maxima over windows; of several operands all are dequantized alike. A transposed
constant is a constant, as weights that were quantized in another order of dims are.
"""

from __future__ import annotations

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, ModuleOp, TensorType, f64, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.backends.onednn.quantized_values import dequantized, erase_unused, quantizing
from layout_ir.backends.reference.semantics import literal_array
from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    AnyAttr,
    PermuteOp,
    ReorderOp,
    ReshapeOp,
    SliceOp,
    dtype_of,
    is_any,
    with_format,
)
from layout_ir.dialects.nn.constant import literal
from layout_ir.dialects.nn.tensor_types import shape_of, tensor_type

_MOVES = (PermuteOp, ReshapeOp, SliceOp, nn.SliceOp, nn.ConcatOp, nn.TileOp, nn.MaxPoolOp)
"""Ops that commute with a dequantization: it grows with the integer, and is the same for every element."""


def sink_dequantizations(module: ModuleOp) -> None:
    """Applies the rules above, in place, where layouts are open. Ops that nobody needs any more are erased."""
    for op in list(module.walk()):
        if isinstance(op, nn.ConcatOp):
            _quantized_parts(op)
        if isinstance(op, _MOVES) and op.parent is not None:
            _moved(op)
    for op in list(module.walk()):
        if quantizing(op) is not None:
            _cancelled(op)


def _moved(op: Operation) -> None:
    """move(dequantize(q)) becomes dequantize(move(q))."""
    result = op.results[0]
    sources = [dequantized(value) for value in op.operands]
    found = [source for source in sources if source is not None]
    if len(found) != len(sources) or not found or not is_any(result.type):
        return
    first = found[0]
    if not all(source.is_stored_as(first) for source in found):
        return
    if not first.is_per_tensor and not isinstance(op, PermuteOp):
        return
    moved = _transposed_constant(op, first.stored) or op.create(
        operands=[source.stored for source in found],
        result_types=[TensorType(tensor_type(first.stored).element_type, shape_of(result), AnyAttr())],
        properties=dict(op.properties),
    )
    dequantize = op.operands[0].owner
    assert isinstance(dequantize, ReorderOp)
    properties = dict(dequantize.properties)
    if isinstance(op, PermuteOp) and first.dim is not None:
        properties["dim"] = IntegerAttr(op.ints("perm").index(first.dim), i64)
    back = ReorderOp.create(operands=[moved.results[0]], result_types=[result.type], properties=properties)
    _replace(op, moved, back)


def _transposed_constant(op: Operation, stored: SSAValue) -> nn.ConstantOp | None:
    """The constant that `op` makes of a constant, where it exchanges dims."""
    if not isinstance(op, PermuteOp) or not isinstance(stored.owner, nn.ConstantOp):
        return None
    array = np.broadcast_to(literal_array(stored.owner), shape_of(stored)).transpose(op.ints("perm"))
    type = TensorType(tensor_type(stored).element_type, array.shape)
    return nn.ConstantOp(literal(type, array.tobytes()), with_format(type, AnyAttr()))


def _quantized_parts(op: nn.ConcatOp) -> None:
    """quantize(concat(x, y)) becomes concat(quantize(x), quantize(y))."""
    uses = list(op.result.uses)
    quantize = uses[0].operation if len(uses) == 1 else None
    if (
        not isinstance(quantize, ReorderOp)
        or quantizing(quantize) is None
        or not is_any(quantize.result.type)
    ):
        return
    if all(dequantized(value) is None for value in op.operands):
        return
    element = tensor_type(quantize.result).element_type
    parts = [
        ReorderOp.create(
            operands=[value],
            result_types=[TensorType(element, shape_of(value), AnyAttr())],
            properties=dict(quantize.properties),
        )
        for value in op.operands
    ]
    joined = op.create(
        operands=[part.result for part in parts],
        result_types=[quantize.result.type],
        properties=dict(op.properties),
    )
    _replace(quantize, *parts, joined)
    Rewriter.erase_op(op)


def _cancelled(op: Operation) -> None:
    """quantize(dequantize(q)) becomes q, or one conversion."""
    assert isinstance(op, ReorderOp)
    source, wanted = dequantized(op.input), quantizing(op)
    if source is None or wanted is None or not source.is_per_tensor or not is_any(op.result.type):
        return
    same_type = dtype_of(source.stored.type) == dtype_of(op.result.type)
    if same_type and (source.scale[0], source.zero_point[0]) == wanted:
        unused = op.input.owner
        op.result.replace_all_uses_with(source.stored)
        Rewriter.erase_op(op)
        erase_unused(unused)
        return
    numbers = {"scale": (source.scale[0], wanted[0]), "zero_point": (source.zero_point[0], wanted[1])}
    properties = {name: ArrayAttr(FloatAttr(x, f64) for x in sides) for name, sides in numbers.items()}
    _replace(
        op,
        ReorderOp.create(
            operands=[source.stored], result_types=[op.result.type], properties=dict(properties)
        ),
    )


def _replace(op: Operation, *made: Operation) -> None:
    """Puts ops in the place of `op`, the last of which has its result; what it alone used is erased."""
    build = Builder(InsertPoint.before(op))
    for new in made:
        new.location = op.location
        build.insert(new)
    operands = [value.owner for value in op.operands]
    op.results[0].replace_all_uses_with(made[-1].results[0])
    Rewriter.erase_op(op)
    for owner in dict.fromkeys(operands):
        erase_unused(owner)
