"""Convolutions and products of quantized tensors that the library cannot multiply exactly, as products of integers.

    dequantize(x), dequantize(w) -- conv -- + bias -- relu -- quantize

becomes one node (`packed_integers`), whose kernel makes bytes of its sums while they are in registers. Where there is
no quantization behind it, or something else before that, the sums are written, and elementwise ops make them real.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from layout_ir.backends.onednn.library import Library
from layout_ir.backends.onednn.op_primitives.integer_primitives import is_exact
from layout_ir.backends.onednn.quantized_values import Dequantized, dequantized, erase_unused, quantizing
from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps, elements_of
from layout_ir.backends.onednn.rewrites.packed_integers import (
    Quantized,
    Windows,
    convolved,
    has_integer_kernel,
    multiplied_rows,
)
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, ReshapeOp, dtype_of, is_any
from layout_ir.dialects.nn.integer_products import Requantization
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array

_Product = nn.ConvOp | nn.MatmulOp | nn.GemmOp


def replace_quantized_products(module: ModuleOp, library: Library) -> None:
    """Replaces, in place, where layouts are open, those convolutions and products of quantized tensors that run as ones
    of floats else: weights are constants, x has one scale and zero point, w as many or one per output."""
    for op in list(module.walk()):
        if isinstance(op, _Product) and is_any(op.results[0].type):
            x, w = (dequantized(value) for value in op.operands[:2])
            if x is None or w is None or not x.is_per_tensor:
                continue
            if not is_exact(library, x, w) or _is_slow(library, op):
                found = _integers_of(op, x, w)
                if found is not None:
                    _replaced(op, found)


def _is_slow(library: Library, op: _Product) -> bool:
    """Whether the library, which is exact, has no kernel on integers for these groups of channels, or one that takes
    longer than ours.

    Without VNNI it has those for groups of a multiple of four inputs and outputs, and for depthwise convolutions, where
    Zen 3 took 0.22 ms for 3x3 windows over 64 channels of 56x56, and 0.13 by ours.
    """
    if library.sums_bytes_exactly or not isinstance(op, nn.ConvOp) or op.group == 1:
        return False
    outputs, inputs = shape_of(op.w)[:2]
    return bool(outputs // op.group % 4 or inputs % 4)


@dataclass(frozen=True, slots=True)
class _Integers:
    """What a product of quantized tensors is made of."""

    x: SSAValue
    """The left operand as it is stored."""
    zero_point: int
    weights: Array
    """Less their zero points: (O, C, ...) of a convolution, (K, N) of a product."""
    scale: Array
    """The factors of the sums of each output, f32."""
    addend: SSAValue | None
    """What is added then, real numbers: of as many elements as there are outputs, or of other shapes."""


def _integers_of(op: _Product, x: Dequantized, w: Dequantized) -> _Integers | None:
    """What `op` is made of; None where there is no kernel for it."""
    stored, rank = elements_of(w.stored), len(shape_of(w.stored))
    if stored is None or not stored.size:
        return None
    is_transposed = isinstance(op, nn.GemmOp) and op.trans_b
    dim = 0 if isinstance(op, nn.ConvOp) or is_transposed else rank - 1
    if max(len(w.scale), len(w.zero_point)) > 1 and w.dim != dim:
        return None
    if isinstance(op, nn.ConvOp):
        if rank < 3 or not has_integer_kernel(x.stored, stored, _windows(op)):
            return None
    elif rank != 2 or len(shape_of(x.stored)) < 2 or (isinstance(op, nn.GemmOp) and op.trans_a):
        return None
    shape = [1] * rank
    shape[dim] = -1
    weights = stored.astype(np.int16) - np.asarray(w.zero_point, np.int16).reshape(shape)  # both of 8 bits
    factor, addend = 1.0, None
    if isinstance(op, nn.GemmOp):
        factor, addend = op.alpha, op.c
    elif isinstance(op, nn.ConvOp):
        addend = op.b
    scale = np.broadcast_to(x.scale[0] * np.asarray(w.scale) * factor, stored.shape[dim]).astype(np.float32)
    return _Integers(x.stored, int(x.zero_point[0]), weights.T if is_transposed else weights, scale, addend)


def _replaced(op: _Product, made: _Integers) -> None:
    count, behind = len(made.scale), _quantization_behind(op, made)
    ops = InsertedOps(op if behind is None else behind.quantize)
    addend = made.addend if behind is None else behind.addend
    if isinstance(op, nn.GemmOp) and op.c is not None and addend is op.c and op.beta != 1:
        addend = ops.apply(nn.MulOp, addend, ops.constant(np.asarray(op.beta, np.float32)))
    if behind is not None:
        if addend is None:
            addend = ops.constant(np.zeros(count, np.float32))
        elif shape_of(addend) != (count,):
            addend = ops.insert(ReshapeOp(addend, (count,)))
        quantized = Quantized(behind.made, ops.constant(made.scale), addend)
        ops.replace(_multiplied(ops, op, made, quantized))
        for inner in reversed(behind.between):
            Rewriter.erase_op(inner)
        operands = op.operands[:2]
        Rewriter.erase_op(op)
    else:
        sums = _multiplied(ops, op, made, None)
        real = ops.apply(nn.CastOp, sums, result_type=ops.type_of("f32", shape_of(sums)))
        spatial = [1 for _ in op.strides] if isinstance(op, nn.ConvOp) else []
        y = ops.apply(nn.MulOp, real, ops.constant(made.scale.reshape(-1, *spatial)))
        if addend is not None:
            if spatial:
                addend = ops.insert(ReshapeOp(addend, (count, *spatial)))
            y = ops.apply(nn.AddOp, y, addend)
        operands = op.operands[:2]
        ops.replace(y)
    for value in operands:
        erase_unused(value.owner)


def _multiplied(ops: InsertedOps, op: _Product, made: _Integers, quantized: Quantized | None) -> SSAValue:
    operands = made.x, made.zero_point, made.weights
    if isinstance(op, nn.ConvOp):
        return convolved(ops, *operands, _windows(op), quantized)
    return multiplied_rows(ops, *operands, quantized)


def _windows(op: nn.ConvOp) -> Windows:
    return Windows(op.strides, op.pads, op.dilations, op.group)


@dataclass(frozen=True, slots=True)
class _Behind:
    """A quantization behind an op, and the ops before it, each used by the next alone."""

    addend: SSAValue | None
    """What is added to each row of results."""
    between: Sequence[Operation]
    quantize: ReorderOp
    made: Requantization


def _quantization_behind(op: Operation, made: _Integers) -> _Behind | None:
    """That behind `op`, where there are an addend for each output and bounds at most before it."""
    low, high, between, addend = -inf, inf, list[Operation](), made.addend
    rows = [(len(made.scale),), (1, len(made.scale))]
    if addend is not None and shape_of(addend) not in rows:
        return None
    while len(uses := list(op.results[0].uses)) == 1:
        before, op = op, uses[0].operation
        match op:
            case nn.AddOp() if isinstance(before, nn.MatmulOp) and addend is None:
                addend = op.operands[1 - uses[0].index]
                if shape_of(addend) not in rows:
                    return None
                between.append(op)
                continue
            case nn.ReluOp():
                bounds = 0.0, inf
            case nn.ClipOp():
                bounds = op.min, op.max
            case ReorderOp() if (wanted := quantizing(op)) is not None and is_any(op.result.type):
                scale, zero_point = wanted
                # As primitives do: a division would take as long as all else.
                factor = float(np.float32(1 / scale))
                dtype = dtype_of(op.result.type)
                return _Behind(addend, between, op, Requantization(low, high, factor, int(zero_point), dtype))
            case _:
                return None
        low, high = (min(max(number, bounds[0]), bounds[1]) for number in (low, high))
        between.append(op)
    return None
