"""Products of matrices: batches are rows where that is one product, results with dense columns are products of the
transposes in turn, addends a bias or a post-op."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.machine.machine import LINE
from layout_ir.backends.onednn import memory_descriptors as descriptors
from layout_ir.backends.onednn.library import Refused
from layout_ir.backends.onednn.memory_descriptors import MemoryDescriptor
from layout_ir.backends.onednn.op_primitives.few_row_products import inner_product
from layout_ir.backends.onednn.op_primitives.primitive_operands import (
    FLOATS,
    Candidates,
    Operand,
    OpPrimitive,
    Values,
    lie_alike,
)
from layout_ir.backends.onednn.primitives import (
    POST_OP_STEP,
    Algorithm,
    Argument,
    BinaryPostOp,
    EltwisePostOp,
    PostOp,
    PrimitiveDescriptor,
    Request,
)
from layout_ir.dialects import nn
from layout_ir.elements.numpy_types import Array


def matmul(op: nn.MatmulOp, values: Values) -> Candidates:
    """All batches as rows of one product where the right operand is one matrix; else batch by batch."""
    left, right = values.layout(op.a).shape, values.layout(op.b).shape
    result = values.layout(op.result).shape
    k = left[-1]
    columns = right[-1] if len(right) > 1 else 1
    if len(right) <= 2:
        rows = prod(left[:-1])
        with suppress(Refused):
            yield _product(op, values, (rows, k), (k, columns), (rows, columns))
        for kept in range(1, len(left) - 2):
            # As many dims as rows as lie one behind the other: with AVX-512 (Zen 4), 8x56x56x16 stored channels first
            # by 16x64, with a bias and GELU, took 1.6 ms as 448 products and 1.1 as 8.
            lead, rows = left[:kept], prod(left[kept:-1])
            ones = (1,) * kept
            with suppress(Refused):
                yield _product(op, values, (*lead, rows, k), (*ones, k, columns), (*lead, rows, columns))
    rows = left[-2] if len(left) > 1 else 1
    batches = result[: len(result) - (len(left) > 1) - (len(right) > 1)]
    lead = (1,) * (len(batches) - max(len(left) - 2, 0)) + left[:-2]
    trail = (1,) * (len(batches) - max(len(right) - 2, 0)) + right[:-2]
    extents = (*lead, rows, k), (*trail, k, columns), (*batches, rows, columns)
    yield _product(op, values, *extents)
    yield _transposed_product(op, values, *extents)


def _product(
    op: nn.MatmulOp, values: Values, left: tuple[int, ...], right: tuple[int, ...], result: tuple[int, ...]
) -> OpPrimitive:
    """The product of operands seen as these extents."""
    a, a_wanted = values.operand(op.a, left)
    b, b_wanted = values.operand(op.b, right, chosen=True)
    y = values.descriptor(op.result, result, writes=True)
    operands: dict[int, Operand] = {Argument.SRC: a, Argument.WEIGHTS: b}
    request = Request("matmul", (a_wanted, b_wanted, None, y))
    return _laid_out(OpPrimitive(request, operands, y, result), op.b, values)


def _transposed_product(
    op: nn.MatmulOp, values: Values, left: tuple[int, ...], right: tuple[int, ...], result: tuple[int, ...]
) -> OpPrimitive:
    """The same for a result whose columns are dense: its transpose is the product of the transposes, in turn."""
    a, a_wanted = _transposed_operand(values, op.a, left, chosen=True)
    b, b_wanted = _transposed_operand(values, op.b, right, chosen=False)
    y = _transposed(values.descriptor(op.result, result, writes=True))
    operands: dict[int, Operand] = {Argument.SRC: b, Argument.WEIGHTS: a}
    # Without extents no constant is broadcast to it as a post-op: its dims are other ones.
    request = Request("matmul", (b_wanted, a_wanted, None, y))
    return _laid_out(OpPrimitive(request, operands, y, ()), op.a, values)


def _transposed_operand(
    values: Values, value: SSAValue, shape: tuple[int, ...], *, chosen: bool
) -> tuple[Operand, MemoryDescriptor]:
    constant = values.constant(value)
    if constant is not None:
        turned = constant.reshape(shape).swapaxes(-1, -2)
        return values.packed(turned, chosen=chosen, dtype=values.dtype(value))
    descriptor = _transposed(values.descriptor(value, shape))
    return Operand(value, descriptor), descriptor


def gemm(op: nn.GemmOp, values: Values) -> Candidates:
    """A' * B' with C as bias or post-op; K may run in any order in which the left operand happens to lie, if the right
    one is a constant, whose rows are packed in the same order."""
    m, n = values.layout(op.result).shape
    right = values.constant(op.b)
    # Of integers, the scales have it.
    alpha = op.alpha if values.dtype(op.b) in FLOATS else 1.0
    order: Array | None = None
    try:
        x = _transposed(values.descriptor(op.a)) if op.trans_a else values.descriptor(op.a)
    except Refused:
        order = None if op.trans_a or right is None else _dense_rows(values.layout(op.a))
        if order is None:
            raise
        x = descriptors.row_major(values.library, (m, len(order)), values.dtype(op.a))
    if right is not None:
        matrix = right.T if op.trans_b else right
        matrix, alpha = (matrix, alpha) if alpha == 1 else (matrix * np.float32(alpha), 1.0)
        weights, wanted = values.packed(matrix, chosen=True, dtype=values.dtype(op.b))
        weights = weights if order is None else replace(weights, order=(0, order))
    else:
        plain = values.descriptor(op.b)
        wanted = _transposed(plain) if op.trans_b else plain
        weights = Operand(op.b, wanted)
    operands: dict[int, Operand] = {Argument.SRC: Operand(op.a, x), Argument.WEIGHTS: weights}
    y = values.descriptor(op.result, writes=True)
    bias, post_ops = _addend(op, values, alpha, operands, y)
    request = Request("matmul", (x, wanted, bias, y))
    yield _laid_out(OpPrimitive(request, operands, y, (m, n), post_ops), op.b, values)


def transposed_gemm(op: nn.GemmOp, values: Values) -> Candidates:
    """The same for a result whose columns are dense: its transpose is the product of the transposes, in turn."""
    shape = values.layout(op.result).shape
    a, a_wanted = _turned(values, op.a, chosen=True, turned=not op.trans_a)
    b, b_wanted = _turned(values, op.b, chosen=False, turned=not op.trans_b)
    y = _transposed(values.descriptor(op.result, shape, writes=True))
    operands: dict[int, Operand] = {Argument.SRC: b, Argument.WEIGHTS: a}
    post_ops = _linear(op.alpha)
    if op.c is not None and op.beta != 0:
        # alpha * AB + beta * C = beta * (alpha / beta * AB + C)
        first = _linear(op.alpha / op.beta)
        operand, other = _transposed_addend(op, op.c, values, y)
        operands[Argument.SRC_OF_POST_OP + POST_OP_STEP * len(first)] = operand
        post_ops = (*first, BinaryPostOp(Algorithm.ADD, other), *_linear(op.beta))
    request = Request("matmul", (b_wanted, a_wanted, None, y))
    yield _laid_out(OpPrimitive(request, operands, y, (), post_ops), op.a, values)


def _laid_out(primitive: OpPrimitive, right: SSAValue, values: Values) -> OpPrimitive:
    """The product with a constant right operand, the value `right` of the program, as it is read fastest: packed where
    there are few rows, and else with its rows apart. All products by one constant read it from one place."""
    rows = {primitive.request.arguments[0].blocking().dims[-2], *values.rows_of_products(right)}
    return inner_product(primitive, rows, values) or _with_rows_apart(primitive, max(rows), values)


_FEWEST_ROWS = 8
"""Rows of a product from which on the distance of the rows of its right operand tells."""

_NEAR, _APART = 256, LINE // 4
"""Where rows of a constant matrix are multiples of so many elements, how many are left out behind each.

