"""Which primitive computes an op on operands in given layouts.

For each op there are candidates, the one that is expected to be fastest first: the library takes the first for which
it has an implementation that is not its reference. Constant operands have no layout here: they are packed into what
the implementation asks for. What is left without a candidate runs by the NumPy reference.

A descriptor with pads promises zeros there, so an operand with pads is taken where its type promises them too, and a
result with pads, in which the library writes zeros, where its type promises zeros or nothing. Elementwise ops on
tensors that lie alike have no such bound: they are computed on the whole buffers, pads included, as the reference does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf, isinf, prod
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.backends.onednn import memory_descriptors as descriptors
from layout_ir.backends.onednn.library import Library, Refused, dims
from layout_ir.backends.onednn.memory_descriptors import MemoryDescriptor
from layout_ir.backends.onednn.primitives import (
    GLOBAL_STATISTICS,
    INFERENCE,
    POST_OP_STEP,
    WITH_SCALE,
    WITH_SHIFT,
    Algorithm,
    Argument,
    BinaryPostOp,
    EltwisePostOp,
    PostOp,
    Quantization,
    Request,
)
from layout_ir.backends.reference.semantics import SEMANTICS, layout_at_run_time, literal_array
from layout_ir.backends.reference.tensor import is_row_major, same_box
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, dtype_of
from layout_ir.dialects.nn.source_positions import resize_positions, resize_scales
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array, widen
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.options.conv_kernels import activation


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """An argument of an execution: a value of the program, or a constant that is packed as the primitive asks."""

    value: SSAValue | None
    descriptor: MemoryDescriptor | None
    """How the value lies; of a constant None where the primitive is to choose."""
    constant: Array | None = None
    """The elements of a constant, in the extents that the primitive knows."""
    moved: Layout | None = None
    """The layout into which the value is brought first, where the primitive does not take it as it lies."""


@dataclass(frozen=True, slots=True, eq=False)
class OpPrimitive:
    """A primitive for an op: what to ask the library for, and its arguments by number, the result left out."""

    request: Request
    operands: dict[int, Operand]
    result: MemoryDescriptor
    extents: tuple[int, ...]
    """The extents of the result, as the primitive knows them: a matmul may take all batches as rows. Empty where its
    dims stand in another order, so that no constant is broadcast to it."""
    post_ops: tuple[PostOp, ...] = ()
    quantization: tuple[Quantization, ...] = ()
    """Scales and zero points, which are arguments among the operands."""


class Values:
    """What is known of values at compile time: layouts, element types, constants."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._converted: dict[SSAValue, Array] = {}

    def layout(self, value: SSAValue) -> Layout:
        """The layout in which a value lies."""
        return layout_at_run_time(value.type)

    def dtype(self, value: SSAValue) -> str:
        """The type of the elements of a value."""
        return dtype_of(value.type)

    def constant(self, value: SSAValue) -> Array | None:
        """The elements of a constant in their shape, and those of one that is reordered; floats of 16 bits as f32.

        None for any other value."""
        op = value.owner
        if isinstance(op, ReorderOp) and isinstance(op.input.owner, nn.ConstantOp):
            if value not in self._converted:
                stored = SEMANTICS[nn.ConstantOp](op.input.owner)
                self._converted[value] = widened(
                    SEMANTICS[ReorderOp](op, stored).logical(), dtype_of(value.type)
                )
            return self._converted[value]
        if not isinstance(op, nn.ConstantOp):
            return None
        elements = widened(literal_array(op), dtype_of(value.type))
        return np.broadcast_to(elements, self.layout(value).shape)

    def scalar(self, value: SSAValue) -> float | None:
        """The number that all elements of a constant are, where it has one element or is a splat."""
        op = value.owner
        if not isinstance(op, nn.ConstantOp):
            return None
        array = literal_array(op)
        return float(widened(array.reshape(-1)[:1], dtype_of(value.type))[0]) if array.size == 1 else None

    def descriptor(
        self, value: SSAValue, shape: Sequence[int] | None = None, *, writes: bool = False
    ) -> MemoryDescriptor:
        """The descriptor of `value`, seen as `shape`. Raises Refused where there is none, or its pads are not zero."""
        layout = self.layout(value)
        if layout.is_padded and layout.pad != "zero" and not (writes and layout.pad == "undef"):
            raise Refused(f"the pads of {layout} are not zero")
        if shape is not None and tuple(shape) != layout.shape:
            try:
                layout = layout.reshape(shape)
            except LayoutError as error:
                raise Refused(str(error)) from None
        return descriptors.descriptor_of(self.library, layout, self.dtype(value))

    def operand(
        self, value: SSAValue, shape: Sequence[int] | None = None, *, chosen: bool = False
    ) -> tuple[Operand, MemoryDescriptor]:
        """An operand seen as `shape`, and its descriptor; `chosen`: a constant lies as the primitive likes, else
        row-major."""
        constant = self.constant(value)
        if constant is None:
            found = self.descriptor(value, shape)
            return Operand(value, found), found
        seen = constant.reshape(shape if shape is not None else constant.shape)
        return self.packed(seen, chosen=chosen, dtype=self.dtype(value))

    def packed(
        self, constant: Array, *, chosen: bool = False, dtype: str | None = None
    ) -> tuple[Operand, MemoryDescriptor]:
        """A constant operand, stored as elements of `dtype`, and its descriptor."""
        make = descriptors.any_format if chosen else descriptors.row_major
        found = make(self.library, constant.shape, dtype or descriptors.dtype_of_array(constant))
        return Operand(None, None if chosen else found, constant), found


