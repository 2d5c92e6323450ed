"""Constants that a primitive takes among its own, at no cost: the op that brings them joins its group.

    conv, add(per channel), mul(per channel)    other weights, another bias; so for a normalization
    matmul, add(row)                            its bias
    matmul, mul(number)                         a factor of all sums, in products by the library's `gemm`

Other kernels apply a number as a post-op, to sums that are still in registers (`post_op_fusion`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.library import Refused
from layout_ir.backends.onednn.op_group import Group, implementation_of
from layout_ir.backends.onednn.op_primitives import integer_primitives
from layout_ir.backends.onednn.op_primitives.primitive_operands import Values
from layout_ir.backends.onednn.primitives import Argument, PrimitiveDescriptor, Quantization
from layout_ir.dialects import nn
from layout_ir.elements.numpy_types import Array

_BIAS = {"convolution_forward": 4, "deconvolution_forward": 4, "matmul": 2, "inner_product_forward": 3}
"""The place of the bias among the arguments of a request, by primitive."""

PRODUCTS = frozenset({"matmul", "inner_product_forward"})
"""The primitives that multiply matrices."""


def absorb(group: Group, op: nn.ElementwiseOp, value: SSAValue, values: Values) -> bool:
    """Gives the primitive of `group` the constant by which `op` changes `value`, its result; whether it could."""
    return any(way(group, op, value, values) for way in (_scale_constants, _scale_product, _add_row))


def _scale_constants(group: Group, op: nn.ElementwiseOp, value: SSAValue, values: Values) -> bool:
    """Multiplies or shifts the constants of a convolution or normalization by those of `op`, one per channel; whether
    that is what `op` is."""
    head = group.ops[0]
    if not isinstance(op, nn.AddOp | nn.MulOp) or not isinstance(head, nn.ConvOp | nn.BatchNormOp):
        return False
    assert group.primitive is not None
    shape = values.layout(value).shape
    other = op.operands[1] if op.operands[0] is value else op.operands[0]
    constant = values.constant(other)
    if constant is None or group.primitive.post_ops or group.primitive.quantization:
        return False
    wide = constant.reshape((1,) * (len(shape) - constant.ndim) + constant.shape)
    if any(extent != 1 for d, extent in enumerate(wide.shape) if d != 1):
        return False
    channels = np.broadcast_to(wide.reshape(-1), shape[1:2])
    shift = Argument.BIAS if isinstance(head, nn.ConvOp) else Argument.SHIFT
    scaled = Argument.WEIGHTS if isinstance(head, nn.ConvOp) else Argument.SCALE
    if isinstance(op, nn.AddOp):
        old = group.operands.get(shift)
        if old is None and isinstance(head, nn.ConvOp):
            return _add_bias(group, channels, values)
        if old is None or old.constant is None:
            return False
        group.operands[shift] = replace(old, constant=old.constant + channels)
        return True
    touched = [argument for argument in (scaled, shift) if argument in group.operands]
    if any(group.operands[argument].constant is None for argument in touched):
        return False
    for argument in touched:
        old = group.operands[argument]
        assert old.constant is not None
        lead = (
            (head.group, -1)
            if isinstance(head, nn.ConvOp) and head.group > 1 and argument is scaled
            else (-1,)
        )
        factor = channels.reshape(*lead, *(1,) * (old.constant.ndim - len(lead)))
        group.operands[argument] = replace(old, constant=old.constant * factor)
    return True


def _add_bias(group: Group, channels: Array, values: Values) -> bool:
    """Gives a convolution that has none the bias `channels`; whether there is an implementation with one."""
    return _set_bias(group, np.ascontiguousarray(channels), values)


def _add_row(group: Group, op: nn.ElementwiseOp, value: SSAValue, values: Values) -> bool:
    """Gives a product of matrices the constant row that `op` adds as its bias, which costs nothing; whether it did."""
    primitive = group.primitive
    assert primitive is not None
    if not isinstance(op, nn.AddOp) or not isinstance(group.ops[0], nn.MatmulOp):
        return False
    if primitive.post_ops or primitive.quantization or Argument.BIAS in group.operands:
        return False
    other = op.operands[1] if op.operands[0] is value else op.operands[0]
    constant, shape = values.constant(other), values.layout(other).shape
    extents = broadcast_extents(shape, values.layout(value).shape, primitive.extents)
    if constant is None or extents is None or any(extent != 1 for extent in extents[:-1]):
        return False
    row = np.broadcast_to(np.broadcast_to(constant, shape).reshape(-1), primitive.extents[-1:])
    ones = (1,) * (len(extents) - 1) if primitive.request.name == "matmul" else ()
    return _set_bias(group, row.reshape(*ones, -1), values)


def _set_bias(group: Group, constant: Array, values: Values) -> bool:
    """Gives the primitive of a group, which has none, a bias; whether there is an implementation with one."""
    assert group.primitive is not None and group.descriptor is not None
    operand, bias = values.packed(np.ascontiguousarray(constant))
    request = group.primitive.request
    place = _BIAS[request.name]
    arguments = (*request.arguments[:place], bias, *request.arguments[place + 1 :])
    request = replace(request, arguments=arguments)
    try:
        descriptor = PrimitiveDescriptor(values.library, request)
    except Refused:
        return False
    if descriptor.is_slow and not group.descriptor.is_slow:
        return False
    group.descriptor = descriptor
    group.primitive = replace(group.primitive, request=request)
    group.operands[Argument.BIAS] = operand
    return True


def _scale_product(group: Group, op: nn.ElementwiseOp, value: SSAValue, values: Values) -> bool:
    """Gives a product by the library's `gemm` the number that `op` multiplies or divides by as a factor of all sums,
    which costs nothing; whether it did.

    Measured on Zen 3, two products of 1152x8 by 8x1152, in ms, with a factor and without 2.55 and 2.53.
    """
    primitive = group.primitive
    assert primitive is not None and group.descriptor is not None
    if not isinstance(op, nn.MulOp | nn.DivOp) or not goes_over_products_again(group.descriptor):
        return False
    if primitive.post_ops or primitive.quantization or Argument.BIAS in group.operands:
        return False
    factor = _factor(op, value, values)
    if factor is None:
        return False
    scale = Argument.SCALE_OF | Argument.SRC
    scaled = replace(primitive, quantization=(Quantization(scale, 0),))
    try:
        descriptor = implementation_of(values.library, scaled)
    except Refused:
        return False
    if descriptor.implementation != group.descriptor.implementation:
        return False
    group.primitive, group.descriptor = scaled, descriptor
    group.operands[scale] = integer_primitives.vector(values.library, [factor], np.float32)
    return True


def _factor(op: nn.MulOp | nn.DivOp, value: SSAValue, values: Values) -> float | None:
    """The number by which `op` multiplies all elements of `value`.

    None where there is none, or it is no normal number in f32: products leave out their sums where they are multiplied
    by zero, NaN among them, and the inverse of what is almost zero has no digits.
    """
    other = op.operands[1] if op.operands[0] is value else op.operands[0]
    number = values.scalar(other)
    if number is None or (isinstance(op, nn.DivOp) and (other is op.operands[0] or number == 0)):
        return None
    factor = 1 / number if isinstance(op, nn.DivOp) else number
    limits = np.finfo(np.float32)
    return factor if limits.tiny <= abs(factor) <= limits.max else None


def goes_over_products_again(descriptor: PrimitiveDescriptor | None) -> bool:
    """Whether a product of matrices applies post-ops to its finished result, slower than a step of their own does.

    That is so of products by the library's `gemm`: with AVX2 (Zen 3), 128x64 by 64x1024, ns per element, as a post-op
    and by a step of its own: a row that is added 0.95 and 0.13, relu 0.5 and 0.1, hard swish 0.4 and 0.2, GELU 1.1 and
    0.9. A tensor that is added in place costs 0.2 either way.
    """
    assert descriptor is not None
    return descriptor.request.name == "matmul" and descriptor.implementation.startswith("gemm")


def takes_post_ops(descriptor: PrimitiveDescriptor) -> bool:
    """Whether a convolution applies post-ops, and a bias, to what is in registers, and once.

    One by products over unrolled windows goes over its result again, one element after the other: in 3.2 a relu takes
    1 ns per element there and a sum 5 ns, a primitive of its own 0.1 ns. So does a deconvolution that is the gradient
    of a convolution, of any kind: a relu takes 80 ns per element on blocks of 8 channels, a bias 8 (Zen 3, AVX2). What
    adds to partial sums (`adds_to_parts`) would be wrong.
    """
    name, kind = descriptor.implementation, descriptor.request.name
    if kind == "deconvolution_forward" and (name.startswith("conv:") or adds_to_parts(descriptor)):
        return False
    return "gemm" not in name or kind not in ("convolution_forward", "deconvolution_forward")


def adds_to_parts(descriptor: PrimitiveDescriptor) -> bool:
    """Whether a deconvolution may apply its bias to partial sums, and so more than once.

    In 3.2 results are wrong by half of the largest value from 320 channels on in windows of 3x3x3, from 1024 on in 3x3;
    without a bias they are right.
    """
    return "brgconv_strided" in descriptor.implementation


def takes_broadcast(name: str, extents: Sequence[int]) -> bool:
    """Whether the primitive `name` combines its result with a constant of `extents`, broadcast to it.

    A convolution does, and the product of two matrices with a row. In 3.2 others compute something else for some shapes
    (a binary primitive per channel on one pixel, a softmax per channel on NCHW, pools and resamplings along space), and
    products in batches that do not lie in row-major order crash.
    """
    if name in PRODUCTS:
        return len(extents) == 2 and extents[0] == 1
    return name in ("convolution_forward", "deconvolution_forward")


def broadcast_extents(
    shape: tuple[int, ...], result: tuple[int, ...], extents: tuple[int, ...]
) -> tuple[int, ...] | None:
    """A tensor of `shape`, broadcast to `result`, as extents that broadcast to those that the primitive knows.

    None where there are none, or the primitive has dims of its own."""
    wide = (1,) * (len(result) - len(shape)) + shape
    if not extents:
        return None
    if extents == result:
        return wide
    if all(extent == 1 for extent in wide):
        return (1,) * len(extents)
    if all(extent == 1 for extent in wide[:-1]) and result[-1] == extents[-1]:
        return (*(1 for _ in extents[:-1]), wide[-1])
    return None