The library's `gemm` reads some columns of many rows at a time, as they lie, and rows that are that far apart fall into
few sets of the cache. With AVX2 (Zen 3), f32, milliseconds per product with rows side by side and apart: 40x1024 by
1024x1024 1.8 and 1.0, 128x768 by 768x3072 11.6 and 7.0, 128x512 by 512x512 0.99 and 0.76, 256x3072 by 3072x768 15.1 and
13.8, and 384x1024 by 1024x1024, which it packs itself, 10.9 and 10.5.
"""


def _with_rows_apart(primitive: OpPrimitive, rows: int, values: Values) -> OpPrimitive:
    """The product with the rows of a constant right operand apart, where the library reads them as they lie and a
    product by it has so many `rows`."""
    weights, request = primitive.operands[Argument.WEIGHTS], primitive.request
    left, wanted, *others = request.arguments
    if weights.constant is None or weights.descriptor is not None or wanted.made_from[1] != "f32":
        return primitive
    *batches, k, n = weights.constant.shape
    if n % _NEAR or k == 1 or rows < _FEWEST_ROWS:
        return primitive
    try:
        asked = PrimitiveDescriptor(values.library, request, primitive.post_ops)
    except Refused:
        return primitive
    if not asked.implementation.startswith("gemm"):
        return primitive
    strides = descriptors.row_major_strides((*batches, k, n + _APART))
    apart = descriptors.strided(values.library, (*batches, k, n), strides, "f32")
    return replace(
        primitive,
        request=replace(request, arguments=(left, apart, *others)),
        operands={**primitive.operands, Argument.WEIGHTS: replace(weights, descriptor=apart)},
    )


def _linear(factor: float) -> tuple[PostOp, ...]:
    """A multiplication, or nothing."""
    return () if factor == 1 else (EltwisePostOp(Algorithm.LINEAR, factor, 0.0),)


def _transposed_addend(
    op: nn.GemmOp, c: SSAValue, values: Values, y: MemoryDescriptor
) -> tuple[Operand, MemoryDescriptor]:
    """C for the transposed result `y`, as large as that: a column the library would add by its reference."""
    result = values.layout(op.result)
    constant = values.constant(c)
    if constant is not None:
        return values.packed(np.broadcast_to(constant, result.shape).T)
    if not lie_alike(values.layout(c), result):
        raise Refused("the addend lies unlike the result")
    return Operand(c, y), y


def _turned(
    values: Values, value: SSAValue, *, chosen: bool, turned: bool
) -> tuple[Operand, MemoryDescriptor]:
    """An operand of a product, transposed where it is `turned`."""
    shape = values.layout(value).shape
    if turned:
        return _transposed_operand(values, value, shape, chosen=chosen)
    return values.operand(value, shape, chosen=chosen)


def _addend(
    op: nn.GemmOp, values: Values, alpha: float, operands: dict[int, Operand], y: MemoryDescriptor
) -> tuple[MemoryDescriptor | None, tuple[PostOp, ...]]:
    """alpha * A * B + beta * C as a bias and post-ops behind A * B, whose operands are added to `operands`.

    Raises Refused where there are none.
    """
    m, n = values.layout(op.result).shape
    scaled = _linear(alpha)
    if op.c is None or op.beta == 0:
        return None, scaled
    c, shape = values.constant(op.c), values.layout(op.c).shape
    is_row = len(shape) == 0 or (shape[-1] in (1, n) and (len(shape) == 1 or shape[0] == 1))
    if c is not None and alpha != 0 and is_row:
        row = np.broadcast_to(np.asarray(c * np.float32(op.beta / alpha), np.float32), (1, n))
        operands[Argument.BIAS], bias = values.packed(row)
        return bias, scaled
    if c is None and alpha == op.beta == 1 and shape in ((n,), (1, n)):
        operands[Argument.BIAS], bias = values.operand(op.c, (1, n))
        return bias, ()
    if c is not None:
        if y.blocking().strides != (n, 1):
            raise Refused("a constant is added to results in row-major order")
        matrix = np.broadcast_to(np.asarray(c * np.float32(op.beta), np.float32), (m, n))
        operand, other = values.packed(matrix)
        chain: tuple[PostOp, ...] = (*scaled, BinaryPostOp(Algorithm.ADD, other))
        operands[Argument.SRC_OF_POST_OP + POST_OP_STEP * len(scaled)] = operand
        return None, chain
    if shape in ((n,), (1, n)):
        operand, other = values.operand(op.c, (1, n))
    elif lie_alike(values.layout(op.c), values.layout(op.result)):
        operand, other = Operand(op.c, y), y
    else:
        raise Refused("the addend lies unlike the result")
    # alpha * AB + beta * C = beta * (alpha / beta * AB + C)
    first, last = _linear(alpha / op.beta), _linear(op.beta)
    operands[Argument.SRC_OF_POST_OP + POST_OP_STEP * len(first)] = operand
    return None, (*first, BinaryPostOp(Algorithm.ADD, other), *last)


def _transposed(descriptor: MemoryDescriptor) -> MemoryDescriptor:
    """The same elements with their last two dims exchanged. Raises Refused for a descriptor in blocks."""
    desc = descriptor.blocking()
    if desc.inner_blks or descriptor.made_from is None:
        raise Refused("a matrix in blocks has no transpose")
    _, dtype, _ = descriptor.made_from
    extents, strides = ((*given[:-2], given[-1], given[-2]) for given in (desc.dims, desc.strides))
    return descriptors.strided(descriptor.library, extents, strides, dtype)


def _dense_rows(layout: Layout) -> Array | None:
    """The column that lies at each place of a row, where each row is dense and row-major behind the one before."""
    rows, columns = layout.shape
    if layout.is_padded or layout.chunk_rank or layout.swizzle is not None or layout.axes:
        return None
    if rows > 1 and any(layout.offsets(0) != np.arange(rows) * columns):
        return None
    places = layout.offsets(1)
    if sorted(places.tolist()) != list(range(columns)):
        return None
    return np.argsort(places)
