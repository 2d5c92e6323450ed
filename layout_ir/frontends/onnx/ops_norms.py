"""Normalizations over dims of each sample: layer, RMS, instance and group normalization.

The standard has a group normalization of its own since opset 18 only, so exporters write one as

    Reshape to N, groups, rest;  InstanceNormalization with 1 and 0;  Reshape back;  Mul and Add per channel

which is read as one `nn.group_norm`: `grouped_behind_reshape` when the Reshape back is met, `scaled` and `shifted` when
the Mul and the Add are. Each of these gives the very numbers of the nodes in its place; ops left without users are
dropped at the end of the import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import OpResult

from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReshapeOp
from layout_ir.frontends.onnx.axes import normalize_axes, normalize_axis
from layout_ir.frontends.onnx.constants import Constant
from layout_ir.frontends.onnx.import_error import UnsupportedUse
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.translation import Builder, Translate, Translation
from layout_ir.frontends.onnx.values import Value, dtype_of, shape_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _axes_norm(op: type[nn.LayerNormOp] | type[nn.RmsNormOp]) -> Translate:
    def translate(builder: Builder, node: Node) -> Value:
        x = node.input(0)
        rank = len(shape_of(x))
        axes = range(normalize_axis(node.get("axis", -1), rank), rank)
        return _normalized(builder, node, op, (x, node.input(1), node.optional(2)), tuple(axes), 1e-5)

    return translate


def _normalized(
    builder: Builder, node: Node, op: type[nn.LayerNormOp] | type[nn.RmsNormOp],
    operands: tuple[Value, Value, Value | None], axes: tuple[int, ...], epsilon: float,
) -> Value:  # fmt: skip
    node.get("stash_type", 1)  # halves are computed in single precision anyway
    x, scale, _ = operands
    if dtype_of(x) != dtype_of(scale):
        raise UnsupportedUse(
            f"input and scale have different element types, {dtype_of(x)} and {dtype_of(scale)}, which is not supported"
        )
    return builder.apply(op, *operands, axes=axes, epsilon=node.number("epsilon", epsilon))


def _mean_variance_norm(builder: Builder, node: Node) -> Value:
    """x less its mean, divided by its standard deviation and 1e-9, as ONNX's function for the operator has it."""
    x = node.input(0)
    rank = len(shape_of(x))
    axes = normalize_axes(node.get("axes", (0, 2, 3)), rank)

    def mean(value: Value) -> Value:
        return builder.apply(nn.ReduceMeanOp, value, axes=axes, keepdims=True)

    middle = mean(x)
    square = builder.apply(nn.MulOp, middle, middle)
    variance = builder.apply(nn.SubOp, mean(builder.apply(nn.MulOp, x, x)), square)
    tiny = Constant(np.array(1e-9, dtype_of(x)), f"{node.output}.epsilon")
    deviation = builder.apply(nn.AddOp, builder.apply(nn.SqrtOp, variance), tiny)
    return builder.apply(nn.DivOp, builder.apply(nn.SubOp, x, middle), deviation)


def _skip_norm(op: type[nn.LayerNormOp] | type[nn.RmsNormOp]) -> Translate:
    """A sum of input, skip and perhaps a bias, normalized over the last dim; output 3 is the sum."""
    has_beta = op is nn.LayerNormOp

    def translate(builder: Builder, node: Node) -> list[Value | None]:
        total = builder.apply(nn.AddOp, node.input(0), node.input(1))
        bias = node.optional(4 if has_beta else 3)
        if bias is not None:
            total = builder.apply(nn.AddOp, total, bias)
        beta = node.optional(3) if has_beta else None
        axes = (len(shape_of(total)) - 1,)
        normal = _normalized(builder, node, op, (total, node.input(2), beta), axes, 1e-12)
        return [normal, None, None, total]

    return translate


def _instance_norm(builder: Builder, node: Node) -> Value:
    x = node.input(0)
    shape = shape_of(x)
    groups = shape[1] if len(shape) > 1 else 1
    epsilon = node.number("epsilon", 1e-5)
    return builder.apply(nn.GroupNormOp, x, node.input(1), node.input(2), groups=groups, epsilon=epsilon)


