"""Transpositions move behind elementwise ops and quantizations, where they meet others and cancel.

    relu(transpose(conv(x)))             becomes   transpose(relu(conv(x)))
    add(transpose(x), transpose(y))      becomes   transpose(add(x, y)), where both exchange dims alike
    transpose(transpose(x))              becomes   one transposition, or x

Models in channels last have a transposition on both sides of each convolution. As views they cost nothing, but an op
on the other side of one is no post-op of the convolution. The measure: elementwise ops behind transpositions, and then
the number of transpositions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.backends.reference.semantics import literal_array
from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr, PermuteOp, ReorderOp, is_any, with_format
from layout_ir.dialects.nn.constant import literal
from layout_ir.dialects.nn.tensor_types import shape_of, tensor_type
from layout_ir.passes.rewriting import erase_dead


def sink_transpositions(module: ModuleOp) -> None:
    """Applies the rules above, in place, where layouts are open."""
    for op in list(module.walk()):
        if isinstance(op, nn.UnaryOp | nn.BinaryOp | ReorderOp) and not isinstance(op, nn.ExpandOp):
            _sink(op)
        elif isinstance(op, PermuteOp):
            _compose(op)
    _erase_dead(module)


def compose_transpositions(module: ModuleOp) -> None:
    """Makes one of two transpositions, or none, in place."""
    for op in list(module.walk()):
        if isinstance(op, PermuteOp):
            _compose(op)
    _erase_dead(module)


def _erase_dead(module: ModuleOp) -> None:
    erase_dead([op for op in module.walk() if isinstance(op, PermuteOp | nn.ConstantOp)])


def _sink(op: nn.UnaryOp | nn.BinaryOp | ReorderOp) -> None:
    result = op.results[0]
    if not is_any(result.type) or (isinstance(op, ReorderOp) and (op.keeps_elements or op.dim is not None)):
        return
    orders = {tuple(v.owner.ints("perm")) for v in op.operands if isinstance(v.owner, PermuteOp)}
    if len(orders) != 1:
        return
    (order,) = orders
    if len(order) != len(shape_of(result)):
        return
    inverse = tuple(order.index(d) for d in range(len(order)))
    build = Builder(InsertPoint.before(op))
    operands: list[SSAValue] = []
    for value in op.operands:
        owner = value.owner
        if isinstance(owner, PermuteOp):
            operands.append(owner.input)
        elif isinstance(owner, nn.ConstantOp):
            operands.append(_turned(owner, inverse, build))
        else:
            return
    shape = shape_of(result)
    type = TensorType(tensor_type(result).element_type, [shape[d] for d in inverse], AnyAttr())
    made = op.create(operands=operands, result_types=[type], properties=dict(op.properties))
    made.location = op.location
    build.insert(made)
    back = build.insert(PermuteOp(made.results[0], order))
    result.replace_all_uses_with(back.result)
    Rewriter.erase_op(op)


def _turned(op: nn.ConstantOp, order: Sequence[int], build: Builder) -> SSAValue:
    """A constant with as many dims as `order` and those in that order; one of a single number as it is."""
    shape = shape_of(op.result)
    if all(extent == 1 for extent in shape) and len(shape) <= 1:
        return op.result
    array = np.broadcast_to(literal_array(op), shape)
    wide = array.reshape((1,) * (len(order) - array.ndim) + array.shape).transpose(order)
    type = TensorType(tensor_type(op.result).element_type, wide.shape)
    made = nn.ConstantOp(literal(type, wide.tobytes()), with_format(type, AnyAttr()))
    made.location = op.location
    return build.insert(made).result


def _compose(op: PermuteOp) -> None:
    inner = op.input.owner
    if not isinstance(inner, PermuteOp) or not is_any(op.result.type):
        return
    order = [inner.ints("perm")[d] for d in op.ints("perm")]
    if order == sorted(order):
        # A value of the type that is asked for.
        if not is_any(inner.input.type):
            return
        result = inner.input
    else:
        result = Builder(InsertPoint.before(op)).insert(PermuteOp(inner.input, order)).result
    op.result.replace_all_uses_with(result)
    Rewriter.erase_op(op)
