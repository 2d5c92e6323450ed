"""Discrete Fourier transforms as products with constant matrices of cosines and sines.

    DFT     a product along the dim that is transformed
    STFT    a convolution with the rows of the matrix, weighed by the window, which moves by the step between frames

Numbers are complex where the last dim has two elements: real and imaginary part. A product takes n^2 steps where a fast
transform takes n log n, but runs by the kernels that there are; a matrix that the last cache does not hold is none to
multiply with, and such a node stays as it is.
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array

_AXIS_IS_INPUT = 20
"""The opset from which on a DFT is told its axis by an input."""


def transformed(node: OpaqueNode) -> SSAValue:
    """The result of a DFT node of f32, whose length and axis are constants."""
    x = node.input(0)
    shape = shape_of(x)
    rank = len(shape)
    if node.op.versions.get("", 0) >= _AXIS_IS_INPUT:
        axis = _number(node, 2, -2)
    else:
        axis = node.attribute("axis", 1)
    if rank < 2 or not -rank <= axis < rank or axis % rank == rank - 1:
        raise Unsupported
    axis, parts = axis % rank, shape[-1]
    length = _number(node, 1, shape[axis])
    is_inverse, onesided = bool(node.attribute("inverse", 0)), bool(node.attribute("onesided", 0))
    if is_inverse and onesided:
        raise Unsupported  # of which releases of ONNX disagree
    matrix = _matrix(x, length, parts, onesided=onesided, is_inverse=is_inverse)
    bins = matrix.shape[2]
    extent = min(shape[axis], length)
    if extent < shape[axis]:
        sizes = tuple(extent if dim == axis else size for dim, size in enumerate(shape))
        x = node.apply(nn.SliceOp, x, starts=(0,) * rank, sizes=sizes)
    order = [dim for dim in range(rank - 1) if dim != axis] + [axis, rank - 1]
    others = [shape[dim] for dim in order[:-2]]
    rows = node.insert(ReshapeOp(node.insert(PermuteOp(x, order)), (prod(others), extent * parts)))
    # What a longer transform reads behind the end are zeros: their rows of the matrix are left out.
    columns = node.constant(matrix[:extent].reshape(extent * parts, bins * 2))
    product = node.apply(nn.MatmulOp, rows, columns)
    apart = node.insert(ReshapeOp(product, (*others, bins, 2)))
    return node.insert(PermuteOp(apart, [order.index(dim) for dim in range(rank)]))


def frames_transformed(node: OpaqueNode) -> SSAValue:
    """The result of an STFT node of f32, whose step, window and length are constants."""
    x, step, window = node.input(0), _number(node, 1, 0), node.constant_input(2)
    shape = shape_of(x)
    length = _number(node, 3, 0 if window is None else window.size)
    if len(shape) not in (2, 3) or step < 1 or (window is not None and window.shape != (length,)):
        raise Unsupported
    batch, samples, parts = (*shape, 1)[:3]
    if samples < length:
        raise Unsupported
    matrix = _matrix(x, length, parts, onesided=bool(node.attribute("onesided", 1)), is_inverse=False)
    if window is not None:
        matrix = matrix * window.reshape(-1, 1, 1, 1)
    bins = matrix.shape[2]
    channels = node.insert(ReshapeOp(x, (batch, samples, parts)))
    channels = node.insert(PermuteOp(channels, (0, 2, 1)))
    weights = node.constant(matrix.transpose(2, 3, 1, 0).reshape(bins * 2, parts, length))
    windows = {"strides": (step,), "pads": (0, 0), "dilations": (1,)}
    frames = node.apply(nn.ConvOp, channels, weights, **windows)
    apart = node.insert(ReshapeOp(frames, (batch, bins, 2, shape_of(frames)[2])))
    return node.insert(PermuteOp(apart, (0, 3, 1, 2)))


def _number(node: OpaqueNode, number: int, default: int) -> int:
    """The whole number that input `number` is, a constant; `default` where it is left out."""
    found = node.constant_input(number)
    if found is None:
        return default
    if found.size != 1 or found.dtype.kind not in "iu":
        raise Unsupported
    return int(found.reshape(-1)[0])


def _matrix(x: SSAValue, length: int, parts: int, *, onesided: bool, is_inverse: bool) -> Array:
    """What an element contributes to a frequency, as (elements, its parts, frequencies, real and imaginary part)."""
    bins = length // 2 + 1 if onesided else length
    if dtype_of(x.type) != "f32" or parts not in (1, 2) or length < 1 or not prod(shape_of(x)):
        raise Unsupported
    if (onesided and parts == 2) or length * parts * bins * 8 > host().l3:
        raise Unsupported
    turns = np.outer(np.arange(length), np.arange(bins)) % length * (2 * np.pi / length)
    cosines, sines = np.cos(turns), np.sin(turns)
    if is_inverse:
        cosines, sines = cosines / length, -sines / length
    real, imaginary = np.stack([cosines, -sines], -1), np.stack([sines, cosines], -1)
    return np.stack([real, imaginary][:parts], 1)
