"""Ops that move elements: slices, concatenation, gathers, padding, tiling, resampling, and the views of a program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.ir.affine import AffineExpr

from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp
from layout_ir.dialects.layout.view_ops import SliceOp
from layout_ir.elements.element_types import element_type
from layout_ir.exits.linalg.linalg_builder import LinalgBuilder, TensorValue, unchanged
from layout_ir.exits.linalg.scalar_body import Number, Scalar, computed_dtype, converted


def write_permute(build: LinalgBuilder, op: PermuteOp, operands: list[TensorValue]) -> TensorValue:
    """linalg.transpose."""
    return build.transposed(operands[0], op.ints("perm"))


def write_reshape(build: LinalgBuilder, op: ReshapeOp, operands: list[TensorValue]) -> TensorValue:
    """tensor.collapse_shape, tensor.expand_shape."""
    return build.reshaped(operands[0], op.result_type.get_shape())


def write_slice(build: LinalgBuilder, op: nn.SliceOp | SliceOp, operands: list[TensorValue]) -> TensorValue:
    """tensor.extract_slice."""
    if isinstance(op, SliceOp):
        return build.sliced(operands[0], op.ints("starts"), op.ints("sizes"))
    return build.sliced(operands[0], op.starts, op.sizes, op.steps)


def write_concat(build: LinalgBuilder, op: nn.ConcatOp, operands: list[TensorValue]) -> TensorValue:
    """One tensor.insert_slice per part; stock bufferization has none for tensor.concat."""
    return build.joined(operands, op.axis)


def write_gather(build: LinalgBuilder, op: nn.GatherOp, operands: list[TensorValue]) -> TensorValue:
    """A tensor.extract at every element of the result."""
    x, indices = operands
    if 0 in op.infer():
        return build.empty(op.infer(), x.dtype)
    return build.gathered(x, op.axis, indices)


def write_pad(build: LinalgBuilder, op: nn.PadOp, operands: list[TensorValue]) -> TensorValue:
    """tensor.pad where the elements around are of one number, else elements of x that are taken again."""
    (x,) = operands
    rank = len(x.shape)
    before, after = op.pads[:rank], op.pads[rank:]
    if op.mode == "constant":
        number: Number = op.value if element_type(x.dtype).is_float else int(op.value)
        return build.padded(x, before, after, number)
    from layout_ir.dialects.nn.source_positions import pad_sources

    for dim in range(rank):
        if before[dim] or after[dim]:
            if not x.shape[dim]:
                shape = (*x.shape[:dim], before[dim] + after[dim], *x.shape[dim + 1 :])
                x = build.filled(shape, x.dtype, 0)
                continue
            where = pad_sources(before[dim], x.shape[dim], after[dim], op.mode)
            x = build.taken(x, dim, where.tolist())
    return x


def write_tile(build: LinalgBuilder, op: nn.TileOp, operands: list[TensorValue]) -> TensorValue:
    """Each dim behind one of its repeats, all merged pair by pair."""
    (x,) = operands
    shape: list[int] = []
    dims: list[AffineExpr] = []
    for repeats, extent in zip(op.repeats, x.shape, strict=True):
        if repeats != 1:
            shape.append(repeats)
        dims.append(AffineExpr.dimension(len(shape)))
        shape.append(extent)
    whole = [AffineExpr.dimension(d) for d in range(len(shape))]
    init = build.empty(shape, x.dtype)
    (apart,) = build.generic([(x, dims)], [(init, whole)], "p" * len(shape), unchanged)
    return build.reshaped(apart, op.infer())


def write_resize(build: LinalgBuilder, op: nn.ResizeOp, operands: list[TensorValue]) -> TensorValue:
    """Per dim, the nearest elements, or two neighbours by their shares."""
    from layout_ir.dialects.nn.source_positions import (
        nearest_positions,
        resize_positions,
        resize_scales,
    )

    (x,) = operands
    dtype, sizes = x.dtype, op.infer()
    scales = resize_scales(x.shape, op.sizes, op.scales)
    for dim, (size, scale) in enumerate(zip(sizes, scales, strict=True)):
        extent = x.shape[dim]
        if size == extent and scale == 1:
            continue
        if not size or not extent:
            x = build.filled((*x.shape[:dim], size, *x.shape[dim + 1 :]), x.dtype, 0)
            continue
        position = resize_positions(size, extent, scale, op.coordinates)
        if op.mode == "nearest":
            x = build.taken(x, dim, nearest_positions(position, extent, op.nearest_mode).tolist())
            continue
        below = [math.floor(p) for p in position.tolist()]
        above = [min(p + 1, extent - 1) for p in below]
        x = _interpolated(build, x, dim, below, above, (position - below).tolist())
    if element_type(dtype).is_float:
        return build.narrowed(x, dtype)
    # Of integers, the result is cut off.
    return build.elementwise(lambda np, v: converted(v, dtype), x, dtype=dtype, stores=True)


def _interpolated(
    build: LinalgBuilder, x: TensorValue, dim: int, below: Sequence[int], above: Sequence[int], shares: Sequence[float]
) -> TensorValue:  # fmt: skip
    """Two neighbours along `dim` by their shares, in the computed type, f64 for integers."""
    wide = computed_dtype(x.dtype) if element_type(x.dtype).is_float else "f64"
    share = build.numbers((len(shares), *(1,) * (len(x.shape) - 1 - dim)), wide, shares)
    pair = [build.taken(x, dim, positions) for positions in (below, above)]
    if not element_type(x.dtype).is_float:
        pair = [
            build.elementwise(lambda np, v: converted(v, wide), side, dtype=wide, stores=True)
            for side in pair
        ]

    def mixed(np: Any, low: Scalar, high: Scalar, s: Scalar) -> Scalar:
        return low * (1 - s) + high * s

    return build.elementwise(mixed, *pair, share, dtype=wide)