def widened(elements: Array, dtype: str) -> Array:
    """Stored elements, of floats of 16 bits as f32: what constants are scaled and compared in."""
    return widen(elements, dtype).astype(np.float32) if dtype in ("f16", "bf16") else elements


Candidates = Iterator[OpPrimitive]
Builder = Callable[[Any, Values], Candidates]


FLOATS = ("f32", "bf16", "f16")
"""Element types that primitives compute on; which of them a library has, `Library.computes` says."""


def candidates(op: Operation, values: Values) -> Candidates:
    """The primitives to ask for, best first; none for an op that the library lacks, or other elements than floats.

    Raises Refused from one that the library cannot say: there may be others behind it.
    """
    builders = builders_of(op)
    tensors = (*op.operands, *op.results)
    types = {dtype_of(value.type) for value in tensors}
    wanted = (*FLOATS, "i8", "ui8") if isinstance(op, nn.MaxPoolOp) else FLOATS
    if not builders or len(types) > 1 or not types <= set(wanted):
        return
    if any(not values.layout(value).nelems for value in tensors):
        return
    for build in builders:
        try:
            yield from build(op, values)
        except Refused:
            continue


def builders_of(op: Operation) -> tuple[Builder, ...]:
    """What gives primitives for ops like `op`, the builder of the best first."""
    return _BUILDERS.get(type(op), ())


# Convolution ----------------------------------------------------------------------------------------------------------


def _convolution(op: nn.ConvOp, values: Values) -> Candidates:
    """On the operand in each of the orders of `_sources`."""
    for source in _sources(op, values):
        with suppress(Refused):
            yield _convolution_of(op, values, source)


def _sources(op: nn.ConvOp | nn.ConvTransposeOp | nn.ResizeOp, values: Values) -> Iterator[Operand]:
    """The operand as it lies; where no kernel takes that beside the result, with it brought into the order of the
    result first, or into row-major order."""
    with suppress(Refused):
        yield Operand(op.x, values.descriptor(op.x))
    x = values.layout(op.x)
    for fmt in (values.layout(op.result).format, Format.row_major(x.names)):
        with suppress(Refused, LayoutError):
            moved = fmt.with_pad("undef").bind(x.shape)
            moved = fmt.with_pad("zero").bind(x.shape) if moved.is_padded else moved
            descriptor = descriptors.descriptor_of(values.library, moved, values.dtype(op.x))
            # Dims of one element may stand anywhere: the same memory, which kernels take in one of the orders alone.
            same = moved.same_map(x) and not x.is_padded
            yield Operand(op.x, descriptor, moved=None if same else moved)


