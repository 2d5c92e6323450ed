"""Convolutions of one tensor whose results are added, as one convolution.

    conv(x, w 3x3) + conv(x, v 1x1) + batch_norm(x)    =    conv(x, w + v in the middle + scales on its diagonal)

Networks that are trained with such branches (RepVGG, MobileOne) are exported with them, unless somebody merges them
before. It is done where the window of one has the elements of the other, so that no weight is added. Results differ by
the rounding of the sums. The measure: the number of ops.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps, elements_of
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of, is_any
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array


class _Branch(NamedTuple):
    """A convolution as it is to be added: weights (outputs, channels of a group, window), and what adds to channels."""

    op: Operation
    x: SSAValue
    weights: Array
    bias: Array | None
    group: int
    strides: tuple[int, ...]
    taken: tuple[tuple[int, ...], ...]
    """Per spatial dim, which elements of x the weights meet, counted from that of the result, times the stride."""


def merge_parallel_convolutions(module: ModuleOp) -> None:
    """Replaces, in place, sums of f32 with constant weights and open layouts."""
    for op in list(module.walk()):
        if isinstance(op, nn.AddOp) and is_any(op.result.type) and dtype_of(op.result.type) == "f32":
            if shape_of(op.lhs) != shape_of(op.rhs) or op.lhs is op.rhs:
                continue
            for first, second in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
                wide = _convolution(first)
                narrow = None if wide is None else _convolution(second) or _normalization(second, wide)
                if wide is not None and narrow is not None and _holds(wide, narrow):
                    _merge(op, wide, narrow)
                    break


def _convolution(value: SSAValue) -> _Branch | None:
    """The convolution that makes a value, which nobody else uses."""
    op = value.owner
    if not isinstance(op, nn.ConvOp) or not value.has_one_use():
        return None
    weights, bias = elements_of(op.w), None if op.b is None else elements_of(op.b)
    if weights is None or (op.b is not None and bias is None):
        return None
    taken = tuple(
        tuple(k * step - begin for k in range(extent))
        for extent, step, begin in zip(
            weights.shape[2:], op.dilations, op.pads[: len(op.strides)], strict=True
        )
    )
    return _Branch(op, op.x, weights, bias, op.group, tuple(op.strides), taken)


def _normalization(value: SSAValue, beside: _Branch) -> _Branch | None:
    """The batch normalization that makes a value, as a convolution in the groups of another of the same tensor."""
    op = value.owner
    if not isinstance(op, nn.BatchNormOp) or not value.has_one_use():
        return None
    constants = [elements_of(operand) for operand in (op.scale, op.bias, op.mean, op.var)]
    found = [elements.astype(np.float64) for elements in constants if elements is not None]
    channels, rank = shape_of(value)[1], len(beside.strides)
    if len(found) != 4 or beside.x is not op.x or set(beside.strides) != {1}:
        return None
    scale, bias, mean, variance = found
    factor = scale / np.sqrt(variance + op.epsilon)
    depth = channels // beside.group
    weights = np.zeros((channels, depth, *(1,) * rank))
    weights[np.arange(channels), np.arange(channels) % depth] = factor.reshape(-1, *(1,) * rank)
    return _Branch(op, op.x, weights, bias - mean * factor, beside.group, beside.strides, ((0,),) * rank)


def _holds(wide: _Branch, narrow: _Branch) -> bool:
    """Whether a convolution takes all that another of the same tensor does."""
    return (
        wide.x is narrow.x
        and (wide.group, wide.strides) == (narrow.group, narrow.strides)
        and wide.weights.shape[:2] == narrow.weights.shape[:2]
        and all(set(few) <= set(many) for few, many in zip(narrow.taken, wide.taken, strict=True))
    )


def _merge(op: nn.AddOp, wide: _Branch, narrow: _Branch) -> None:
    weights = wide.weights.astype(np.float64)
    for place in product(*map(enumerate, narrow.taken)):
        there = tuple(many.index(taken) for (_, taken), many in zip(place, wide.taken, strict=True))
        weights[(slice(None), slice(None), *there)] += narrow.weights[
            (slice(None), slice(None), *(k for k, _ in place))
        ]
    biases = [branch.bias.astype(np.float64) for branch in (wide, narrow) if branch.bias is not None]
    ops = InsertedOps(op)
    w = ops.constant(weights.astype(np.float32))
    b = ops.constant(sum(biases[1:], biases[0]).astype(np.float32)) if biases else None
    assert isinstance(wide.op, nn.ConvOp)
    attributes = {name: getattr(wide.op, name) for name in wide.op.__fields__}
    ops.replace(ops.apply(nn.ConvOp, wide.x, w, b, **attributes))
    for branch in (wide, narrow):
        Rewriter.erase_op(branch.op)
