"""Convolutions, pools and matrix products in the order of dims that ONNX has, as contractions.

Windows over elements that are not there read those of a `tensor.pad`: zeros for a convolution or a sum, the least
number for a maximum. A grouped convolution has a dim of groups, into which channels are split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from layout_ir.dialects import nn
from layout_ir.elements.element_types import element_type
from layout_ir.elements.scalar_type import computed_dtype
from layout_ir.exits.linalg.linalg_builder import LinalgBuilder, TensorValue
from layout_ir.exits.linalg.scalar_body import Number, converted


def _windows(
    build: LinalgBuilder, x: TensorValue, counts: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
    pads: Sequence[int], dilations: Sequence[int], number: Number,
) -> TensorValue:  # fmt: skip
    """`x` with as many elements of `number` around its spatial dims as its windows reach."""
    before, after = [0, 0, *pads[: len(kernel)]], [0, 0]
    for d, count in enumerate(counts):
        reach = (count - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1
        after.append(max(reach - x.shape[d + 2] - pads[d], 0))
    return build.padded(x, before, after, number)


def _spatial(rank: int, strides: Sequence[int], dilations: Sequence[int]) -> tuple[str, str, str]:
    """The spatial dims of operand, kernel and result, as notation of a contraction."""
    return (
        " ".join(f"s{d}*{strides[d]}+k{d}*{dilations[d]}" for d in range(rank)),
        " ".join(f"k{d}" for d in range(rank)),
        " ".join(f"s{d}" for d in range(rank)),
    )


def _convolved(
    build: LinalgBuilder, x: TensorValue, w: TensorValue, group: int, counts: Sequence[int],
    strides: Sequence[int], dilations: Sequence[int],
) -> TensorValue:  # fmt: skip
    """The convolution of x (N, C, space), which has what its windows reach, with w (O, C / group, kernel)."""
    rank = len(counts)
    space, taps, outer = _spatial(rank, strides, dilations)
    batch, outputs = x.shape[0], w.shape[0]
    shape = (batch, outputs, *counts)
    if group == 1:
        return build.contracted([x, w], f"n c {space}, o c {taps} -> n o {outer}", "product", shape=shape)
    if w.shape[1] == 1 and outputs == group:
        w = build.reshaped(w, (outputs, *w.shape[2:]))
        return build.contracted([x, w], f"n o {space}, o {taps} -> n o {outer}", "product", shape=shape)
    x = build.reshaped(x, (batch, group, x.shape[1] // group, *x.shape[2:]))
    w = build.reshaped(w, (group, outputs // group, *w.shape[1:]))
    made = build.contracted(
        [x, w], f"n g c {space}, g o c {taps} -> n g o {outer}", "product",
        shape=(batch, group, outputs // group, *counts),
    )  # fmt: skip
    return build.reshaped(made, shape)


def _with_bias(build: LinalgBuilder, y: TensorValue, bias: Sequence[TensorValue], dtype: str) -> TensorValue:
    """The sum of `y` and the bias per channel, if there is one, as elements of `dtype`."""
    if not bias:
        return build.narrowed(y, dtype)
    shaped = build.reshaped(bias[0], (*bias[0].shape, *(1,) * (len(y.shape) - 2)))
    return build.elementwise(lambda np, v, b: v + b, y, shaped, dtype=dtype)


def write_conv(build: LinalgBuilder, op: nn.ConvOp, operands: list[TensorValue]) -> TensorValue:
    """A contraction over channels and taps."""
    x, w, *bias = operands
    counts, kernel = op.infer()[2:], w.shape[2:]
    grown = _windows(build, x, counts, kernel, op.strides, op.pads, op.dilations, 0)
    y = _convolved(build, grown, w, op.group, counts, op.strides, op.dilations)
    return _with_bias(build, y, bias, x.dtype)


def write_conv_transpose(
    build: LinalgBuilder, op: nn.ConvTransposeOp, operands: list[TensorValue]
) -> TensorValue:
    """A convolution with the kernel backwards over x with zeros between and around its elements."""
    x, w, *bias = operands
    rank = len(op.strides)
    borders = op.borders()
    extents = [(e - 1) * s + 1 for e, s in zip(x.shape[2:], op.strides, strict=True)]
    cut_before = [max(-before, 0) for before, _ in borders]
    cut_after = [max(-after, 0) for _, after in borders]
    grown = [
        max(before, 0) + extent + max(after, 0)
        for (before, after), extent in zip(borders, extents, strict=True)
    ]
    zeros = build.filled((*x.shape[:2], *grown), x.dtype, 0)
    starts = [0, 0, *(max(before, 0) for before, _ in borders)]
    apart = build.placed(x, zeros, starts, [1, 1, *op.strides])
    if any(cut_before) or any(cut_after):
        sizes = [g - b - a for g, b, a in zip(grown, cut_before, cut_after, strict=True)]
        apart = build.sliced(apart, [0, 0, *cut_before], [*x.shape[:2], *sizes])
    inputs, outputs, group = w.shape[0], w.shape[1], op.group
    backwards = build.sliced(
        w,
        [0, 0, *(k - 1 for k in w.shape[2:])],
        w.shape,
        [1, 1, *(-1 if k > 1 else 1 for k in w.shape[2:])],
    )
    apart_weights = build.reshaped(backwards, (group, inputs // group, outputs, *w.shape[2:]))
    turned = build.transposed(apart_weights, (0, 2, 1, *range(3, rank + 3)))
    weights = build.reshaped(turned, (group * outputs, inputs // group, *w.shape[2:]))
    y = _convolved(build, apart, weights, group, op.infer()[2:], (1,) * rank, op.dilations)
    return _with_bias(build, y, bias, x.dtype)


def write_pool(
    build: LinalgBuilder, op: nn.MaxPoolOp | nn.AvgPoolOp, operands: list[TensorValue]
) -> TensorValue:
    """The maximum, or the sum over the count, of each window."""
    (x,) = operands
    counts, rank, is_max = op.infer()[2:], len(op.kernel), isinstance(op, nn.MaxPoolOp)
    known = element_type(x.dtype)
    start: Number = 0
    if is_max:
        start = -math.inf if known.is_float else int(known.range[0])
    grown = _windows(build, x, counts, op.kernel, op.strides, op.pads, op.dilations, start)
    space, _, outer = _spatial(rank, op.strides, op.dilations)
    extents = {f"k{d}": extent for d, extent in enumerate(op.kernel)}
    y = build.contracted(
        [grown], f"n c {space} -> n c {outer}", "maximum" if is_max else "add",
        shape=(*x.shape[:2], *counts), start=start, extents=extents,
    )  # fmt: skip
    if not isinstance(op, nn.AvgPoolOp):
        return build.narrowed(y, x.dtype)
    numbers = [1]
    for each in op.window_counts():
        numbers = [a * max(b, 1) for a in numbers for b in each]
    same = len(set(numbers)) == 1
    divisor = build.numbers(() if same else counts, y.dtype, numbers[:1] if same else numbers)
    return build.elementwise(lambda np, v, n: v / n, y, divisor, dtype=x.dtype)


# Matrix products --------------------------------------------------------------------------------------------------


def write_matmul(build: LinalgBuilder, op: nn.MatmulOp, operands: list[TensorValue]) -> TensorValue:
    """A contraction; batch dims broadcast, and a vector is a matrix of one row or column."""
    a, b = operands
    shape = op.infer()
    batch = shape[: len(shape) - (len(a.shape) > 1) - (len(b.shape) > 1)]
    names = [f"b{d}" for d in range(len(batch))]

    def batched(x: TensorValue) -> list[str]:
        own = x.shape[:-2]
        first = len(batch) - len(own)
        return [
            name if extent == batch[first + d] else "0"
            for d, (name, extent) in enumerate(zip(names[first:], own, strict=True))
        ]

    left = [*batched(a), *(["m"] if len(a.shape) > 1 else []), "k"]
    right = [*batched(b), "k", *(["n"] if len(b.shape) > 1 else [])]
    out = [*names, *(["m"] if len(a.shape) > 1 else []), *(["n"] if len(b.shape) > 1 else [])]
    notation = f"{' '.join(left)}, {' '.join(right)} -> {' '.join(out)}"
    return build.narrowed(build.contracted([a, b], notation, "product", shape=shape), a.dtype)


def write_gemm(build: LinalgBuilder, op: nn.GemmOp, operands: list[TensorValue]) -> TensorValue:
    """The product, times alpha, plus beta times the third operand; a transposed matrix is read that way."""
    a, b, *rest = operands
    left, right = "k m" if op.trans_a else "m k", "n k" if op.trans_b else "k n"
    y = build.contracted([a, b], f"{left}, {right} -> m n", "product", shape=op.infer())
    y = _scaled(build, y, op.alpha)
    if rest:
        c = _scaled(build, rest[0], op.beta)
        return build.elementwise(lambda np, v, w: v + w, y, c, dtype=a.dtype)
    return build.narrowed(y, a.dtype)


def _scaled(build: LinalgBuilder, x: TensorValue, factor: float) -> TensorValue:
    """`x` times `factor`, in the computed type; of integers cut off."""
    if factor == 1:
        return x
    dtype = computed_dtype(x.dtype)
    if element_type(dtype).is_float:
        return build.elementwise(lambda np, v: v * factor, x, dtype=dtype)
    return build.elementwise(lambda np, v: converted(converted(v, "f64") * factor, dtype), x)
