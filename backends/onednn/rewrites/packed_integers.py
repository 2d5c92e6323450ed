"""Products of integers by kernels of ours, where the library has none that are exact.

    x (N, C, *spatial), integers of 8 bits       i16 of x less its zero point, padded, its channels last
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

from layout_ir.backends.llvm.loops.integer_convolution import panel_columns
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp, dtype_of
from layout_ir.dialects.nn.integer_products import PACKED_INTEGER_CONV, PackedIntegerConv, Requantization
from layout_ir.dialects.nn.tensor_types import Shape, shape_of
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError


@dataclass(frozen=True, slots=True)
class Quantized:
    """Integers of 8 bits that are made of sums, with a scale and an addend, f32 (columns), for each column."""

    made: Requantization
    scale: SSAValue
    addend: SSAValue


def shifted(ops: InsertedOps, x: SSAValue, zero_point: SSAValue | None) -> SSAValue:
    """Integers of 8 bits, as i16, less a zero point of any of these types."""

    def widened(value: SSAValue) -> SSAValue:
        if dtype_of(value.type) == "i16":
            return value
        return ops.apply(nn.CastOp, value, result_type=ops.type_of("i16", shape_of(value)))

    wide = widened(x)
    return wide if zero_point is None else ops.apply(nn.SubOp, wide, widened(zero_point))


def multiplied_rows(
    ops: InsertedOps, x: SSAValue, weights: Array, quantized: Quantized | None = None
) -> SSAValue:
    """The product of x, i16 (..., K), and weights (K, N): its sums in i32, or what is made of them."""
    shape = shape_of(x)
    rows = ops.insert(ReshapeOp(x, (prod(shape[:-1]), shape[-1])))
    found = _packed_conv(ops, rows, weights.T, (), (), quantized)
    return ops.insert(ReshapeOp(found, (*shape[:-1], weights.shape[1])))


def convolved(
    ops: InsertedOps, x: SSAValue, weights: Array, strides: Shape, pads: Shape, dilations: Shape,
    quantized: Quantized | None = None,
) -> SSAValue:  # fmt: skip
    """The convolution of x, i16 (N, C, ...), and weights (O, C, ...): its sums in i32, or what is made of them."""
    rank = len(strides)
    if any(pads):
        x = ops.apply(nn.PadOp, x, pads=(0, 0, *pads[:rank], 0, 0, *pads[rank:]))
    last = ops.insert(PermuteOp(x, (0, *range(2, rank + 2), 1)))
    found = _packed_conv(ops, last, np.moveaxis(weights, 1, -1), strides, dilations, quantized)
    return ops.insert(PermuteOp(found, (0, rank + 1, *range(1, rank + 1))))


def _packed_conv(
    ops: InsertedOps,
    x: SSAValue,
    weights: Array,
    strides: Shape,
    dilations: Shape,
    quantized: Quantized | None,
) -> SSAValue:
    """The node on x, its channels last, and weights (columns, *kernel, C). Raises LayoutError where these are no
    integers of 16 bits."""
    made = None if quantized is None else quantized.made
    conv = PackedIntegerConv(
        weights.shape[1:-1], strides, dilations, len(weights), panel_columns(host()), made
    )
    try:
        packed = conv.packed(weights)
    except ValueError as error:
        raise LayoutError(str(error)) from error
    domain, _, operator = PACKED_INTEGER_CONV.partition("::")
    columns = [] if quantized is None else [quantized.scale, quantized.addend]
    node = nn.OpaqueOp.of_node(
        operator,
        domain,
        {"": 21, domain: 1},
        [x, ops.constant(packed, "i8" if packed.itemsize == 1 else "i16"), *columns],
        {},
        {name: _attribute(given) for name, given in conv.attributes().items()},
        [ops.type_of("i32" if made is None else made.dtype, conv.result_shape(shape_of(x)))],
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
