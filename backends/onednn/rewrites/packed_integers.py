"""Products of integers by kernels of ours, where the library has none that are exact.

    x (N, C, *spatial), integers of 8 bits       i16 of x less its zero point, padded, its channels last; for a
                                                 depthwise convolution x itself, its channels last
    w, constant integers of 8 bits               packed once, less its zero points
    product                                      i32 of all sums, its channels last

Without the instructions of VNNI the library's kernels add products of bytes in 16 bits, which saturate; zero points
that only the run time knows it does not take either. Both would be products of floats otherwise, of four bytes each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, f32, i64
from xdsl.ir import Attribute, SSAValue

from layout_ir.backends.llvm.loops.depthwise_convolution import has_code
from layout_ir.backends.llvm.loops.integer_convolution import panel_columns
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps
from layout_ir.backends.onednn.rewrites.merged_groups import block_diagonal
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp, dtype_of
from layout_ir.dialects.nn.depthwise_products import DEPTHWISE_INTEGER_CONV, DepthwiseIntegerConv
from layout_ir.dialects.nn.integer_products import PACKED_INTEGER_CONV, PackedIntegerConv, Requantization
from layout_ir.dialects.nn.opaque import domain_and_operator
from layout_ir.dialects.nn.tensor_types import Shape, shape_of
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError


@dataclass(frozen=True, slots=True)
class Quantized:
    """Integers of 8 bits that are made of sums, with a scale and an addend, f32 (columns), for each column."""

    made: Requantization
    scale: SSAValue
    addend: SSAValue


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a convolution, as its op has them, and its groups."""

    strides: Shape
    pads: Shape
    dilations: Shape
    group: int


ZeroPoint = SSAValue | int
"""The zero point of all elements of a tensor: known, or a tensor of one element."""


def multiplied_rows(
    ops: InsertedOps, x: SSAValue, zero_point: ZeroPoint, weights: Array, quantized: Quantized | None = None
) -> SSAValue:
    """The product of x, integers of 8 bits (..., K), and weights (K, N): its sums in i32, or what is made of them."""
    shape = shape_of(x)
    rows = ops.insert(ReshapeOp(_shifted(ops, x, zero_point), (prod(shape[:-1]), shape[-1])))
    found = _packed_conv(ops, rows, weights.T, Windows((), (), (), 1), quantized)
    return ops.insert(ReshapeOp(found, (*shape[:-1], weights.shape[1])))


def has_integer_kernel(x: SSAValue, weights: Array, windows: Windows) -> bool:
    """Whether `convolved` knows a kernel for that convolution."""
    if not _is_depthwise(weights, windows):
        return True
    shape = shape_of(x)
    return has_code(_depthwise(weights, windows, None), (shape[0], *shape[2:], shape[1]))


def convolved(
    ops: InsertedOps, x: SSAValue, zero_point: ZeroPoint, weights: Array, windows: Windows,
    quantized: Quantized | None = None,
) -> SSAValue:  # fmt: skip
    """The convolution of x, integers of 8 bits (N, C, ...), and weights (O, C / group, ...), which has a kernel: its
    sums in i32, or what is made of them."""
    rank, pads = len(windows.strides), windows.pads
    to_last, from_last = (0, *range(2, rank + 2), 1), (0, rank + 1, *range(1, rank + 1))
    if not _is_depthwise(weights, windows):
        around = (0, 0, *pads[:rank], 0, 0, *pads[rank:])
        # Bytes are padded in half the memory, where it is known what with.
        is_known = isinstance(zero_point, int)
        if any(pads) and is_known:
            x = ops.apply(nn.PadOp, x, pads=around, value=float(zero_point))
        x = _shifted(ops, x, zero_point)
        if any(pads) and not is_known:
            x = ops.apply(nn.PadOp, x, pads=around)
        last = ops.insert(PermuteOp(x, to_last))
        found = _packed_conv(ops, last, weights, windows, quantized)
    else:
        conv = _depthwise(weights, windows, quantized)
        point = _constant(ops, zero_point, dtype_of(x.type))
        if shape_of(point):
            point = ops.insert(ReshapeOp(point, ()))
        inputs = [ops.insert(PermuteOp(x, to_last)), point]
        found = _node(ops, DEPTHWISE_INTEGER_CONV, conv, inputs, weights[:, 0], quantized)
    return ops.insert(PermuteOp(found, from_last))


