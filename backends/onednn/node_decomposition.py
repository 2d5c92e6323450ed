"""Opaque ONNX nodes as ops of the program, where the executor has kernels for those and none for the node.

    QuantizeLinear, DequantizeLinear       layout.reorder, which converts
    QLinearConv, QLinearMatMul, ...        dequantized operands, the op on floats, its result quantized
    ConvInteger, MatMulInteger             the same with scales of 1, where no sum leaves what f32 counts exactly
    FusedConv, FusedGemm, FusedMatMul      the op, and what ONNX Runtime fused into it
    Einsum of one or two tensors           transpositions, sums and a product

The ops say what the nodes compute; that integers are multiplied in the end is up to `integer_primitives`. A node that
is used otherwise than described here (parameters that are computed, blocks of their own scales, an unknown activation)
stays opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    NoneAttr,
    TensorType,
    f32,
    f64,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from layout_ir.backends.reference.semantics import literal_array
from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    AnyAttr,
    PermuteOp,
    ReorderOp,
    ReshapeOp,
    attribute_of,
    dtype_of,
    is_any,
    with_format,
)
from layout_ir.dialects.nn.constant import literal
from layout_ir.dialects.nn.tensor_types import shape_of, tensor_type
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError

_INTEGERS = ("i8", "ui8", "i16", "ui16", "i32")
"""Element types of quantized tensors that are converted; floats of 8 bits saturate in ways of their own."""

_EXACT = 1 << 24
"""Up to this every integer is an f32."""


class _Unsupported(Exception):
    """The node is used in a way that stays opaque."""


def decompose_nodes(module: ModuleOp) -> None:
    """Replaces, in place, the opaque nodes of `module` for which there are ops."""
    for op in list(module.walk()):
        decompose = _DECOMPOSITIONS.get(op.title) if isinstance(op, nn.OpaqueOp) else None
        if decompose is None or not isinstance(op, nn.OpaqueOp):
            continue
        node = _Node(op)
        try:
            result = decompose(node)
            if shape_of(result) != shape_of(op.results[0]) or dtype_of(result.type) != dtype_of(
                op.results[0].type
            ):
                raise _Unsupported
        except (_Unsupported, LayoutError, VerifyException):
            node.take_back()
            continue
        if result.type != op.results[0].type:
            result = Rewriter.replace_value_with_new_type(result, op.results[0].type)
        op.results[0].replace_all_uses_with(result)
        Rewriter.erase_op(op)


class _Node:
    """An opaque node whose ops are inserted in front of it."""

    def __init__(self, op: nn.OpaqueOp) -> None:
        self.op = op
        if len(op.results) != 1 or op.captures.data:
            self.inputs: list[SSAValue | None] = []
        else:
            given = iter(op.operands)
            self.inputs = [next(given) if there else None for there in op.given_inputs]
        self._made: list[Operation] = []
        self._builder = Builder(InsertPoint.before(op))
        self._encoding = AnyAttr() if is_any(op.results[0].type) else NoneAttr()

    def take_back(self) -> None:
        """Erases what was inserted."""
        for made in reversed(self._made):
            Rewriter.erase_op(made)

    def attribute(self, name: str, default: Any = None) -> Any:
        """A number, text or list among the attributes of the node."""
        return self.op.node_attribute(name, default)

    def input(self, number: int) -> SSAValue:
        """Input `number`, which the node must have."""
        found = self.optional(number)
        if found is None:
            raise _Unsupported
        return found

    def optional(self, number: int) -> SSAValue | None:
        """Input `number`; None where it is left out."""
        return self.inputs[number] if number < len(self.inputs) else None

    def constant_input(self, number: int) -> Array | None:
        """The elements of input `number`, which must be a constant or left out: None."""
        value = self.optional(number)
        if value is None:
            return None
        found = _elements(value)
        if found is None:
            raise _Unsupported
        return found

    def constant(self, values: Array) -> SSAValue:
        """A constant of f32."""
        type = TensorType(f32, values.shape)
        data = literal(type, np.asarray(values, "<f4").tobytes())
        return self.insert(nn.ConstantOp(data, with_format(type, self._encoding)))

    def apply(self, op: type[nn.NNOp], *operands: SSAValue | None, **attributes: Any) -> SSAValue:
        """The result of an op on those operands that are given."""
        return self.insert(op(*(x for x in operands if x is not None), **attributes))

    def insert(self, op: Operation) -> SSAValue:
        """The one result of `op`, which is inserted."""
        op.location = self.op.location
        result = op.results[0]
        wanted = with_format(result.type, self._encoding)
        if result.type != wanted:
            result = Rewriter.replace_value_with_new_type(result, wanted)
        op.verify_()
        self._builder.insert(op)
        self._made.append(op)
        return result

    # Quantization -----------------------------------------------------------------------------------------------

    def dequantized(self, value: SSAValue, scale: int, zero_point: int, dim: int | None = None) -> SSAValue:
        """The real numbers of `value`, whose scale and zero point are those inputs; one per index of `dim`, or one."""
        scales = self.constant_input(scale)
        if scales is None:
            raise _Unsupported
        return self.converted(value, "f32", (scales, None), (self.constant_input(zero_point), None), dim)

    def quantized(self, value: SSAValue, scale: int, zero_point: int, dtype: str) -> SSAValue:
        """`value` in elements of `dtype`, whose scale and zero point are those inputs."""
        scales = self.constant_input(scale)
        if scales is None or scales.size != 1:
            raise _Unsupported
        return self.converted(value, dtype, (None, scales), (None, self.constant_input(zero_point)))

    def converted(
        self,
        value: SSAValue,
        dtype: str,
        scales: tuple[Array | None, Array | None],
        zero_points: tuple[Array | None, Array | None],
        dim: int | None = None,
    ) -> SSAValue:
        """`value` in elements of `dtype`; scales and zero points are those of `value` and of the result."""
        properties: dict[str, Attribute] = {}
        per_channel = False
        for name, neutral, sides in (("scale", 1.0, scales), ("zero_point", 0.0, zero_points)):
            attributes: list[Attribute] = []
            for side in sides:
                if side is None or side.size == 1:
                    number = neutral if side is None else float(side.reshape(-1)[0])
                    attributes.append(FloatAttr(number, f64))
                elif side.ndim == 1 and dim is not None:
                    per_channel = True
                    attributes.append(DenseArrayBase.from_list(f64, [float(x) for x in side]))
                else:
                    raise _Unsupported
            properties[name] = ArrayAttr(attributes)
        if per_channel:
            assert dim is not None
            properties["dim"] = IntegerAttr(dim, i64)
        type = TensorType(attribute_of(dtype), shape_of(value), self._encoding)
        return self.insert(ReorderOp.create(operands=[value], result_types=[type], properties=properties))


def _elements(value: SSAValue) -> Array | None:
    """The elements of a constant in their shape; None for what is computed."""
    op = value.owner
    if not isinstance(op, nn.ConstantOp):
        return None
    return np.broadcast_to(literal_array(op), shape_of(value))


def _integers(value: SSAValue) -> str:
    """The element type of a quantized tensor."""
    dtype = dtype_of(value.type)
    if dtype not in _INTEGERS:
        raise _Unsupported
    return dtype


# QuantizeLinear, DequantizeLinear -------------------------------------------------------------------------------------


def _quantize(node: _Node) -> SSAValue:
    x, scale = node.input(0), node.constant_input(1)
    dtype = _integers(node.op.results[0])
    if node.attribute("block_size", 0) or dtype_of(x.type) not in ("f32", "f16", "bf16"):
        raise _Unsupported
    dim = node.attribute("axis", 1) % max(len(shape_of(x)), 1)
    return node.converted(x, dtype, (None, scale), (None, node.constant_input(2)), dim)


def _dequantize(node: _Node) -> SSAValue:
    x, scale = node.input(0), node.constant_input(1)
    _integers(x)
    result = dtype_of(node.op.results[0].type)
    if node.attribute("block_size", 0) or result not in ("f32", "f16", "bf16"):
        raise _Unsupported
    dim = node.attribute("axis", 1) % max(len(shape_of(x)), 1)
    return node.converted(x, result, (scale, None), (node.constant_input(2), None), dim)


# Quantized ops --------------------------------------------------------------------------------------------------------


def _windows(node: _Node, rank: int) -> dict[str, Any]:
    """Strides, pads and dilations; pads that are still to be computed are not supported."""
    if node.attribute("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or node.attribute("channels_last", 0):
        raise _Unsupported
    return {
        "strides": node.attribute("strides", (1,) * rank),
        "pads": node.attribute("pads", (0,) * (2 * rank)),
        "dilations": node.attribute("dilations", (1,) * rank),
    }


def _real_bias(node: _Node, number: int, factor: Array) -> SSAValue | None:
    """The bias of input `number`, integers that `factor` makes real numbers."""
    bias = node.constant_input(number)
    return None if bias is None else node.constant(bias.astype(np.float64) * factor.astype(np.float64))


def _scales(node: _Node, *numbers: int) -> Array:
    """The product of constant scales."""
    found = [node.constant_input(number) for number in numbers]
    if any(scale is None for scale in found):
        raise _Unsupported
    return np.asarray(prod(cast("list[Any]", found)))


def _qlinear_conv(node: _Node) -> SSAValue:
    w = node.input(3)
    windows = _windows(node, len(shape_of(w)) - 2)
    bias = _real_bias(node, 8, _scales(node, 1, 4))
    x = node.dequantized(node.input(0), 1, 2)
    y = node.apply(
        nn.ConvOp, x, node.dequantized(w, 4, 5, 0), bias, group=node.attribute("group", 1), **windows
    )
    return node.quantized(y, 6, 7, _integers(node.op.results[0]))


def _qlinear_matmul(node: _Node) -> SSAValue:
    a, b = node.input(0), node.input(3)
    left = node.dequantized(a, 1, 2, max(len(shape_of(a)) - 2, 0))
    right = node.dequantized(b, 4, 5, len(shape_of(b)) - 1)
    return node.quantized(node.apply(nn.MatmulOp, left, right), 6, 7, _integers(node.op.results[0]))


def _qgemm(node: _Node) -> SSAValue:
    """a, its scale and zero point, b, the same, c in integers, scale and zero point of the result."""
    flags = {"trans_a": bool(node.attribute("transA", 0)), "trans_b": bool(node.attribute("transB", 0))}
    alpha = node.attribute("alpha", 1.0)
    b = node.input(3)
    columns = 0 if flags["trans_b"] else len(shape_of(b)) - 1
    bias = _real_bias(node, 6, alpha * _scales(node, 1, 4))
    left, right = node.dequantized(node.input(0), 1, 2), node.dequantized(b, 4, 5, columns)
    y = node.apply(nn.GemmOp, left, right, bias, alpha=alpha, **flags)
    return y if node.optional(7) is None else node.quantized(y, 7, 8, _integers(node.op.results[0]))


def _on_reals(make: Callable[[_Node, SSAValue], SSAValue]) -> Decomposition:
    """x, its scale and zero point, those of the result; `make` computes on real numbers."""

    def decompose(node: _Node) -> SSAValue:
        x = node.dequantized(node.input(0), 1, 2)
        return node.quantized(make(node, x), 3, 4, _integers(node.op.results[0]))

    return decompose


def _global_average(node: _Node, x: SSAValue) -> SSAValue:
    if node.attribute("channels_last", 0):
        raise _Unsupported
    return node.apply(nn.GlobalAvgPoolOp, x)


def _average(node: _Node, x: SSAValue) -> SSAValue:
    kernel = node.attribute("kernel_shape")
    windows = _windows(node, len(kernel))
    flags = {name: bool(node.attribute(name, 0)) for name in ("ceil_mode", "count_include_pad")}
    return node.apply(nn.AvgPoolOp, x, kernel=kernel, **flags, **windows)


def _two_reals(op: type[nn.BinaryOp]) -> Decomposition:
    def decompose(node: _Node) -> SSAValue:
        a, b = node.dequantized(node.input(0), 1, 2), node.dequantized(node.input(3), 4, 5)
        return node.quantized(node.apply(op, a, b), 6, 7, _integers(node.op.results[0]))

    return decompose


def _qlinear_concat(node: _Node) -> SSAValue:
    """Scale and zero point of the result, then each tensor with its own."""
    parts = [node.dequantized(node.input(k), k + 1, k + 2) for k in range(2, len(node.inputs), 3)]
    axis = node.attribute("axis", 0) % len(shape_of(parts[0]))
    return node.quantized(node.apply(nn.ConcatOp, *parts, axis=axis), 0, 1, _integers(node.op.results[0]))


# Integer products -----------------------------------------------------------------------------------------------------


def _conv_integer(node: _Node) -> SSAValue:
    w = node.input(1)
    windows = _windows(node, len(shape_of(w)) - 2)
    x, weights = _exact_operands(node, 0)
    y = node.apply(nn.ConvOp, x, weights, group=node.attribute("group", 1), **windows)
    return node.converted(y, "i32", (None, None), (None, None))


def _matmul_integer(node: _Node) -> SSAValue:
    a, b = _exact_operands(node, max(len(shape_of(node.input(1))) - 1, 0))
    return node.converted(node.apply(nn.MatmulOp, a, b), "i32", (None, None), (None, None))


def _exact_operands(node: _Node, outputs: int) -> tuple[SSAValue, SSAValue]:
    """Both operands of a product of integers, less their zero points; the second a constant with its outputs along dim
    `outputs`, where no sum of absolute products comes to 2^24: up to there f32 has every integer."""
    x, w = node.input(0), node.input(1)
    weights, zero_point = node.constant_input(1), node.constant_input(3)
    if weights is None:
        raise _Unsupported
    numbers = weights.astype(np.int64)
    if zero_point is not None:
        shape = [1] * numbers.ndim
        if zero_point.size > 1:
            shape[outputs] = zero_point.size
        numbers = numbers - zero_point.astype(np.int64).reshape(shape)
    columns = np.abs(numbers).sum(axis=tuple(d for d in range(numbers.ndim) if d != outputs))
    if np.max(columns, initial=0) * 255 >= _EXACT:
        raise _Unsupported
    one = np.ones((), np.float32)
    right = node.converted(w, "f32", (one, None), (zero_point, None), outputs)
    own = node.optional(2)
    if own is None or _elements(own) is not None:
        return node.converted(x, "f32", (one, None), (node.constant_input(2), None)), right
    if prod(shape_of(own)) != 1:
        raise _Unsupported
    real = node.converted(x, "f32", (one, None), (None, None))
    return node.apply(nn.SubOp, real, node.converted(own, "f32", (one, None), (None, None))), right


# What ONNX Runtime fuses ----------------------------------------------------------------------------------------------


def _activated(node: _Node, value: SSAValue) -> SSAValue:
    """What the fused activation makes of `value`."""
    name = node.attribute("activation", "")
    given = node.attribute("activation_params", ())
    numbers = [float(x) for x in given] or [
        float(node.attribute(f"activation_{part}"))
        for part in ("alpha", "beta")
        if node.attribute(f"activation_{part}") is not None
    ]
    if not name:
        return value
    if name not in _ACTIVATIONS:
        raise _Unsupported
    op, fields = _ACTIVATIONS[name]
    return node.apply(op, value, **dict(zip(fields, numbers, strict=False)))


_ACTIVATIONS: dict[str, tuple[type[nn.UnaryOp], tuple[str, ...]]] = {
    "Relu": (nn.ReluOp, ()),
    "Tanh": (nn.TanhOp, ()),
    "Sigmoid": (nn.SigmoidOp, ()),
    "LeakyRelu": (nn.LeakyReluOp, ("alpha",)),
    "Clip": (nn.ClipOp, ("min", "max")),
    "HardSigmoid": (nn.HardSigmoidOp, ("alpha", "beta")),
    "HardSwish": (nn.HardSwishOp, ()),
}


def _fused_conv(node: _Node) -> SSAValue:
    w = node.input(1)
    windows = _windows(node, len(shape_of(w)) - 2)
    y = node.apply(nn.ConvOp, node.input(0), w, node.optional(2), group=node.attribute("group", 1), **windows)
    addend = node.optional(3)
    return _activated(node, y if addend is None else node.apply(nn.AddOp, y, addend))


def _fused_gemm(node: _Node) -> SSAValue:
    flags = {"trans_a": bool(node.attribute("transA", 0)), "trans_b": bool(node.attribute("transB", 0))}
    numbers = {"alpha": node.attribute("alpha", 1.0), "beta": node.attribute("beta", 1.0)}
    y = node.apply(nn.GemmOp, node.input(0), node.input(1), node.optional(2), **flags, **numbers)
    return _activated(node, y)


def _fused_matmul(node: _Node) -> SSAValue:
    """alpha * A' * B': a flag exchanges the last two dims of an operand."""
    if node.attribute("transBatchA", 0) or node.attribute("transBatchB", 0):
        raise _Unsupported
    sides: list[SSAValue] = []
    for number, name in enumerate(("transA", "transB")):
        value = node.input(number)
        rank = len(shape_of(value))
        if node.attribute(name, 0) and rank > 1:
            value = node.insert(PermuteOp(value, (*range(rank - 2), rank - 1, rank - 2)))
        sides.append(value)
    product = node.apply(nn.MatmulOp, *sides)
    alpha = node.attribute("alpha", 1.0)
    if alpha == 1:
        return product
    if dtype_of(tensor_type(product)) != "f32":
        raise _Unsupported
    return node.apply(nn.MulOp, product, node.constant(np.array(alpha, np.float32)))


# Einsum ---------------------------------------------------------------------------------------------------------------


def _einsum(node: _Node) -> SSAValue:
    """A product of matrices, in batches of the dims that both operands and the result have."""
    left, arrow, out = node.attribute("equation").replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or "." in left or len(terms) != len(node.inputs) or len(terms) > 2:
        raise _Unsupported
    if any(len(set(term)) != len(term) for term in (*terms, out)) or not set(out) <= set(left):
        raise _Unsupported
    sides: list[SSAValue] = []
    for number, term in enumerate(terms):
        # What one operand alone has, and the result has not, is summed first.
        others = {name for other in terms if other is not term for name in other} | set(out)
        axes = tuple(d for d, name in enumerate(term) if name not in others)
        value = node.input(number)
        sides.append(value if not axes else node.apply(nn.ReduceSumOp, value, axes=axes, keepdims=False))
        terms[number] = "".join(name for name in term if name in others)
    if len(terms) == 1:
        return _ordered(node, sides[0], terms[0], out)
    first, second = terms
    given = [dict(zip(term, shape_of(side), strict=True)) for term, side in zip(terms, sides, strict=True)]
    extents = given[0] | given[1]
    if any(side[name] != extents[name] for side in given for name in side):
        raise _Unsupported  # an extent of 1 is broadcast
    both = [name for name in first if name in second]
    batch = "".join(name for name in both if name in out)
    summed = "".join(name for name in both if name not in out)
    rows = "".join(name for name in first if name not in second)
    columns = "".join(name for name in second if name not in first)

    def size(names: str) -> int:
        return prod(extents[name] for name in names)

    a = _ordered(node, sides[0], first, batch + rows + summed)
    b = _ordered(node, sides[1], second, batch + summed + columns)
    lead = tuple(extents[name] for name in batch)
    a = node.insert(ReshapeOp(a, (*lead, size(rows), size(summed))))
    b = node.insert(ReshapeOp(b, (*lead, size(summed), size(columns))))
    product = node.apply(nn.MatmulOp, a, b)
    names = batch + rows + columns
    return _ordered(node, node.insert(ReshapeOp(product, [extents[name] for name in names])), names, out)


def _ordered(node: _Node, value: SSAValue, names: str, wanted: str) -> SSAValue:
    """`value`, whose dims have these names, with its dims in another order."""
    return value if names == wanted else node.insert(PermuteOp(value, [names.index(name) for name in wanted]))


Decomposition = Callable[[_Node], SSAValue]

_DECOMPOSITIONS: dict[str, Decomposition] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "com.microsoft::QuantizeLinear": _quantize,
    "com.microsoft::DequantizeLinear": _dequantize,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "ConvInteger": _conv_integer,
    "MatMulInteger": _matmul_integer,
    "com.microsoft::QGemm": _qgemm,
    "com.microsoft::QLinearAdd": _two_reals(nn.AddOp),
    "com.microsoft::QLinearMul": _two_reals(nn.MulOp),
    "com.microsoft::QLinearConcat": _qlinear_concat,
    "com.microsoft::QLinearGlobalAveragePool": _on_reals(_global_average),
    "com.microsoft::QLinearAveragePool": _on_reals(_average),
    "com.microsoft::QLinearSigmoid": _on_reals(lambda node, x: node.apply(nn.SigmoidOp, x)),
    "com.microsoft::QLinearLeakyRelu": _on_reals(
        lambda node, x: node.apply(nn.LeakyReluOp, x, alpha=node.attribute("alpha", 0.01))
    ),
    "Einsum": _einsum,
    "com.microsoft::FusedConv": _fused_conv,
    "com.microsoft::FusedGemm": _fused_gemm,
    "com.microsoft::FusedMatMul": _fused_matmul,
}
"""By domain and operator, the ops for a node."""


def decomposed_nodes() -> Sequence[str]:
    """The titles of the nodes that are replaced, as `OpaqueOp.title` has them."""
    return tuple(_DECOMPOSITIONS)
