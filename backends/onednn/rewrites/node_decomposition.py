"""Opaque ONNX nodes as ops of the program, where the executor has kernels for those and none for the node.

    QuantizeLinear, DequantizeLinear       layout.reorder, which converts; where scales are computed, or of blocks, what
                                           the formula says (`dequantization_by_values`)
    DynamicQuantizeLinear                  reductions, and what they make of each number
    QLinearConv, QLinearMatMul, ...        dequantized operands, the op on floats, its result quantized
    ConvInteger, MatMulInteger             the same with scales of 1, where no sum leaves what f32 counts exactly; a
                                           longer product is the sum of such
    FusedConv, FusedGemm, FusedMatMul      the op, and what ONNX Runtime fused into it
    Einsum                                 transpositions, sums and products (`einsum_decomposition`)
    Mod of integers by constants           what a division leaves
    ScatterND, ScatterElements, MaxUnpool  at constant places slices of the data beside the updates, else updates of
                                           rows, for which there is a loop (`scatter_decomposition`)
    GatherElements, GatherND, Col2Im       gathers and transpositions (`gather_decomposition`)
    OneHot, Hardmax, ReverseSequence, ...  comparisons of indices (`mask_decomposition`)
    LpNormalization, LpPool, ...           powers, sums and roots (`norm_decomposition`)
    MaxPool with indices                   gathers, and where the largest elements are (`pool_decomposition`)
    GridSample                             gathers and a weighed sum (`grid_decomposition`)
    DeformConv                             the same, and a product (`deformed_convolution`)
    RoiAlign                               the same on channels last, for which there is a loop (`region_decomposition`)
    DFT, STFT                              products and convolutions (`fourier_decomposition`)
    MatMulNBits, EmbedLayerNormalization   what ONNX Runtime's tools write (`runtime_decomposition`)
    LSTM, GRU, RNN                         a node per direction (`recurrent_decomposition`)
    DynamicQuantizeLSTM                    products of integers, and a loop over steps (`integer_recurrence`)
    Resize that is cubic or antialiased    products with constant matrices (`resize_decomposition`)
    all that is defined by a function      what the function computes (`function_bodies`)

The ops say what the nodes compute; that integers are multiplied in the end is up to `integer_primitives`. A node that
is used otherwise than described here (parameters that are computed, blocks of their own scales, an unknown activation)
stays opaque.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.rewrites.deformed_convolution import deformed_convolution
from layout_ir.backends.onednn.rewrites.dequantization_by_values import dequantized_by_values
from layout_ir.backends.onednn.rewrites.dynamic_quantization import quantized_by_range
from layout_ir.backends.onednn.rewrites.einsum_decomposition import product_of_terms
from layout_ir.backends.onednn.rewrites.fourier_decomposition import frames_transformed, transformed
from layout_ir.backends.onednn.rewrites.function_bodies import function_body
from layout_ir.backends.onednn.rewrites.gather_decomposition import (
    gathered_elements,
    gathered_slices,
    images_of_patches,
)
from layout_ir.backends.onednn.rewrites.grid_decomposition import sampled
from layout_ir.backends.onednn.rewrites.inserted_ops import elements_of
from layout_ir.backends.onednn.rewrites.integer_recurrence import lstm_of_integers
from layout_ir.backends.onednn.rewrites.mask_decomposition import (
    dropped_out,
    eye_like,
    hard_max,
    one_hot,
    reversed_sequences,
)
from layout_ir.backends.onednn.rewrites.norm_decomposition import (
    normalized_by_norm,
    pooled_by_norm,
    pooled_globally_by_norm,
)
from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported, integers_of
from layout_ir.backends.onednn.rewrites.packed_integers import (
    Windows,
    ZeroPoint,
    convolved,
    has_integer_kernel,
    multiplied_rows,
)
from layout_ir.backends.onednn.rewrites.pool_decomposition import pooled_with_indices
from layout_ir.backends.onednn.rewrites.recurrent_decomposition import split_recurrent
from layout_ir.backends.onednn.rewrites.region_decomposition import pooled_regions
from layout_ir.backends.onednn.rewrites.resize_decomposition import resized
from layout_ir.backends.onednn.rewrites.runtime_decomposition import embedded, product_with_bits
from layout_ir.backends.onednn.rewrites.scatter_decomposition import scattered, scattered_elements, unpooled
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of, tensor_type
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.stand_ins import fused_operand_order

_EXACT = 1 << 24
"""Up to this every integer is an f32."""


def decompose_nodes(module: ModuleOp) -> None:
    """Replaces, in place, the opaque nodes of `module` for which there are ops."""
    left = [op for op in module.walk() if isinstance(op, nn.OpaqueOp)]
    while left:
        op = left.pop()
        if not op.results:
            continue
        ways = [_DECOMPOSITIONS.get(op.title, function_body)]
        if op.domain.data:  # what is used otherwise than it knows may have a function of ours
            ways.append(function_body)
        for decompose in ways:
            node = OpaqueNode(op)
            try:
                found = decompose(node)
                made = found if isinstance(found, list) else [found, *(None for _ in op.results[1:])]
                if not all(map(_replaces, made, op.results)):
                    raise Unsupported
            except (Unsupported, LayoutError, VerifyException):
                node.take_back()
                continue
            node.replace(*made)
            if decompose in (function_body, split_recurrent):  # whose nodes are those of a smaller operator
                left += [inner for inner in node.made if isinstance(inner, nn.OpaqueOp)]
            break


def _replaces(new: SSAValue | None, old: SSAValue) -> bool:
    """Whether uses of `old` can take `new`; None can where there are no uses."""
    if new is None:
        return not list(old.uses)
    return shape_of(new) == shape_of(old) and dtype_of(new.type) == dtype_of(old.type)


# QuantizeLinear, DequantizeLinear -------------------------------------------------------------------------------------


def _quantize(node: OpaqueNode) -> SSAValue:
    x, scale = node.input(0), node.constant_input(1)
    dtype = integers_of(node.op.results[0])
    if node.attribute("block_size", 0) or dtype_of(x.type) not in ("f32", "f16", "bf16"):
        raise Unsupported
    zero = node.constant_input(2)
    return node.converted(x, dtype, (None, scale), (None, zero), _dim_of(node, scale, zero))


def _dequantize(node: OpaqueNode) -> SSAValue:
    sides = [side for side in (node.optional(1), node.optional(2)) if side is not None]
    if node.attribute("block_size", 0) or any(elements_of(side) is None for side in sides):
        return dequantized_by_values(node)
    x, scale = node.input(0), node.constant_input(1)
    integers_of(x)
    result = dtype_of(node.op.results[0].type)
    if result not in ("f32", "f16", "bf16"):
        raise Unsupported
    zero = node.constant_input(2)
    return node.converted(x, result, (scale, None), (zero, None), _dim_of(node, scale, zero))


def _dim_of(node: OpaqueNode, *parameters: Array | None) -> int | None:
    """The dim along which scales or zero points differ; None where there is one of each."""
    are_many = any(each is not None and each.size != 1 for each in parameters)
    return node.axis(1, len(shape_of(node.input(0)))) if are_many else None


# Quantized ops --------------------------------------------------------------------------------------------------------


def _real_bias(node: OpaqueNode, number: int, factor: Array) -> SSAValue | None:
    """The bias of input `number`, integers that `factor` makes real numbers."""
    bias = node.constant_input(number)
    return None if bias is None else node.constant(bias.astype(np.float64) * factor.astype(np.float64))


def _scales(node: OpaqueNode, *numbers: int) -> Array:
    """The product of constant scales."""
    found = [node.constant_input(number) for number in numbers]
    if any(scale is None for scale in found):
        raise Unsupported
    return np.asarray(prod(cast("list[Any]", found)))


def _qlinear_conv(node: OpaqueNode) -> SSAValue:
    w = node.input(3)
    windows = node.windows(node.input(0), shape_of(w)[2:])
    bias = _real_bias(node, 8, _scales(node, 1, 4))
    x = node.dequantized(node.input(0), 1, 2)
    y = node.apply(
        nn.ConvOp, x, node.dequantized(w, 4, 5, 0), bias, group=node.attribute("group", 1), **windows
    )
    return node.quantized(y, 6, 7, integers_of(node.op.results[0]))


def _qlinear_matmul(node: OpaqueNode) -> SSAValue:
    a, b = node.input(0), node.input(3)
    left = node.dequantized(a, 1, 2, max(len(shape_of(a)) - 2, 0))
    right = node.dequantized(b, 4, 5, len(shape_of(b)) - 1)
    return node.quantized(node.apply(nn.MatmulOp, left, right), 6, 7, integers_of(node.op.results[0]))


def _qgemm(node: OpaqueNode) -> SSAValue:
    """a, its scale and zero point, b, the same, c in integers, scale and zero point of the result."""
    flags = {"trans_a": bool(node.attribute("transA", 0)), "trans_b": bool(node.attribute("transB", 0))}
    alpha = node.attribute("alpha", 1.0)
    b = node.input(3)
    columns = 0 if flags["trans_b"] else len(shape_of(b)) - 1
    bias = _real_bias(node, 6, alpha * _scales(node, 1, 4))
    left, right = node.dequantized(node.input(0), 1, 2), node.dequantized(b, 4, 5, columns)
    y = node.apply(nn.GemmOp, left, right, bias, alpha=alpha, **flags)
    return y if node.optional(7) is None else node.quantized(y, 7, 8, integers_of(node.op.results[0]))


def _on_reals(make: Callable[[OpaqueNode, SSAValue], SSAValue]) -> Decomposition:
    """x, its scale and zero point, those of the result; `make` computes on real numbers."""

    def decompose(node: OpaqueNode) -> SSAValue:
        x = node.dequantized(node.input(0), 1, 2)
        return node.quantized(make(node, x), 3, 4, integers_of(node.op.results[0]))

    return decompose


def _global_average(node: OpaqueNode, x: SSAValue) -> SSAValue:
    if node.attribute("channels_last", 0):
        raise Unsupported
    return node.apply(nn.GlobalAvgPoolOp, x)


def _softmax(node: OpaqueNode, x: SSAValue) -> SSAValue:
    rank = len(shape_of(x))
    axis = node.axis(-1, rank)
    if node.attribute("opset", 13) >= 13:
        return node.apply(nn.SoftmaxOp, x, axis=axis)
    if axis != rank - 1:
        raise Unsupported  # over all dims from the axis on
    return node.apply(nn.SoftmaxOp, x, axis=rank - 1)


def _average(node: OpaqueNode, x: SSAValue) -> SSAValue:
    kernel = node.attribute("kernel_shape")
    windows = node.windows(x, kernel)
    flags = {name: bool(node.attribute(name, 0)) for name in ("ceil_mode", "count_include_pad")}
    return node.apply(nn.AvgPoolOp, x, kernel=kernel, **flags, **windows)


def _two_reals(op: type[nn.BinaryOp]) -> Decomposition:
    def decompose(node: OpaqueNode) -> SSAValue:
        a, b = node.dequantized(node.input(0), 1, 2), node.dequantized(node.input(3), 4, 5)
        return node.quantized(node.apply(op, a, b), 6, 7, integers_of(node.op.results[0]))

    return decompose


def _qlinear_concat(node: OpaqueNode) -> SSAValue:
    """Scale and zero point of the result, then each tensor with its own."""
    parts = [node.dequantized(node.input(k), k + 1, k + 2) for k in range(2, len(node.inputs), 3)]
    axis = node.axis(0, len(shape_of(parts[0])))
    return node.quantized(node.apply(nn.ConcatOp, *parts, axis=axis), 0, 1, integers_of(node.op.results[0]))


# Integer products -----------------------------------------------------------------------------------------------------


def _conv_integer(node: OpaqueNode) -> SSAValue:
    w, group = node.input(1), node.attribute("group", 1)
    windows = node.windows(node.input(0), shape_of(w)[2:])
    numbers = _numbers_of_weights(node, 0)
    columns = np.abs(numbers).sum(axis=tuple(range(1, numbers.ndim)))
    is_exact = np.max(columns, initial=0) * 255 < _EXACT
    x, taken = node.input(0), Windows(**windows, group=group)
    if (_is_packed(node) or not is_exact) and has_integer_kernel(x, numbers, taken):
        return convolved(node, x, _zero_point(node), numbers, taken)
    if not is_exact:
        raise Unsupported
    x, weights = _real_operand(node), _real_weights(node, w, 0)
    y = node.apply(nn.ConvOp, x, weights, group=group, **windows)
    return node.converted(y, "i32", (None, None), (None, None))


def _matmul_integer(node: OpaqueNode) -> SSAValue:
    """The product, or the sum of products of as many rows of the weights each as f32 counts exactly."""
    x, w = node.input(0), node.input(1)
    numbers = _numbers_of_weights(node, max(len(shape_of(w)) - 1, 0))
    if numbers.ndim < 2 or not shape_of(x):
        raise Unsupported
    if numbers.ndim == 2 and _is_packed(node):
        return multiplied_rows(node, x, _zero_point(node), numbers)
    parts = _exact_parts(numbers)
    real, shape = _real_operand(node), shape_of(x)
    stored, outputs = node.constant_input(1), numbers.ndim - 1
    assert stored is not None
    total: SSAValue | None = None
    for begin, end in parts:
        rows, weights = real, w
        if len(parts) > 1:
            starts, sizes = (*(0 for _ in shape[1:]), begin), (*shape[:-1], end - begin)
            rows = node.apply(nn.SliceOp, real, starts=starts, sizes=sizes)
            weights = node.constant(stored[..., begin:end, :], dtype_of(w.type))
        product = node.apply(nn.MatmulOp, rows, _real_weights(node, weights, outputs))
        found = node.converted(product, "i32", (None, None), (None, None))
        total = found if total is None else node.apply(nn.AddOp, total, found)
    if total is None:
        raise Unsupported
    return total


def _exact_parts(numbers: Array) -> list[tuple[int, int]]:
    """Ranges of the rows of weights, one behind the other, over which no sum of products with numbers of 8 bits comes
    to 2^24: up to there f32 has every integer."""
    rows = np.abs(numbers).max(axis=tuple(range(numbers.ndim - 2)), initial=0).astype(np.int64) * 255
    parts, begin, sums = list[tuple[int, int]](), 0, np.zeros(rows.shape[-1], np.int64)
    for number, row in enumerate(rows):
        if np.max(sums + row, initial=0) >= _EXACT:
            parts.append((begin, number))
            begin, sums = number, np.zeros_like(sums)
        sums = sums + row
    return [*parts, (begin, len(rows))] if len(rows) else []


def _dynamically_quantized(node: OpaqueNode) -> list[SSAValue | None]:
    return [*quantized_by_range(node, node.input(0))]


def _numbers_of_weights(node: OpaqueNode, outputs: int) -> Array:
    """The second operand of a product of integers, a constant with its outputs along dim `outputs`, less its zero
    points."""
    weights, zero_point = node.constant_input(1), node.constant_input(3)
    given = [side for side in (weights, zero_point) if side is not None]
    if weights is None or any(side.itemsize != 1 for side in given):
        raise Unsupported
    numbers = weights.astype(np.int16)  # the difference of two numbers of 8 bits
    if zero_point is None:
        return numbers
    shape = [1] * numbers.ndim
    if zero_point.size > 1:
        if zero_point.shape[-1:] != (zero_point.size,) or zero_point.size != numbers.shape[outputs]:
            raise Unsupported  # each matrix has its own
        shape[outputs] = zero_point.size
    return numbers - zero_point.astype(np.int16).reshape(shape)


def _real_weights(node: OpaqueNode, weights: SSAValue, outputs: int) -> SSAValue:
    """Weights less the zero points of the second operand."""
    return node.converted(
        weights, "f32", (np.ones((), np.float32), None), (node.constant_input(3), None), outputs
    )


def _is_packed(node: OpaqueNode) -> bool:
    """Whether a product of integers runs by a kernel of ours: whether the library has none for it."""
    zero_point = node.optional(2)
    is_known = zero_point is None or elements_of(zero_point) is not None
    return not (is_known and library().sums_bytes_exactly)


def _zero_point(node: OpaqueNode) -> ZeroPoint:
    """That of the first operand of a product of integers."""
    zero_point = node.optional(2)
    if zero_point is None:
        return 0
    if prod(shape_of(zero_point)) != 1:
        raise Unsupported
    known = elements_of(zero_point)
    return zero_point if known is None else int(known.reshape(()))


def _real_operand(node: OpaqueNode) -> SSAValue:
    """The first operand of a product of integers less its zero point."""
    x, own, one = node.input(0), node.optional(2), np.ones((), np.float32)
    if own is None or elements_of(own) is not None:
        return node.converted(x, "f32", (one, None), (node.constant_input(2), None))
    if prod(shape_of(own)) != 1:
        raise Unsupported
    real = node.converted(x, "f32", (one, None), (None, None))
    return node.apply(nn.SubOp, real, node.converted(own, "f32", (one, None), (None, None)))


# What ONNX Runtime fuses ----------------------------------------------------------------------------------------------


def _activated(node: OpaqueNode, value: SSAValue) -> SSAValue:
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
        raise Unsupported
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


def _fused_conv(node: OpaqueNode) -> SSAValue:
    w = node.input(1)
    windows = node.windows(node.input(0), shape_of(w)[2:])
    y = node.apply(nn.ConvOp, node.input(0), w, node.optional(2), group=node.attribute("group", 1), **windows)
    addend = node.optional(3)
    return _activated(node, y if addend is None else node.apply(nn.AddOp, y, addend))


def _fused_gemm(node: OpaqueNode) -> SSAValue:
    flags = {"trans_a": bool(node.attribute("transA", 0)), "trans_b": bool(node.attribute("transB", 0))}
    numbers = {"alpha": node.attribute("alpha", 1.0), "beta": node.attribute("beta", 1.0)}
    y = node.apply(nn.GemmOp, node.input(0), node.input(1), node.optional(2), **flags, **numbers)
    return _activated(node, y)


def _fused_matmul(node: OpaqueNode) -> SSAValue:
    """alpha * A' * B', whose operands lie with their dims in another order."""
    sides: list[SSAValue] = []
    for number, name in enumerate("AB"):
        value = node.input(number)
        flags = (bool(node.attribute(f"trans{name}", 0)), bool(node.attribute(f"transBatch{name}", 0)))
        order = fused_operand_order(len(shape_of(value)), *flags)
        if list(order) != sorted(order):
            value = node.insert(PermuteOp(value, order))
        sides.append(value)
    product = node.apply(nn.MatmulOp, *sides)
    alpha = node.attribute("alpha", 1.0)
    if alpha == 1:
        return product
    if dtype_of(tensor_type(product)) != "f32":
        raise Unsupported
    return node.apply(nn.MulOp, product, node.constant(np.array(alpha, np.float32)))


# Remainders -----------------------------------------------------------------------------------------------------------


def _remainder(node: OpaqueNode) -> SSAValue:
    """The remainder of integers by constants that are not 0, of the divisor's sign, or with `fmod` of the number's."""
    x, y = node.input(0), node.input(1)
    divisors = node.constant_input(1)
    if divisors is None or dtype_of(y.type) not in ("i32", "i64") or not divisors.all():
        raise Unsupported
    quotient = node.apply(nn.MulOp, node.apply(nn.DivOp, x, y), y)
    rest = node.apply(nn.SubOp, x, quotient)
    if node.attribute("fmod", 0):
        return rest
    zero = node.constant(np.array(0), dtype_of(y.type))
    is_other = node.apply(nn.XorOp, node.apply(nn.LessOp, rest, zero), node.apply(nn.LessOp, y, zero))
    is_rest = node.apply(nn.NotOp, node.apply(nn.EqualOp, rest, zero))
    turned = node.apply(nn.AddOp, rest, y)
    return node.apply(nn.WhereOp, node.apply(nn.AndOp, is_rest, is_other), turned, rest)


Decomposition = Callable[[OpaqueNode], SSAValue | list[SSAValue | None]]
"""The first result of a node, or all of them, None for those that are not used."""

_DECOMPOSITIONS: dict[str, Decomposition] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "com.microsoft::QuantizeLinear": _quantize,
    "com.microsoft::DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamically_quantized,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "ConvInteger": _conv_integer,
    "MatMulInteger": _matmul_integer,
    "com.microsoft::DynamicQuantizeLSTM": lstm_of_integers,
    "com.microsoft::QGemm": _qgemm,
    "com.microsoft::QLinearAdd": _two_reals(nn.AddOp),
    "com.microsoft::QLinearMul": _two_reals(nn.MulOp),
    "com.microsoft::QLinearConcat": _qlinear_concat,
    "com.microsoft::QLinearGlobalAveragePool": _on_reals(_global_average),
    "com.microsoft::QLinearAveragePool": _on_reals(_average),
    "com.microsoft::QLinearSigmoid": _on_reals(lambda node, x: node.apply(nn.SigmoidOp, x)),
    "com.microsoft::QLinearSoftmax": _on_reals(_softmax),
    "com.microsoft::QLinearLeakyRelu": _on_reals(
        lambda node, x: node.apply(nn.LeakyReluOp, x, alpha=node.attribute("alpha", 0.01))
    ),
    "Einsum": product_of_terms,
    "Mod": _remainder,
    "Scatter": scattered_elements,
    "ScatterElements": scattered_elements,
    "ScatterND": scattered,
    "MaxUnpool": unpooled,
    "GatherElements": gathered_elements,
    "GatherND": gathered_slices,
    "GridSample": sampled,
    "OneHot": one_hot,
    "Hardmax": hard_max,
    "EyeLike": eye_like,
    "ReverseSequence": reversed_sequences,
    "Dropout": dropped_out,
    "LpNormalization": normalized_by_norm,
    "MaxPool": pooled_with_indices,
    "LpPool": pooled_by_norm,
    "GlobalLpPool": pooled_globally_by_norm,
    "DFT": transformed,
    "STFT": frames_transformed,
    "Col2Im": images_of_patches,
    "DeformConv": deformed_convolution,
    "RoiAlign": pooled_regions,
    "LSTM": split_recurrent,
    "GRU": split_recurrent,
    "RNN": split_recurrent,
    "Resize": resized,
    "com.microsoft::EmbedLayerNormalization": embedded,
    "com.microsoft::MatMulNBits": product_with_bits,
    "com.microsoft::FusedConv": _fused_conv,
    "com.microsoft::FusedGemm": _fused_gemm,
    "com.microsoft::FusedMatMul": _fused_matmul,
}
"""The function that makes ops of a node, by domain and operator."""
