"""Depthwise convolutions over volumes, as sums of ones over their planes.

    conv(x : n c d h w, w : c 1 k kh kw)    is    the sum over t < k of conv(plane d * stride + t of x, w[:, :, t])

The planes of all results are a batch; for each t they are another part of x, the zeros around it included. For planes
the library has kernels by channels, for volumes only those that take a group after the other. Measured with AVX2
(Zen 3), one thread, in ms, as volumes and as planes: windows of 3x3x3 over 32 channels of 64x64x64 109 and 30, over 128
of 16x16x16 7.2 and 1.3; 5x5x5 over 96 of 24x24x24 70 and 9; 7x7x7 over 32 of 32x32x32 154 and 16. ONNX Runtime takes as
long as the library does for volumes. Functions behind such a convolution go with it, to become its post-ops.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps, elements_of
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp, dtype_of, is_any
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array

_PLANES_FIRST = (0, 2, 1, 3, 4)
"""The order of dims with planes before channels, and the way back."""


def split_depthwise_volumes(module: ModuleOp) -> None:
    """Replaces, in place, convolutions of f32 with constant weights whose layouts are open."""
    for op in list(module.walk()):
        if not isinstance(op, nn.ConvOp) or len(op.strides) != 3:
            continue
        if not is_any(op.result.type) or dtype_of(op.x.type) != "f32":
            continue
        outputs, depth = shape_of(op.w)[:2]
        is_depthwise = depth == 1 and op.group == outputs == shape_of(op.x)[1]
        weights = elements_of(op.w) if is_depthwise and prod((*shape_of(op.x), *shape_of(op.w))) else None
        if weights is not None:
            _split(op, weights)


def _split(op: nn.ConvOp, weights: Array) -> None:
    functions = list(_functions_behind(op))
    last = functions[-1] if functions else op
    ops = InsertedOps(last)
    batch, channels, count, *result = shape_of(op.result)
    stride, *strides = op.strides
    dilation, *dilations = op.dilations
    (begin, *begins), (end, *ends) = op.pads[:3], op.pads[3:]
    x: SSAValue = op.x
    if begin or end:
        x = ops.apply(nn.PadOp, x, pads=(0, 0, begin, 0, 0, 0, 0, end, 0, 0))
    planes = ops.insert(PermuteOp(x, _PLANES_FIRST))
    plane = shape_of(planes)[2:]
    total: SSAValue | None = None
    for tap in range(weights.shape[2]):
        read = ops.apply(
            nn.SliceOp,
            planes,
            starts=(0, tap * dilation, 0, 0, 0),
            sizes=(batch, count, *plane),
            steps=(1, stride, 1, 1, 1),
        )
        part = ops.apply(
            nn.ConvOp,
            ops.insert(ReshapeOp(read, (batch * count, *plane))),
            ops.constant(weights[:, :, tap]),
            op.b if total is None else None,
            strides=strides,
            dilations=dilations,
            pads=(*begins, *ends),
            group=op.group,
        )
        total = part if total is None else ops.apply(nn.AddOp, total, part)
    assert total is not None
    for function in functions:
        made = function.create(
            operands=[total], result_types=[total.type], properties=dict(function.properties)
        )
        total = ops.insert(made)
    volumes = ops.insert(ReshapeOp(total, (batch, count, channels, *result)))
    ops.replace(ops.insert(PermuteOp(volumes, _PLANES_FIRST)))
    for replaced in [op, *functions][-2::-1]:
        Rewriter.erase_op(replaced)


def _functions_behind(op: nn.ConvOp) -> Iterator[nn.ElementwiseOp]:
    """Functions of one number behind `op`, each of which alone uses what the one before gives."""
    value: SSAValue = op.result
    while len(uses := list(value.uses)) == 1:
        function = uses[0].operation
        if not isinstance(function, nn.ElementwiseOp) or len(function.operands) != 1:
            return
        if dtype_of(function.result.type) != "f32" or not is_any(function.result.type):
            return
        yield function
        value = function.result
