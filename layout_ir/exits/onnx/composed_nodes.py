"""Ops as several nodes: for versions of ONNX without the operator, and for what the operator does not take.

    swish          x * sigmoid(alpha * x); Swish is of version 24
    celu           its definition; Celu takes single precision alone before version 28
    conv_transpose less of its pads, or zeros behind it, for an output_padding of a stride or more
    layer_norm     its definition where the axes are not the innermost dims; LayerNormalization is of version 17
    rms_norm       the same; RMSNormalization is of version 23
    group_norm     the groups as channels of an InstanceNormalization, as exporters write it; GroupNormalization has
                   one scale per channel since version 21

Normalizations compute in single precision where their elements have less: squares of half-precision numbers overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import onnx
from xdsl.ir import Operation, SSAValue

from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of
from layout_ir.elements.scalar_type import computed_dtype
from layout_ir.exits.onnx.node_writer import NodeWriter
from layout_ir.exits.onnx.operator_versions import DATA_TYPES


class _Nodes:
    """The nodes of one op. Each but the last makes a value in between."""

    def __init__(self, write: NodeWriter, op: Operation):
        self.write = write
        self.op = op

    def node(self, op_type: str, *inputs: str, last: bool = False, **attributes: Any) -> str:
        """A node; the name of its output, which is the result of the op if it is the `last` one."""
        outputs = None if last else [self.write.temporary(self.op)]
        return self.write.node(self.op, op_type, inputs, outputs, **attributes)[0]

    def cast(self, x: str, source: str, target: str) -> str:
        """`x` with elements of `target`."""
        return x if source == target else self.node("Cast", x, to=DATA_TYPES[target])

    def mean(self, x: str, axes: Sequence[int]) -> str:
        """The mean of `x` over `axes`, which stay as dims of extent 1. Over none it is `x`."""
        if not axes:
            return x
        if self.write.opset < 18:
            return self.node("ReduceMean", x, axes=axes)
        return self.node("ReduceMean", x, self.write.ints(axes, "axes"))

    def reshape(self, x: str, shape: Sequence[int], *, last: bool = False) -> str:
        """`x` in another shape, in which 0 is an extent."""
        allow = 1 if 0 in shape and self.write.opset >= 14 else None
        return self.node("Reshape", x, self.write.ints(shape, "shape"), last=last, allowzero=allow)

    def pad(self, x: str, pads: Sequence[int], *, last: bool) -> str:
        """`x` with zeros before and behind it."""
        if self.write.opset < 11:
            return self.node("Pad", x, last=last, pads=pads)
        return self.node("Pad", x, self.write.ints(pads, "pads"), last=last)

    def scaled(self, x: str, factors: Sequence[str]) -> None:
        """The result of the op: `x` times the first of `factors`, plus the second if there is one."""
        scale, *bias = factors
        x = self.node("Mul", x, scale, last=not bias)
        if bias:
            self.node("Add", x, bias[0], last=True)


def stash_type(x: SSAValue) -> dict[str, int]:
    """The attribute that makes a normalization of double-precision numbers compute in their precision."""
    return {"stash_type": onnx.TensorProto.DOUBLE} if dtype_of(x.type) == "f64" else {}


# --- activations ----------------------------------------------------------------------------------------------------


def write_swish(write: NodeWriter, op: nn.SwishOp) -> None:
    """Writes x * sigmoid(alpha * x)."""
    nodes, x = _Nodes(write, op), write.name_of(op.x)
    inner = x if op.alpha == 1 else nodes.node("Mul", x, write.number(op.alpha, dtype_of(op.x.type), "alpha"))
    nodes.node("Mul", x, nodes.node("Sigmoid", inner), last=True)


def write_celu(write: NodeWriter, op: nn.CeluOp) -> None:
    """Writes max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)."""
    nodes, x, dtype = _Nodes(write, op), write.name_of(op.x), dtype_of(op.x.type)
    alpha, zero, one = (
        write.number(value, dtype, name) for value, name in ((op.alpha, "alpha"), (0.0, "zero"), (1.0, "one"))
    )
    power = nodes.node("Exp", nodes.node("Div", nodes.node("Min", x, zero), alpha))
    below = nodes.node("Mul", nodes.node("Sub", power, one), alpha)
    nodes.node("Add", nodes.node("Relu", x), below, last=True)


# --- windows --------------------------------------------------------------------------------------------------------


def write_longer_conv_transpose(write: NodeWriter, op: nn.ConvTransposeOp) -> None:
    """Writes a ConvTranspose without `output_padding`: as much of the pads at the end is left out as there is, and
    zeros behind the windows are the rest."""
    nodes, rank = _Nodes(write, op), len(op.strides)
    kept = [max(pad - more, 0) for pad, more in zip(op.pads[rank:], op.output_padding, strict=True)]
    zeros = [max(more - pad, 0) for pad, more in zip(op.pads[rank:], op.output_padding, strict=True)]
    x, w, *bias = write.names_of(op.operands)
    inputs = [x, w] if any(zeros) else [x, w, *bias]
    y = nodes.node(
        "ConvTranspose",
        *inputs,
        last=not any(zeros),
        kernel_shape=op.shapes[1][2:],
        strides=op.strides,
        dilations=op.dilations,
        pads=(*op.pads[:rank], *kept),
        group=op.group,
    )
    if not any(zeros):
        return
    y = nodes.pad(y, (*(0,) * (rank + 4), *zeros), last=not bias)
    if bias:
        nodes.node("Add", y, nodes.reshape(bias[0], (op.shapes[2][0], *(1,) * rank)), last=True)


# --- normalizations -------------------------------------------------------------------------------------------------


def normalizes_innermost(op: nn.LayerNormOp | nn.RmsNormOp) -> bool:
    """Whether `op` normalizes over the innermost dims, with a scale and a bias that have just these dims."""
    x, *factors = op.shapes
    axes = sorted(op.axes)
    innermost = bool(axes) and axes == list(range(axes[0], len(x)))
    return innermost and all(_without_units(shape, len(axes)) == x[axes[0] :] for shape in factors)


def _without_units(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """`shape` without the outermost dims of extent 1 that it has more than `rank`."""
    more = max(len(shape) - rank, 0)
    return tuple(shape[more:]) if prod(shape[:more]) == 1 else tuple(shape)


def write_innermost_norm(write: NodeWriter, op: nn.LayerNormOp | nn.RmsNormOp) -> None:
    """Writes the operator, which takes a scale and a bias of the dims that it normalizes over."""
    nodes, extents = _Nodes(write, op), op.shapes[0][min(op.axes) :]
    x, *factors = write.names_of(op.operands)
    factors = [
        name if shape == extents else nodes.reshape(name, extents)
        for name, shape in zip(factors, op.shapes[1:], strict=True)
    ]
    values = {"axis": min(op.axes), "epsilon": op.epsilon} | stash_type(op.x)
    if isinstance(op, nn.LayerNormOp):
        nodes.node("LayerNormalization", x, *factors, last=True, **values)
        return
    scale, *bias = factors
    y = nodes.node("RMSNormalization", x, scale, last=not bias, **values)
    if bias:
        nodes.node("Add", y, bias[0], last=True)


def write_axes_norm(write: NodeWriter, op: nn.LayerNormOp | nn.RmsNormOp) -> None:
    """Writes the definition: x, less its mean for a layer_norm, over the square root of the mean of its squares."""
    nodes, dtype = _Nodes(write, op), dtype_of(op.x.type)
    computes = computed_dtype(dtype)
    x, *factors = write.names_of(op.operands)
    x = nodes.cast(x, dtype, computes)
    if isinstance(op, nn.LayerNormOp):
        x = nodes.node("Sub", x, nodes.mean(x, op.axes))
    variance = nodes.mean(nodes.node("Mul", x, x), op.axes)
    deviation = nodes.node("Sqrt", nodes.node("Add", variance, write.number(op.epsilon, computes, "epsilon")))
    nodes.scaled(nodes.cast(nodes.node("Div", x, deviation), computes, dtype), factors)


def write_group_norm(write: NodeWriter, op: nn.GroupNormOp) -> None:
    """Writes an InstanceNormalization whose channels are the groups, then scale and bias of the real channels."""
    nodes, dtype = _Nodes(write, op), dtype_of(op.x.type)
    shape, groups = op.shapes[0], op.groups
    ones, zeros = (
        write.numbers([value] * groups, dtype, name, (groups,))
        for value, name in ((1.0, "ones"), (0.0, "zeros"))
    )
    grouped = nodes.reshape(write.name_of(op.x), (shape[0], groups, op.group_size * prod(shape[2:])))
    normal = nodes.node("InstanceNormalization", grouped, ones, zeros, epsilon=op.epsilon)
    spatial = (1,) * (len(shape) - 2)
    factors = write.names_of((op.scale, op.bias))
    if spatial:
        factors = [nodes.reshape(name, (shape[1], *spatial)) for name in factors]
    nodes.scaled(nodes.reshape(normal, shape), factors)
