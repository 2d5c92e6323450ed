"""Linear resizing, where the library's rule of coordinates is that of the op."""

from __future__ import annotations

import numpy as np

from layout_ir.backends.onednn.op_primitives.primitive_operands import (
    Candidates,
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
from layout_ir.dialects.nn.source_positions import resize_positions, resize_scales
from layout_ir.dialects.nn.tensor_types import shape_of


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


def resampling(op: nn.ResizeOp, values: Values) -> Candidates:
    """The primitives of a resize, for the operand in each of the orders of `sources_of`."""
    if not resampled_by_library(op):
        return
    y = values.layout(op.result).shape
    target = values.descriptor(op.result, writes=True)
    for source in sources_of(op, values):
        request = Request(
            "resampling_forward", (INFERENCE, Algorithm.LINEAR_RESAMPLING, None, source.descriptor, target)
        )
        yield OpPrimitive(request, {Argument.SRC: source}, target, y)