def _convolution_of(op: nn.ConvOp, values: Values, source: Operand) -> OpPrimitive:
    rank = len(op.strides)
    shape = values.layout(op.w).shape
    group = () if op.group == 1 else (op.group,)
    weights, wanted = values.operand(op.w, (*group, shape[0] // op.group, *shape[1:]), chosen=True)
    y = values.descriptor(op.result, writes=True)
    operands: dict[int, Operand] = {Argument.SRC: source, Argument.WEIGHTS: weights}
    bias: MemoryDescriptor | None = None
    if op.b is not None:
        operands[Argument.BIAS], bias = values.operand(op.b)
    windows = (
        dims(op.strides), dims(d - 1 for d in op.dilations), dims(op.pads[:rank]), dims(op.pads[rank:])
    )  # fmt: skip
    given = (source.descriptor, wanted, bias, y, *windows)
    request = Request("convolution_forward", (INFERENCE, Algorithm.CONVOLUTION, *given), (windows,))
    return OpPrimitive(request, operands, y, values.layout(op.result).shape)


def _deconvolution(op: nn.ConvTransposeOp, values: Values) -> Candidates:
    """Weights (C, O / group, space) are (group, O / group, C / group, space) there; output padding shortens pads."""
    rank = len(op.strides)
    constant = values.constant(op.w)
    if constant is None:
        return
    c, o = constant.shape[:2]
    grouped = constant.reshape(op.group, c // op.group, o, *constant.shape[2:]).swapaxes(1, 2)
    weights, wanted = values.packed(
        grouped if op.group > 1 else grouped[0], chosen=True, dtype=values.dtype(op.w)
    )
    y = values.descriptor(op.result, writes=True)
    operands: dict[int, Operand] = {Argument.WEIGHTS: weights}
    bias: MemoryDescriptor | None = None
    if op.b is not None:
        operands[Argument.BIAS], bias = values.operand(op.b)
    ends = [end - more for end, more in zip(op.pads[rank:], op.output_padding, strict=True)]
    windows = (dims(op.strides), dims(d - 1 for d in op.dilations), dims(op.pads[:rank]), dims(ends))
    for source in _sources(op, values):
        given = (source.descriptor, wanted, bias, y, *windows)
        request = Request("deconvolution_forward", (INFERENCE, Algorithm.DECONVOLUTION, *given), (windows,))
        yield OpPrimitive(request, {Argument.SRC: source, **operands}, y, values.layout(op.result).shape)


def _disjoint_deconvolution(op: nn.ConvTransposeOp, values: Values) -> Candidates:
    """As a product, where windows lie side by side and channels last: each element becomes a window of its own.

    Of rows h and columns w, (n h, 1, w, c) times (1, kh, c, kw o) is (n h, kh, w, kw o): the result as it lies.
    """
    rank = len(op.strides)
    constant = values.constant(op.w)
    if constant is None or op.group != 1 or any((*op.pads, *op.output_padding)):
        return
    kernel = constant.shape[2:]
    if kernel != op.strides or any(d != 1 for d, k in zip(op.dilations, kernel, strict=True) if k > 1):
        return
    x, y = values.layout(op.x), values.layout(op.result)
    last = activation(rank, "nSc")
    if y.is_padded or not last.bind(y.shape).same_map(y):
        return
    lying = last.with_pad("undef").bind(x.shape)
    n, c, first, *rest = x.shape
    o = y.shape[1]
    rows = tuple(extent for each in rest for extent in (1, each))
    windows = tuple(extent for k in kernel[:-1] for extent in (1, k))
    columns = kernel[-1] * o
    dtype = values.dtype(op.result)
    source = descriptors.row_major(values.library, (n * first, *rows, c), dtype)
    places = tuple(extent for k, each in zip(kernel, rest, strict=False) for extent in (k, each))
    target = descriptors.row_major(values.library, (n * first, *places, columns), dtype)
    # (c, o, k...) to (k without the last, c, the last k, o)
    turned = constant.transpose(*range(2, rank + 1), 0, rank + 1, 1)
    matrix = np.ascontiguousarray(turned).reshape(*windows, c, columns)
    weights, wanted = values.packed(matrix, chosen=True, dtype=values.dtype(op.w))
    moved = None if lying.same_map(x) and not x.is_padded else lying
    operands: dict[int, Operand] = {
        Argument.SRC: Operand(op.x, source, moved=moved),
        Argument.WEIGHTS: weights,
    }
    bias: MemoryDescriptor | None = None
    if op.b is not None:
        each = values.constant(op.b)
        if each is None:
            return
        row = np.tile(each, kernel[-1]).reshape(*(1 for _ in source.blocking().dims[1:]), columns)
        operands[Argument.BIAS], bias = values.packed(row, dtype=values.dtype(op.b))
    yield OpPrimitive(Request("matmul", (source, wanted, bias, target)), operands, target, ())


# Matrix products ------------------------------------------------------------------------------------------------------


def _matmul(op: nn.MatmulOp, values: Values) -> Candidates:
    """All batches as rows of one product where the right operand is one matrix; else batch by batch."""
    left, right = values.layout(op.a).shape, values.layout(op.b).shape
    result = values.layout(op.result).shape
    k = left[-1]
    columns = right[-1] if len(right) > 1 else 1
    if len(right) <= 2:
        rows = prod(left[:-1])
        with suppress(Refused):
            yield _product(op, values, (rows, k), (k, columns), (rows, columns))
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
    return OpPrimitive(Request("matmul", (a_wanted, b_wanted, None, y)), operands, y, result)


def _transposed_product(
    op: nn.MatmulOp, values: Values, left: tuple[int, ...], right: tuple[int, ...], result: tuple[int, ...]
) -> OpPrimitive:
    """The same for a result whose columns are dense: its transpose is the product of the transposes, in turn."""
    a, a_wanted = _transposed_operand(values, op.a, left, chosen=True)
    b, b_wanted = _transposed_operand(values, op.b, right, chosen=False)
    y = _transposed(values.descriptor(op.result, result, writes=True))
    operands: dict[int, Operand] = {Argument.SRC: b, Argument.WEIGHTS: a}
    # Without extents no constant is broadcast to it as a post-op: its dims are other ones.
    return OpPrimitive(Request("matmul", (b_wanted, a_wanted, None, y)), operands, y, ())


def _transposed_operand(
    values: Values, value: SSAValue, shape: tuple[int, ...], *, chosen: bool
) -> tuple[Operand, MemoryDescriptor]:
    constant = values.constant(value)
    if constant is not None:
        turned = constant.reshape(shape).swapaxes(-1, -2)
        return values.packed(turned, chosen=chosen, dtype=values.dtype(value))
    descriptor = _transposed(values.descriptor(value, shape))
    return Operand(value, descriptor), descriptor


def _gemm(op: nn.GemmOp, values: Values) -> Candidates:
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
        rows = matrix if order is None else matrix[order]
        weights, wanted = values.packed(rows, chosen=True, dtype=values.dtype(op.b))
    else:
        plain = values.descriptor(op.b)
        wanted = _transposed(plain) if op.trans_b else plain
        weights = Operand(op.b, wanted)
    operands: dict[int, Operand] = {Argument.SRC: Operand(op.a, x), Argument.WEIGHTS: weights}
    y = values.descriptor(op.result, writes=True)
    bias, post_ops = _addend(op, values, alpha, operands, y)
    request = Request("matmul", (x, wanted, bias, y))
    yield OpPrimitive(request, operands, y, (m, n), post_ops)


def _transposed_gemm(op: nn.GemmOp, values: Values) -> Candidates:
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
    yield OpPrimitive(Request("matmul", (b_wanted, a_wanted, None, y)), operands, y, (), post_ops)


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


# Windows --------------------------------------------------------------------------------------------------------------


def _pool(op: nn.MaxPoolOp | nn.AvgPoolOp, values: Values) -> Candidates:
    x, y = values.layout(op.x).shape, values.layout(op.result).shape
    rank = len(op.kernel)
    ends: list[int] = []
    for d in range(rank):
        reach = (y[2 + d] - 1) * op.strides[d] + (op.kernel[d] - 1) * op.dilations[d] + 1
        ends.append(max(op.pads[rank + d], reach - x[2 + d] - op.pads[d]))
    algorithm = Algorithm.MAX_POOL
    if isinstance(op, nn.AvgPoolOp):
        padded = op.count_include_pad and any(op.pads)
        if padded and ends != list(op.pads[rank:]):
            return  # what ceil_mode adds takes no part, and would be counted
        algorithm = Algorithm.AVG_POOL_WITH_PADDING if padded else Algorithm.AVG_POOL
    yield _pooling(op, values, algorithm, op.kernel, op.strides, op.dilations, op.pads[:rank], ends)


def _global_pool(op: nn.GlobalAvgPoolOp | nn.GlobalMaxPoolOp, values: Values) -> Candidates:
    x = values.layout(op.x).shape
    none, ones = (0,) * (len(x) - 2), (1,) * (len(x) - 2)
    algorithm = Algorithm.AVG_POOL if isinstance(op, nn.GlobalAvgPoolOp) else Algorithm.MAX_POOL
    yield _pooling(op, values, algorithm, x[2:], ones, ones, none, none)


def _pooling(
    op: Any, values: Values, algorithm: Algorithm, kernel: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int], begins: Sequence[int], ends: Sequence[int], result: Sequence[int] | None = None,
) -> OpPrimitive:  # fmt: skip
    x, y = values.descriptor(op.x), _like_operand(op, values, result)
    windows = (dims(strides), dims(kernel), dims(d - 1 for d in dilations), dims(begins), dims(ends))
    request = Request("pooling_forward", (INFERENCE, algorithm, x, y, *windows), (windows,))
    return OpPrimitive(request, {Argument.SRC: Operand(op.x, x)}, y, values.layout(op.result).shape)


def _like_operand(op: Any, values: Values, result: Sequence[int] | None) -> MemoryDescriptor:
    """The descriptor of the result with the order of dims of the operand, where that is the same memory.

    Dims of one element may stand anywhere, but kernels look for operand and result in one order.
    """
    y = values.layout(op.result)
    shape = y.shape if result is None else tuple(result)
    with suppress(LayoutError):
        seen = values.layout(op.x).format.bind(shape)
        same = seen.same_map(y if result is None else y.reshape(shape))
        if same and not y.is_padded and not y.offset:
            return descriptors.descriptor_of(values.library, seen, values.dtype(op.result))
    return values.descriptor(op.result, result, writes=True)


def resampled_by_library(op: nn.ResizeOp) -> bool:
    """Whether the library interpolates at the positions that the op asks for: it has one rule of coordinates.

    Choosing the nearest element is left to loops: oneDNN 3.2 reads outside of row-major operands from about 4 MB on.
    """
    x, y = shape_of(op.x), shape_of(op.result)
    if op.mode == "nearest" or not 3 <= len(x) <= 5 or x[:2] != y[:2]:
        return False
    scales = resize_scales(x, op.sizes, op.scales)
    for extent, size, scale in zip(x[2:], y[2:], scales[2:], strict=True):
        wanted = resize_positions(size, extent, scale, op.coordinates)
        own = resize_positions(size, extent, size / extent, "half_pixel")
        if not np.allclose(wanted, own, rtol=0, atol=1e-6):
            return False
    return True


def _resampling(op: nn.ResizeOp, values: Values) -> Candidates:
    if not resampled_by_library(op):
        return
    y = values.layout(op.result).shape
    target = values.descriptor(op.result, writes=True)
    for source in _sources(op, values):
        request = Request(
            "resampling_forward", (INFERENCE, Algorithm.LINEAR_RESAMPLING, None, source.descriptor, target)
        )
        yield OpPrimitive(request, {Argument.SRC: source}, target, y)


# Normalizations and reductions ----------------------------------------------------------------------------------------


def _softmax(op: nn.SoftmaxOp | nn.LogSoftmaxOp, values: Values) -> Candidates:
    if op.axis in values.layout(op.x).padded_dims():
        return  # its pads hold -inf
    x, y = values.descriptor(op.x), values.descriptor(op.result, writes=True)
    algorithm = Algorithm.SOFTMAX if isinstance(op, nn.SoftmaxOp) else Algorithm.LOG_SOFTMAX
    request = Request("softmax_forward", (INFERENCE, algorithm, x, y, op.axis))
    yield OpPrimitive(request, {Argument.SRC: Operand(op.x, x)}, y, values.layout(op.result).shape)


def _layer_norm(op: nn.LayerNormOp, values: Values) -> Candidates:
    """Over the last dims, which the primitive sees as one."""
    shape = values.layout(op.x).shape
    first = len(shape) - len(op.axes)
    if sorted(op.axes) != list(range(first, len(shape))):
        return
    rows, columns = prod(shape[:first]), prod(shape[first:])
    x = values.descriptor(op.x, (rows, columns))
    y = values.descriptor(op.result, (rows, columns), writes=True)
    operands: dict[int, Operand] = {Argument.SRC: Operand(op.x, x)}
    flags = WITH_SCALE
    for argument, value in ((Argument.SCALE, op.scale), (Argument.SHIFT, op.bias)):
        if value is None:
            continue
        constant = values.constant(value)
        if constant is not None and (constant.ndim <= len(op.axes) or constant.size == 1):
            wide = np.broadcast_to(constant, shape[first:]) if constant.size > 1 else constant.reshape(-1)
            operands[argument], _ = values.packed(np.broadcast_to(wide.reshape(-1), (columns,)))
        elif values.layout(value).shape == shape[first:]:
            operands[argument] = _parameter(value, values, (columns,))
        else:
            return
        flags |= WITH_SHIFT if argument == Argument.SHIFT else 0
    statistics = descriptors.row_major(values.library, (rows,))
    request = Request("layer_normalization_forward", (INFERENCE, x, y, statistics, op.epsilon, flags))
    yield OpPrimitive(request, operands, y, (rows, columns))


def _parameter(value: SSAValue, values: Values, shape: tuple[int, ...] | None = None) -> Operand:
    """A factor or statistic, which the library takes as f32. Raises Refused where it is computed in another type."""
    constant = values.constant(value)
    if constant is not None:
        return values.packed(constant)[0]
    if values.dtype(value) != "f32":
        raise Refused("factors and statistics are f32")
    return values.operand(value, shape)[0]


def _batch_norm(op: nn.BatchNormOp, values: Values) -> Candidates:
    x, y = values.descriptor(op.x), values.descriptor(op.result, writes=True)
    operands: dict[int, Operand] = {Argument.SRC: Operand(op.x, x)}
    for argument, value in (
        (Argument.SCALE, op.scale), (Argument.SHIFT, op.bias), (Argument.MEAN, op.mean), (Argument.VARIANCE, op.var)
    ):  # fmt: skip
        operands[argument] = _parameter(value, values)
    flags = GLOBAL_STATISTICS | WITH_SCALE | WITH_SHIFT
    request = Request("batch_normalization_forward", (INFERENCE, x, y, op.epsilon, flags))
    yield OpPrimitive(request, operands, y, values.layout(op.result).shape)


def _lrn(op: nn.LrnOp, values: Values) -> Candidates:
    """An even window is not symmetric, which the library's is."""
    if op.size % 2 == 0:
        return
    x, y = values.descriptor(op.x), values.descriptor(op.result, writes=True)
    arguments = (INFERENCE, Algorithm.LRN, x, y, op.size, op.alpha, op.beta, op.bias)
    operands: dict[int, Operand] = {Argument.SRC: Operand(op.x, x)}
    yield OpPrimitive(Request("lrn_forward", arguments), operands, y, values.layout(op.result).shape)


_REDUCTIONS: dict[type[nn.ReduceOp], Algorithm] = {
    nn.ReduceSumOp: Algorithm.REDUCE_SUM,
    nn.ReduceMeanOp: Algorithm.REDUCE_MEAN,
    nn.ReduceMaxOp: Algorithm.REDUCE_MAX,
    nn.ReduceMinOp: Algorithm.REDUCE_MIN,
    nn.ReduceProdOp: Algorithm.REDUCE_MUL,
}


def _reduction_as_pool(op: nn.ReduceOp, values: Values) -> Candidates:
    """A mean or maximum over all of space is a pool of one window, for which there are better kernels."""
    x = values.layout(op.x).shape
    algorithms: dict[type[nn.ReduceOp], Algorithm] = {
        nn.ReduceMeanOp: Algorithm.AVG_POOL,
        nn.ReduceMaxOp: Algorithm.MAX_POOL,
    }
    if type(op) not in algorithms or not 3 <= len(x) <= 5 or sorted(op.axes) != list(range(2, len(x))):
        return
    if is_row_major(values.layout(op.x)):
        return  # whose pools take long: the mean of 512 rows of 3136, on a Zen 4, 346 us, and 101 by the reduction
    none, ones = (0,) * (len(x) - 2), (1,) * (len(x) - 2)
    pool = _pooling(op, values, algorithms[type(op)], x[2:], ones, ones, none, none, (*x[:2], *ones))
    yield replace(pool, extents=(*x[:2], *ones))


def _reduction(op: nn.ReduceOp, values: Values) -> Candidates:
    x = values.layout(op.x)
    if set(op.axes) & set(x.padded_dims()):
        return
    kept = tuple(1 if d in op.axes else extent for d, extent in enumerate(x.shape))
    source, target = values.descriptor(op.x), values.descriptor(op.result, kept, writes=True)
    request = Request("reduction", (_REDUCTIONS[type(op)], source, target, 0.0, 0.0))
    yield OpPrimitive(request, {Argument.SRC: Operand(op.x, source)}, target, kept)


# Elementwise ops ------------------------------------------------------------------------------------------------------


def _gelu(op: nn.GeluOp) -> EltwisePostOp:
    return EltwisePostOp(Algorithm.GELU_TANH if op.approximate == "tanh" else Algorithm.GELU_ERF)


_FUNCTIONS: dict[type[Operation], Callable[[Any], EltwisePostOp]] = {
    nn.ReluOp: lambda op: EltwisePostOp(Algorithm.RELU),
    nn.LeakyReluOp: lambda op: EltwisePostOp(Algorithm.RELU, op.alpha),
    nn.EluOp: lambda op: EltwisePostOp(Algorithm.ELU, op.alpha),
    nn.TanhOp: lambda op: EltwisePostOp(Algorithm.TANH),
    nn.AbsOp: lambda op: EltwisePostOp(Algorithm.ABS),
    nn.SqrtOp: lambda op: EltwisePostOp(Algorithm.SQRT),
    nn.NegOp: lambda op: EltwisePostOp(Algorithm.LINEAR, -1.0, 0.0),
    nn.ReciprocalOp: lambda op: EltwisePostOp(Algorithm.POW, 1.0, -1.0),
    nn.ExpOp: lambda op: EltwisePostOp(Algorithm.EXP),
    nn.LogOp: lambda op: EltwisePostOp(Algorithm.LOG),
    nn.ClipOp: lambda op: EltwisePostOp(Algorithm.CLIP, op.min, op.max),
    nn.SigmoidOp: lambda op: EltwisePostOp(Algorithm.LOGISTIC),
    nn.SwishOp: lambda op: EltwisePostOp(Algorithm.SWISH, op.alpha),
    nn.HardSigmoidOp: lambda op: EltwisePostOp(Algorithm.HARD_SIGMOID, op.alpha, op.beta),
    nn.HardSwishOp: lambda op: EltwisePostOp(Algorithm.HARD_SWISH, 1 / 6, 0.5),
    nn.SoftplusOp: lambda op: EltwisePostOp(Algorithm.SOFT_RELU, 1.0),
    nn.MishOp: lambda op: EltwisePostOp(Algorithm.MISH),
    nn.GeluOp: _gelu,
    nn.RoundOp: lambda op: EltwisePostOp(Algorithm.ROUND),
}
"""The function of the library that a unary op is."""


def function_of(op: Operation, values: Values) -> tuple[SSAValue, EltwisePostOp] | None:
    """The one operand of which `op` is a function of the library, and that function; a constant number is part of it.

    None where `op` is none.
    """
    make = _FUNCTIONS.get(type(op))
    if make is not None:
        return op.operands[0], make(op)
    if not isinstance(op, nn.BinaryOp):
        return None
    for constant, value in ((op.rhs, op.lhs), (op.lhs, op.rhs)):
        number = values.scalar(constant)
        if number is None or values.layout(value).shape != values.layout(op.result).shape:
            continue
        found = _with_number(op, number, constant is op.lhs)
        if found is not None:
            return value, found
    return None


def _with_number(op: nn.BinaryOp, number: float, is_first: bool) -> EltwisePostOp | None:
    """The function of x that a binary op of x and a number is; `is_first`: the number stands in front."""
    if number != number or isinf(number):
        return None
    match op:
        case nn.AddOp():
            return EltwisePostOp(Algorithm.LINEAR, 1.0, number)
        case nn.MulOp():
            return EltwisePostOp(Algorithm.LINEAR, number, 0.0)
        case nn.SubOp():
            return EltwisePostOp(Algorithm.LINEAR, *((-1.0, number) if is_first else (1.0, -number)))
        case nn.DivOp() if is_first:
            return EltwisePostOp(Algorithm.POW, number, -1.0)
        case nn.DivOp() if 1e-30 < abs(number) < 1e30:
            return EltwisePostOp(Algorithm.LINEAR, 1 / number, 0.0)
        case nn.MaxOp():
            return EltwisePostOp(Algorithm.CLIP, number, inf)
        case nn.MinOp():
            return EltwisePostOp(Algorithm.CLIP, -inf, number)
        case nn.PowOp() if not is_first and number == 2:
            return EltwisePostOp(Algorithm.SQUARE)
        case nn.PowOp() if not is_first and number == 0.5:
            return EltwisePostOp(Algorithm.SQRT)
        case nn.PowOp() if not is_first:
            return EltwisePostOp(Algorithm.POW, 1.0, number)
        case nn.PReluOp() if not is_first:
            return EltwisePostOp(Algorithm.RELU, number)
        case _:
            return None


BINARY: dict[type[Operation], Algorithm] = {
    nn.AddOp: Algorithm.ADD,
    nn.SubOp: Algorithm.SUB,
    nn.MulOp: Algorithm.MUL,
    nn.DivOp: Algorithm.DIV,
    nn.MaxOp: Algorithm.MAX,
    nn.MinOp: Algorithm.MIN,
}
COMMUTATIVE = (nn.AddOp, nn.MulOp, nn.MaxOp, nn.MinOp)


def lie_alike(first: Layout, second: Layout) -> bool:
    """Whether two layouts are one dense box, so that an elementwise op may run over the whole buffers."""
    return (
        same_box(first, second) and first.is_dense() and first.swizzle is None and first.extent == first.span
    )


def _eltwise(op: nn.ElementwiseOp, values: Values) -> Candidates:
    found = function_of(op, values)
    if found is None:
        return
    value, function = found
    x, y = values.layout(value), values.layout(op.result)
    if lie_alike(x, y):
        source = target = descriptors.row_major(values.library, (y.extent,), values.dtype(op.result))
        extents: tuple[int, ...] = (y.extent,)
    else:
        source, target = values.descriptor(value), values.descriptor(op.result, writes=True)
        extents = y.shape
    arguments = (INFERENCE, function.algorithm, source, target, function.alpha, function.beta)
    yield OpPrimitive(
        Request("eltwise_forward", arguments), {Argument.SRC: Operand(value, source)}, target, extents
    )


def _binary_alike(op: nn.BinaryOp, values: Values) -> Candidates:
    """On whole buffers, pads included."""
    y = values.layout(op.result)
    if not all(
        lie_alike(values.layout(value), y) and values.constant(value) is None for value in op.operands
    ):
        return
    flat = descriptors.row_major(values.library, (y.extent,), values.dtype(op.result))
    request = Request("binary", (BINARY[type(op)], flat, flat, flat))
    operands: dict[int, Operand] = {
        Argument.SRC: Operand(op.lhs, flat),
        Argument.SRC_1: Operand(op.rhs, flat),
    }
    yield OpPrimitive(request, operands, flat, (y.extent,))


def _binary(op: nn.BinaryOp, values: Values) -> Candidates:
    """The first operand of the shape of the result, the second broadcast to it."""
    shape = values.layout(op.result).shape
    lhs, rhs = op.lhs, op.rhs
    if values.layout(lhs).shape != shape or (
        values.constant(lhs) is not None and isinstance(op, COMMUTATIVE)
    ):
        lhs, rhs = rhs, lhs
        if not isinstance(op, COMMUTATIVE):
            return
    if values.layout(lhs).shape != shape or not shape:
        return
    y = values.descriptor(op.result, writes=True)
    x, source = values.operand(lhs)
    other = values.layout(rhs).shape
    second, wanted = values.operand(rhs, (1,) * (len(shape) - len(other)) + other)
    request = Request("binary", (BINARY[type(op)], source, wanted, y))
    yield OpPrimitive(request, {Argument.SRC: x, Argument.SRC_1: second}, y, shape)


def _prelu(op: nn.PReluOp, values: Values) -> Candidates:
    """Slopes broadcast to x; those that are no constant lie as the library takes them, row-major."""
    shape = values.layout(op.result).shape
    if values.layout(op.lhs).shape != shape or not shape:
        return
    x, y = values.descriptor(op.lhs), values.descriptor(op.result, writes=True)
    other = values.layout(op.rhs).shape
    slopes, wanted = values.operand(op.rhs, (1,) * (len(shape) - len(other)) + other, chosen=True)
    request = Request("prelu_forward", (INFERENCE, x, wanted, y))
    yield OpPrimitive(request, {Argument.SRC: Operand(op.lhs, x), Argument.WEIGHTS: slopes}, y, shape)


# Concat ---------------------------------------------------------------------------------------------------------------


def _concat(op: nn.ConcatOp, values: Values) -> Candidates:
    axis = op.axis
    if any(axis in values.layout(value).padded_dims() for value in op.operands):
        return
    y = values.descriptor(op.result, writes=True)
    given = [values.operand(value) for value in op.operands]
    sources = tuple(descriptor for _, descriptor in given)
    request = Request("concat", (y, len(given), axis, sources))
    operands: dict[int, Operand] = {
        Argument.MULTIPLE_SRC + k: operand for k, (operand, _) in enumerate(given)
    }
    yield OpPrimitive(request, operands, y, values.layout(op.result).shape)


_BUILDERS: dict[type[Operation], tuple[Builder, ...]] = {
    nn.ConvOp: (_convolution,),
    nn.ConvTransposeOp: (_disjoint_deconvolution, _deconvolution),
    nn.MatmulOp: (_matmul,),
    nn.GemmOp: (_gemm, _transposed_gemm),
    nn.MaxPoolOp: (_pool,),
    nn.AvgPoolOp: (_pool,),
    nn.GlobalAvgPoolOp: (_global_pool,),
    nn.GlobalMaxPoolOp: (_global_pool,),
    nn.ResizeOp: (_resampling,),
    nn.SoftmaxOp: (_softmax,),
    nn.LogSoftmaxOp: (_softmax,),
    nn.LayerNormOp: (_layer_norm,),
    nn.BatchNormOp: (_batch_norm,),
    nn.LrnOp: (_lrn,),
    nn.ConcatOp: (_concat,),
    **dict.fromkeys(_REDUCTIONS, (_reduction_as_pool, _reduction)),
    **dict.fromkeys(_FUNCTIONS, (_eltwise,)),
    **dict.fromkeys(BINARY, (_eltwise, _binary_alike, _binary)),
    nn.PowOp: (_eltwise,),
    nn.PReluOp: (_eltwise, _prelu),
}