def _group_norm(builder: Builder, node: Node) -> Value:
    x = node.input(0)
    shape, groups = shape_of(x), node.required("num_groups", 0)
    parameters = [node.input(1), node.input(2)]
    node.get("stash_type", 1)
    if node.opset < 21 and groups > 0 and len(shape) > 1 and shape[1] % groups == 0:
        # One scale and bias per group, not per channel.
        for number, value in enumerate(parameters):
            if shape_of(value) != (groups,) or groups == shape[1]:
                continue  # the op says what is wrong, if anything is
            if not isinstance(value, Constant):
                raise UnsupportedUse(f"input {number + 1} is one per group and computed at run time")
            parameters[number] = _repeated(value, shape[1] // groups)
    return builder.apply(nn.GroupNormOp, x, *parameters, groups=groups, epsilon=node.number("epsilon", 1e-5))


def _repeated(value: Constant, times: int) -> Constant:
    return value if times == 1 else Constant(np.repeat(value.array, times), f"{value.name}.channels")


# --- the form that exporters write ----------------------------------------------------------------------------


def _group_norm_of(value: Value) -> nn.GroupNormOp | None:
    return value.op if isinstance(value, OpResult) and isinstance(value.op, nn.GroupNormOp) else None


def _all(builder: Builder, value: Any, number: float) -> bool:
    """Whether an operand is a constant that is `number` everywhere."""
    constant = builder.constant_of(value)
    return constant is not None and bool((constant.array == number).all())


def grouped_behind_reshape(
    builder: Builder, node: Node, value: Value, shape: tuple[int, ...]
) -> Value | None:
    """`value` under `shape` as one group normalization, where it is an instance normalization of groups of channels.

    That is: of a tensor of `shape`, reshaped to one channel per group, with a scale of 1 and a bias of 0. None for all
    else.
    """
    norm = _group_norm_of(value)
    if norm is None or not node.owns(0) or norm.group_size != 1 or len(shape) < 2:
        return None
    flat = norm.x
    if (
        not (isinstance(flat, OpResult) and isinstance(flat.op, ReshapeOp))
        or shape_of(flat.op.input) != shape
    ):
        return None
    groups = norm.groups
    if shape[0] != shape_of(flat)[0] or not groups or shape[1] % groups:
        return None
    if not (_all(builder, norm.scale, 1) and _all(builder, norm.bias, 0)):
        return None
    dtype, name = dtype_of(flat), node.output
    ones, zeros = np.ones(shape[1], dtype), np.zeros(shape[1], dtype)
    return builder.apply(
        nn.GroupNormOp, flat.op.input, Constant(ones, f"{name}.scale"), Constant(zeros, f"{name}.bias"),
        groups=groups, epsilon=norm.epsilon,
    )  # fmt: skip


def with_factors(builder: Builder, node: Node, op: type[nn.BinaryOp]) -> Value | None:
    """A product or sum per channel as part of the group normalization in front of it, whose scale is 1 or bias 0.

    None for all else.
    """
    for number in (0, 1):
        norm, other = _group_norm_of(node.input(number)), node.input(1 - number)
        if norm is None or not node.owns(number) or not isinstance(other, Constant):
            continue
        factors = _per_channel(other.array, shape_of(norm.x))
        if factors is None or not _all(builder, norm.bias, 0):
            continue
        if op is nn.AddOp:
            scale: Any = norm.scale
            bias: Any = Constant(factors, other.name)
        elif op is nn.MulOp and _all(builder, norm.scale, 1):
            scale, bias = Constant(factors, other.name), norm.bias
        else:
            continue
        return builder.apply(nn.GroupNormOp, norm.x, scale, bias, groups=norm.groups, epsilon=norm.epsilon)
    return None


def _per_channel(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any] | None:
    """The vector that `array` is when broadcast to `shape`, one element per channel; None where it is none."""
    aligned = (1,) * (len(shape) - array.ndim) + array.shape
    if len(aligned) != len(shape) or any(e != 1 for d, e in enumerate(aligned) if d != 1):
        return None
    return np.broadcast_to(array.reshape(-1), shape[1:2]) if aligned[1] in (1, shape[1]) else None


_OPS: dict[str, Translate] = {
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    "MeanVarianceNormalization": _mean_variance_norm,
    "LayerNormalization": _axes_norm(nn.LayerNormOp),
    "RMSNormalization": _axes_norm(nn.RmsNormOp),
    # ONNX Runtime writes it into the standard's domain.
    "SimplifiedLayerNormalization": _axes_norm(nn.RmsNormOp),
    "com.microsoft.SkipLayerNormalization": _skip_norm(nn.LayerNormOp),
    "com.microsoft.SkipSimplifiedLayerNormalization": _skip_norm(nn.RmsNormOp),
}

TRANSLATIONS: dict[str, Translation] = {name: Translation(translate) for name, translate in _OPS.items()}
