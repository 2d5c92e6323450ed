"""Biases as ops of their own, behind kernels that go over their result once more to add them.

    conv_transpose(x, w, b), relu     becomes   conv_transpose(x, w), add(b per channel), relu

The library has deconvolutions that are the gradient of a convolution, and adds the bias behind it, one element after
the other. Measured with AVX2 (Zen 3), 64 channels of 112x112 to 32 of 224x224, windows of 3x3, in ms, without a bias
and with one: on blocks of 8 channels 6.7 and 18.9, with a relu besides 156; row-major 10.9 and 20 to 28. The sum and
the relu in one loop take 0.7. Those that may add it to partial sums (`adds_to_parts`) would be wrong with one.
"""

from __future__ import annotations

from xdsl.dialects.func import FuncOp

from layout_ir.backends.onednn.absorbed_constants import adds_to_parts, takes_post_ops
from layout_ir.backends.onednn.library import Library
from layout_ir.backends.onednn.op_group import FEW_ELEMENTS, single_op_group
from layout_ir.backends.onednn.op_primitives.primitive_operands import Values
from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps, elements_of
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReshapeOp, dtype_of


def take_biases_apart(function: FuncOp, library: Library) -> None:
    """Takes biases out of such kernels, in place; layouts are chosen."""
    values = Values(library)
    for op in list(function.walk()):
        if isinstance(op, nn.ConvTransposeOp) and op.b is not None and dtype_of(op.result.type) == "f32":
            _take_apart(op, values)


def _take_apart(op: nn.ConvTransposeOp, values: Values) -> None:
    assert op.b is not None
    bias = elements_of(op.b)
    descriptor = single_op_group(op, values).descriptor
    if descriptor is None or takes_post_ops(descriptor):
        return
    result = values.layout(op.result)
    if not adds_to_parts(descriptor) and (bias is None or result.nelems < FEW_ELEMENTS):
        return
    ops = InsertedOps(op)
    windows = op.create(operands=[op.x, op.w], result_types=[op.result.type], properties=dict(op.properties))
    windows.attributes.update(op.attributes)
    product = ops.insert_typed(windows)
    shape = (1, result.shape[1], *(1,) * (result.rank - 2))
    channels = ops.insert(ReshapeOp(op.b, shape)) if bias is None else ops.constant(bias.reshape(shape))
    ops.replace(
        ops.insert_typed(nn.AddOp.create(operands=[product, channels], result_types=[op.result.type]))
    )
