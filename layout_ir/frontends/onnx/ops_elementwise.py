"""Elementwise ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType

from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr
from layout_ir.frontends.onnx.builder import Builder
from layout_ir.frontends.onnx.errors import OnnxImportError, quoted
from layout_ir.frontends.onnx.folding import cast_array, cast_cost
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.tensors import numpy_type
from layout_ir.frontends.onnx.translation import Translate, Translation
from layout_ir.frontends.onnx.values import Constant, Value, dtype_of, element_of, shape_of


def _unary(op: type[nn.UnaryOp], **defaults: float) -> Translate:
    """An op with the same numeric attributes on both sides, and ONNX's `defaults` for them."""

    def translate(builder: Builder, node: Node) -> Value:
        attributes = {name: node.number(name, default) for name, default in defaults.items()}
        return builder.apply(op, node.input(0), **attributes)

    return translate


def _binary(op: type[nn.BinaryOp]) -> Translate:
    def translate(builder: Builder, node: Node) -> Value:
        return builder.apply(op, node.input(0), node.input(1))

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


def _gelu(builder: Builder, node: Node) -> Value:
    return builder.apply(nn.GeluOp, node.input(0), approximate=node.get("approximate", "none"))


_OPS: dict[str, Translate] = {
    "Abs": _unary(nn.AbsOp),
    "Add": _binary(nn.AddOp),
    "Cast": _cast,
    "CastLike": _cast_like,
    "Ceil": _unary(nn.CeilOp),
    "Clip": _clip,
    "Div": _binary(nn.DivOp),
    "Elu": _unary(nn.EluOp, alpha=1.0),
    "Erf": _unary(nn.ErfOp),
    "Exp": _unary(nn.ExpOp),
    "Floor": _unary(nn.FloorOp),
    "Gelu": _gelu,
    "HardSigmoid": _unary(nn.HardSigmoidOp, alpha=0.2, beta=0.5),
    "HardSwish": _unary(nn.HardSwishOp),
    "LeakyRelu": _unary(nn.LeakyReluOp, alpha=0.01),
    "Log": _unary(nn.LogOp),
    "Max": _variadic(nn.MaxOp),
    "Mean": _mean,
    "Min": _variadic(nn.MinOp),
    "Mul": _binary(nn.MulOp),
    "Neg": _unary(nn.NegOp),
    "Pow": _pow,
    "Reciprocal": _unary(nn.ReciprocalOp),
    "Relu": _unary(nn.ReluOp),
    "Sigmoid": _unary(nn.SigmoidOp),
    "Softplus": _unary(nn.SoftplusOp),
    "Sqrt": _unary(nn.SqrtOp),
    "Sub": _binary(nn.SubOp),
    "Sum": _variadic(nn.AddOp),
    "Tanh": _unary(nn.TanhOp),
}

TRANSLATIONS: dict[str, Translation] = {name: Translation(translate) for name, translate in _OPS.items()}