def _is_depthwise(weights: Array, windows: Windows) -> bool:
    """Whether each channel has one window of its own."""
    return windows.group == len(weights) > 1 == weights.shape[1]


def _depthwise(weights: Array, windows: Windows, quantized: Quantized | None) -> DepthwiseIntegerConv:
    made = None if quantized is None else quantized.made
    return DepthwiseIntegerConv(weights.shape[2:], windows.strides, windows.dilations, windows.pads, made)


def _constant(ops: InsertedOps, zero_point: ZeroPoint, dtype: str) -> SSAValue:
    return zero_point if isinstance(zero_point, SSAValue) else ops.constant(np.asarray(zero_point), dtype)


def _shifted(ops: InsertedOps, x: SSAValue, zero_point: ZeroPoint) -> SSAValue:
    """Integers of 8 bits, as i16, less their zero point."""

    def widened(value: SSAValue) -> SSAValue:
        if dtype_of(value.type) == "i16":
            return value
        return ops.apply(nn.CastOp, value, result_type=ops.type_of("i16", shape_of(value)))

    wide = widened(x)
    if zero_point == 0:
        return wide
    return ops.apply(nn.SubOp, wide, widened(_constant(ops, zero_point, "i16")))


def _packed_conv(
    ops: InsertedOps, x: SSAValue, weights: Array, windows: Windows, quantized: Quantized | None
) -> SSAValue:
    """The node on x, i16, its channels last and its borders padded, and weights (O, C / group, *kernel)."""
    made = None if quantized is None else quantized.made
    panel, group = panel_columns(host()), windows.group
    # Several narrow groups become one, with zeros between them, until their outputs fill a vector.
    each, wanted = len(weights) // group, panel // 2
    count = next(n for n in range(1, group + 1) if group % n == 0 and (n * each >= wanted or n == group))
    if count > 1:
        weights = block_diagonal(weights, group, count)
    kernel = weights.shape[2:]
    conv = PackedIntegerConv(
        kernel, windows.strides, windows.dilations, len(weights), panel, group // count, made
    )
    return _node(ops, PACKED_INTEGER_CONV, conv, [x], np.moveaxis(weights, 1, -1), quantized)


def _node(
    ops: InsertedOps,
    title: str,
    conv: PackedIntegerConv | DepthwiseIntegerConv,
    inputs: list[SSAValue],
    weights: Array,
    quantized: Quantized | None,
) -> SSAValue:
    """The result of the node of that title on `inputs`, of which the first is the source. Raises LayoutError where the
    weights are no integers of 16 bits."""
    try:
        packed = conv.packed(weights)
    except ValueError as error:
        raise LayoutError(str(error)) from error
    domain, operator = domain_and_operator(title)
    columns = [] if quantized is None else [quantized.scale, quantized.addend]
    node = nn.OpaqueOp.of_node(
        operator,
        domain,
        {"": 21, domain: 1},
        [*inputs, ops.constant(packed, "i8" if packed.itemsize == 1 else "i16"), *columns],
        {},
        {name: _attribute(given) for name, given in conv.attributes().items()},
        [
            ops.type_of(
                "i32" if quantized is None else quantized.made.dtype, conv.result_shape(shape_of(inputs[0]))
            )
        ],
    )
    return ops.insert(node)


def _attribute(given: float | str | Shape) -> Attribute:
    match given:
        case str():
            return StringAttr(given)
        case int():
            return IntegerAttr(given, i64)
        case float():
            return FloatAttr(given, f32)
        case _:
            return DenseArrayBase.from_list(i64, given)
