"""Convolutions and transposed convolutions. Weights are packed as the kernel asks, an operand may be brought into the
order of the result."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from layout_ir.backends.onednn import memory_descriptors as descriptors
from layout_ir.backends.onednn.library import Refused, dims
from layout_ir.backends.onednn.memory_descriptors import MemoryDescriptor
from layout_ir.backends.onednn.op_primitives.primitive_operands import (
    Candidates,
    Operand,
    OpPrimitive,
    Values,
    sources_of,
)
from layout_ir.backends.onednn.primitives import (
    INFERENCE,
    Algorithm,
    Argument,
    Request,
)
from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.options.conv_kernels import activation


def convolution(op: nn.ConvOp, values: Values) -> Candidates:
    """The primitives of a convolution, for the operand in each of the orders of `sources_of`."""
    turned = _has_rows_of_one(op, values)
    for source in sources_of(op, values):
        if turned:
            with suppress(Refused, LayoutError):
                yield _convolution_of(op, values, source, turned=True)
        with suppress(Refused):
            yield _convolution_of(op, values, source)


def _has_rows_of_one(op: nn.ConvOp, values: Values) -> bool:
    """Whether all rows of the image are one element, and windows reach over several of them.

    Kernels compute some elements of a row at a time, so that such an image is better one row, which lies in the same
    memory: with AVX2 (Zen 3) a window of 5x1 over 512x1 pixels, from 256 channels to 512, took 15.3 ms, and 1x5 over
    1x512 takes 6.9.
    """
    rank = len(op.strides)
    extents, window = values.layout(op.x).shape[2:], values.layout(op.w).shape[2:]
    is_one = rank > 1 and extents[-1] == window[-1] == 1 and op.pads[rank - 1] == op.pads[-1] == 0
    return is_one and window[-2] > 1 and extents[-2] > 1


def _convolution_of(op: nn.ConvOp, values: Values, source: Operand, *, turned: bool = False) -> OpPrimitive:
    """The primitive; where it is `turned`, the last dim of space, of one element, is in front of the others."""

    def order(spatial: Sequence[int]) -> tuple[int, ...]:
        return (spatial[-1], *spatial[:-1]) if turned else tuple(spatial)

    rank = len(op.strides)
    shape, result = values.layout(op.w).shape, values.layout(op.result).shape
    group = () if op.group == 1 else (op.group,)
    seen = (*group, shape[0] // op.group, shape[1], *order(shape[2:]))
    weights, wanted = values.operand(op.w, seen, chosen=True)
    y = values.descriptor(op.result, (*result[:2], *order(result[2:])), writes=True)
    if turned:
        layout = source.moved or values.layout(op.x)
        row = layout.reshape((*layout.shape[:2], *order(layout.shape[2:])))
        descriptor = descriptors.descriptor_of(values.library, row, values.dtype(op.x))
        source = replace(source, descriptor=descriptor)
    operands: dict[int, Operand] = {Argument.SRC: source, Argument.WEIGHTS: weights}
    bias: MemoryDescriptor | None = None
    if op.b is not None:
        operands[Argument.BIAS], bias = values.operand(op.b)
    windows = tuple(
        dims(order(each))
        for each in (op.strides, [d - 1 for d in op.dilations], op.pads[:rank], op.pads[rank:])
    )
    given = (source.descriptor, wanted, bias, y, *windows)
    request = Request("convolution_forward", (INFERENCE, Algorithm.CONVOLUTION, *given), (windows,))
    # Without extents no constant is broadcast to it as a post-op: its dims are other ones.
    return OpPrimitive(request, operands, y, () if turned else result)


def deconvolution(op: nn.ConvTransposeOp, values: Values) -> Candidates:
    """Weights (C, O / group, space) are (group, O / group, C / group, space) there; output padding shortens pads."""
    rank = len(op.strides)
    weights, wanted = _exchanged_weights(op, values)
    y = values.descriptor(op.result, writes=True)
    operands: dict[int, Operand] = {Argument.WEIGHTS: weights}
    bias: MemoryDescriptor | None = None
    if op.b is not None:
        operands[Argument.BIAS], bias = values.operand(op.b)
    ends = [end - more for end, more in zip(op.pads[rank:], op.output_padding, strict=True)]
    windows = (dims(op.strides), dims(d - 1 for d in op.dilations), dims(op.pads[:rank]), dims(ends))
    for source in sources_of(op, values):
        given = (source.descriptor, wanted, bias, y, *windows)
        request = Request("deconvolution_forward", (INFERENCE, Algorithm.DECONVOLUTION, *given), (windows,))
        yield OpPrimitive(request, {Argument.SRC: source, **operands}, y, values.layout(op.result).shape)


def _exchanged_weights(op: nn.ConvTransposeOp, values: Values) -> tuple[Operand, MemoryDescriptor]:
    """The weights as the library has them: constants as the primitive likes, others as they lie."""
    c, o, *window = values.layout(op.w).shape
    constant, dtype = values.constant(op.w), values.dtype(op.w)
    group = () if op.group == 1 else (op.group,)
    shape = (*group, c // op.group, o, *window)
    order = [*range(len(shape))]
    first = len(group)
    order[first : first + 2] = first + 1, first
    if constant is not None:
        return values.packed(constant.reshape(shape).transpose(order), chosen=True, dtype=dtype)
    lying = values.layout(op.w)
    try:
        exchanged = lying.reshape(shape).permute(order)
    except LayoutError as error:
        raise Refused(str(error)) from None
    seen = descriptors.descriptor_of(values.library, exchanged, dtype)
    return Operand(op.w, seen), seen


def disjoint_deconvolution(op: nn.ConvTransposeOp, values: Values) -> Candidates:
    """The primitive of a product, where windows lie side by side and channels last: each element becomes a window of
    its own.

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
