"""Elementwise ops of ONNX as those of `nn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType

from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr
from layout_ir.elements.elementwise_formulas import broadcast
from layout_ir.frontends.onnx.constants import Constant
from layout_ir.frontends.onnx.folding import cast_array, cast_cost
from layout_ir.frontends.onnx.import_error import OnnxImportError, quoted
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.ops_norms import with_factors
from layout_ir.frontends.onnx.tensor_protos import numpy_type
from layout_ir.frontends.onnx.translation import Builder, Translate, Translation
from layout_ir.frontends.onnx.values import Value, dtype_of, element_of, shape_of


def _unary(op: type[nn.UnaryOp]) -> Translate:
    """An op whose attributes have the same names and defaults on both sides."""

    def translate(builder: Builder, node: Node) -> Value:
        attributes = {
            name: (node.get if field.choices else node.number)(name, field.default)
            for name, field in op.__fields__.items()
        }
        return builder.apply(op, node.input(0), **attributes)

    return translate


def _binary(op: type[nn.BinaryOp]) -> Translate:
    def translate(builder: Builder, node: Node) -> Value:
        merged = with_factors(builder, node, op)
        return builder.apply(op, node.input(0), node.input(1)) if merged is None else merged

    return translate


def _chain(builder: Builder, op: type[nn.BinaryOp], values: Sequence[Value]) -> Value:
    if not values:
        raise OnnxImportError("the node has no inputs, expected 1 or more")
    result = values[0]
    for value in values[1:]:
        result = builder.apply(op, result, value)
    return result


def _variadic(op: type[nn.BinaryOp]) -> Translate:
    """A binary op applied from left to right to any number of inputs."""

    def translate(builder: Builder, node: Node) -> Value:
        return _chain(builder, op, node.inputs)

    return translate


def _mean(builder: Builder, node: Node) -> Value:
    total = _chain(builder, nn.AddOp, node.inputs)
    count = Constant(np.array(len(node.inputs), dtype_of(total)), f"{node.output}.count")
    return builder.apply(nn.DivOp, total, count)


def convert(builder: Builder, node: Node, value: Value, dtype: np.dtype[Any]) -> Value:
    """`value` with another element type."""
    if dtype_of(value) == dtype:
        return value
    if isinstance(value, Constant) and node.affords(*cast_cost(value.array, dtype)):
        return Constant(cast_array(value.array, dtype), value.name)
    element = element_of(dtype, "the result")
    return builder.apply(nn.CastOp, value, result_type=TensorType(element, shape_of(value), AnyAttr()))


def _cast(builder: Builder, node: Node) -> Value:
    node.get("saturate", 1)  # has a meaning for 8 bit floats only, which are not supported
    node.get("round_mode", "up")
    return convert(builder, node, node.input(0), numpy_type(node.required("to", 0), "the result"))


def _cast_like(builder: Builder, node: Node) -> Value:
    node.get("saturate", 1)
    node.get("round_mode", "up")
    return convert(builder, node, node.input(0), dtype_of(node.input(1)))


def _pow(builder: Builder, node: Node) -> Value:
    """The exponent may have another type; the result has that of the base."""
    base, exponent = node.input(0), node.input(1)
    dtype = dtype_of(base)
    if dtype.kind in "iu" and dtype_of(exponent).kind not in "iu":
        power = builder.apply(nn.PowOp, convert(builder, node, base, dtype_of(exponent)), exponent)
        return convert(builder, node, power, dtype)
    return builder.apply(nn.PowOp, base, convert(builder, node, exponent, dtype))


def _prelu(builder: Builder, node: Node) -> Value:
    """The slope is broadcast to x, as the standard says; as ONNX Runtime takes it, x to the slope as well."""
    x, slope = node.input(0), node.input(1)
    shape = broadcast(shape_of(x), shape_of(slope))
    if shape != shape_of(x):
        x = builder.apply(nn.ExpandOp, x, shape=shape)
    return builder.apply(nn.PReluOp, x, slope)


def _clip(builder: Builder, node: Node) -> Value:
    x = node.input(0)
    if node.opset < 11:
        low, high = node.get("min", -np.inf), node.get("max", np.inf)
        return builder.apply(nn.ClipOp, x, min=low, max=high)
    bounds = node.optional(1), node.optional(2)
    if all(bound is None or isinstance(bound, Constant) for bound in bounds):
        low, high = (_scalar(bound) if isinstance(bound, Constant) else None for bound in bounds)
        return builder.apply(nn.ClipOp, x, min=low, max=high)
    for bound, op in zip(bounds, (nn.MaxOp, nn.MinOp), strict=True):
        x = x if bound is None else builder.apply(op, x, bound)
    return x


def _scalar(constant: Constant) -> float:
    if constant.array.size != 1:
        raise OnnxImportError(
            f"bound {quoted(constant.name)} has shape {constant.array.shape}, expected a scalar"
        )
    return float(constant.array.reshape(()))


def _where(builder: Builder, node: Node) -> Value:
    return builder.apply(nn.WhereOp, node.input(0), node.input(1), node.input(2))


def _gelu(approximate: str) -> Translate:
    """ONNX Runtime's own: of x, or of the sum of x and a bias."""

    def translate(builder: Builder, node: Node) -> Value:
        x, bias = node.input(0), node.optional(1)
        x = x if bias is None else builder.apply(nn.AddOp, x, bias)
        return builder.apply(nn.GeluOp, x, approximate=approximate)

    return translate


def _quick_gelu(builder: Builder, node: Node) -> Value:
    return builder.apply(nn.SwishOp, node.input(0), alpha=node.number("alpha", 1.702))


_OPS: dict[str, Translate] = {
    # The dialect has ONNX's names: `nn.AbsOp` is Abs.
    **{op.__name__[:-2]: _unary(op) for op in nn.NN.operations if issubclass(op, nn.UnaryOp)},
    **{op.__name__[:-2]: _binary(op) for op in nn.NN.operations if issubclass(op, nn.BinaryOp)},
    "Cast": _cast,
    "CastLike": _cast_like,
    "Clip": _clip,
    "Max": _variadic(nn.MaxOp),
    "Mean": _mean,
    "Min": _variadic(nn.MinOp),
    "PRelu": _prelu,
    "Pow": _pow,
    "Sum": _variadic(nn.AddOp),
    "Where": _where,
    "com.microsoft.BiasGelu": _gelu("none"),
    "com.microsoft.FastGelu": _gelu("tanh"),
    "com.microsoft.Gelu": _gelu("none"),
    "com.microsoft.QuickGelu": _quick_gelu,
}

TRANSLATIONS: dict[str, Translation] = {name: Translation(translate) for name, translate in _OPS.items()}
