"""Products of quantized tensors by primitives on 8-bit integers, whose results are quantized before they are written.

    dequantize(x)  --+
                     +-- conv or product -- relu -- quantize        one primitive: u8 or s8 by s8, sums in s32
    dequantize(w)  --+

Integers stand for (stored - zero_point) * scale. The primitive takes stored numbers, and scales and zero points as
arguments of the execution: of the left operand one, of the weights a scale per output, of the result one. Bias,
activations and sums act on real numbers. Weights are constants; their zero point is subtracted when they are packed,
after which they must be s8. A sum of two quantized tensors is `binary`, which knows scales and no zero points: a linear
function behind it has those.

What the library has no fast implementation for runs on floats: tensors are converted by compiled reorders around it.
So does what it has no exact one for. Without the instructions of VNNI its kernels add the products of two unsigned and
two signed bytes in 16 bits, which saturate. They are exact where no weight is beyond 64, as where a quantizer was told
to use 7 bits; but not for signed sources, for which the library halves the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.tag import names_for
from layout_ir.backends.onednn import memory_descriptors as descriptors
from layout_ir.backends.onednn.library import Library, Refused
from layout_ir.backends.onednn.memory_descriptors import MemoryDescriptor
from layout_ir.backends.onednn.op_primitives.candidates import builders_of
from layout_ir.backends.onednn.op_primitives.elementwise_functions import BINARY
from layout_ir.backends.onednn.op_primitives.primitive_operands import Operand, OpPrimitive, Values, lie_alike
from layout_ir.backends.onednn.primitives import (
    Algorithm,
    Argument,
    EltwisePostOp,
    Quantization,
    Request,
)
from layout_ir.backends.onednn.quantized_values import Dequantized, dequantized
from layout_ir.backends.reference.semantics import literal_array
from layout_ir.dialects import nn
from layout_ir.dialects.layout import OptionAttr, ReorderOp, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array
from layout_ir.interfaces import OPTIONS, LayoutOption
from layout_ir.passes.selection.options.conv_kernels import activation

_SEVEN_BITS = 64
"""The largest weight of which two, times 255 each, add up to a number of 16 bits: 32640."""


class _StoredValues(Values):
    """Values of which some are known as the integers that they are dequantized from.

    Constants among them are packed where they are `weights`, and elsewhere lie where the program has them.
    """

    def __init__(self, library: Library, stored: dict[SSAValue, Dequantized], weights: SSAValue) -> None:
        super().__init__(library)
        self._stored = stored
        self._weights = weights
        self._constants: dict[SSAValue, Array] = {}

    def layout(self, value: SSAValue) -> Layout:
        found = self._stored.get(value)
        return super().layout(value if found is None else found.stored)

    def dtype(self, value: SSAValue) -> str:
        found = self._stored.get(value)
        if found is None:
            return super().dtype(value)
        # They are packed without their zero point, as s8.
        is_packed = value is self._weights and isinstance(found.stored.owner, nn.ConstantOp)
        return "i8" if is_packed else super().dtype(found.stored)

    def constant(self, value: SSAValue) -> Array | None:
        found = self._stored.get(value)
        if found is None:
            return super().constant(value)
        if value is not self._weights:
            return None
        if value not in self._constants:
            array = super().constant(found.stored)
            if array is None:
                return None
            self._constants[value] = _without_zero_point(array, found)
        return self._constants[value]


def _without_zero_point(stored: Array, found: Dequantized) -> Array:
    """The integers less their zero points, as s8. Raises Refused where they are not."""
    if stored.dtype == np.int8 and not any(found.zero_point):
        return stored
    shape = [1] * stored.ndim
    if len(found.zero_point) > 1:
        assert found.dim is not None
        shape[found.dim] = -1
    numbers = np.subtract(
        stored, np.asarray(found.zero_point).astype(np.int32).reshape(shape), dtype=np.int32
    )
    if np.min(numbers, initial=0) < -128 or np.max(numbers, initial=0) > 127:
        raise Refused("weights less their zero point are no integers of 8 bits")
    return numbers.astype(np.int8)


def integer_candidates(op: Operation, library: Library) -> Iterator[OpPrimitive]:
    """Primitives for `op` on the integers that its operands are dequantized from; none for other ops and operands."""
    if isinstance(op, nn.ConvOp | nn.MatmulOp | nn.GemmOp):
        yield from _products(op, library)
    elif isinstance(op, nn.AddOp | nn.SubOp | nn.MulOp):
        yield from _binary(op, library)


def _products(op: nn.ConvOp | nn.MatmulOp | nn.GemmOp, library: Library) -> Iterator[OpPrimitive]:
    left, right = op.operands[:2]
    x, w = dequantized(left), dequantized(right)
    if x is None or w is None or not x.is_per_tensor:
        return
    if isinstance(op, nn.GemmOp) and op.alpha != 1:
        w = replace(w, scale=tuple(scale * op.alpha for scale in w.scale))
    rank = len(shape_of(right))
    outputs = 0 if isinstance(op, nn.ConvOp) or (isinstance(op, nn.GemmOp) and op.trans_b) else rank - 1
    if len(w.scale) > 1 and w.dim != outputs:
        return
    stored = _StoredValues(library, {left: x, right: w}, right)
    is_constant = isinstance(w.stored.owner, nn.ConstantOp)
    if not is_constant and (dtype_of(w.stored.type) != "i8" or any(w.zero_point)):
        return
    if not is_exact(library, x, w):
        return
    for build in builders_of(op):
        try:
            for found in build(op, stored):
                yield _on_stored(op, found, x, w)
        except Refused:
            continue


def is_exact(library: Library, x: Dequantized, w: Dequantized) -> bool:
    """Whether the library's sums of products of the integers of x and w, with their zero points, are those integers."""
    if library.sums_bytes_exactly:
        return True
    constant = w.stored.owner
    if dtype_of(x.stored.type) != "ui8" or not isinstance(constant, nn.ConstantOp):
        return False
    stored = np.broadcast_to(literal_array(constant), shape_of(w.stored))
    try:
        weights = _without_zero_point(stored, w)
    except Refused:
        return False
    return bool(np.max(weights, initial=0) <= _SEVEN_BITS and np.min(weights, initial=0) >= -_SEVEN_BITS)


def _on_stored(
    op: nn.ConvOp | nn.MatmulOp | nn.GemmOp, found: OpPrimitive, x: Dequantized, w: Dequantized
) -> OpPrimitive:
    """The primitive with scales and zero points. Raises Refused where it takes the operands the other way round."""
    left = op.operands[0]
    operands = dict(found.operands)
    source, weights = operands[Argument.SRC], operands[Argument.WEIGHTS]
    if source.value is not left:
        raise Refused("the integers of the left operand are those of the source")
    operands[Argument.SRC] = replace(source, value=x.stored)
    if weights.value is not None:
        operands[Argument.WEIGHTS] = replace(weights, value=w.stored)
    is_conv = isinstance(op, nn.ConvOp)
    mask = (3 if op.group > 1 else 1) if isinstance(op, nn.ConvOp) else 1 << (len(found.extents) - 1)
    if not is_conv and not found.extents:
        raise Refused("its dims stand in another order")
    quantization = [
        Quantization(Argument.SCALE_OF | Argument.SRC, 0),
        Quantization(Argument.SCALE_OF | Argument.WEIGHTS, mask if len(w.scale) > 1 else 0),
    ]
    operands[Argument.SCALE_OF | Argument.SRC] = vector(op_library(found), x.scale, np.float32)
    operands[Argument.SCALE_OF | Argument.WEIGHTS] = vector(op_library(found), w.scale, np.float32)
    if any(x.zero_point):
        quantization.append(Quantization(Argument.ZERO_POINT_OF | Argument.SRC, 0))
        operands[Argument.ZERO_POINT_OF | Argument.SRC] = vector(op_library(found), x.zero_point, np.int32)
    return replace(found, operands=operands, quantization=tuple(quantization))


def op_library(primitive: OpPrimitive) -> Library:
    """The library that a primitive is asked of."""
    return primitive.result.library


def vector(library: Library, numbers: Sequence[float], dtype: Any) -> Operand:
    """An argument of an execution that holds `numbers`."""
    array = np.asarray(numbers, dtype)
    return Operand(
        None, descriptors.row_major(library, array.shape, descriptors.dtype_of_array(array)), array
    )


def _binary(op: nn.BinaryOp, library: Library) -> Iterator[OpPrimitive]:
    """The primitive for two tensors that lie alike: sums and differences have one constant, of both zero points;
    factors have none."""
    sides = [dequantized(value) for value in op.operands]
    first, second = sides
    if first is None or second is None or not (first.is_per_tensor and second.is_per_tensor):
        return
    shift = 0.0
    a, b = first.zero_point[0] * first.scale[0], second.zero_point[0] * second.scale[0]
    match op:
        case nn.AddOp():
            shift = -(a + b)
        case nn.SubOp():
            shift = b - a
        case _:
            if a or b:
                return
    values = Values(library)
    y = values.layout(op.results[0])
    if not all(lie_alike(values.layout(s.stored), y) for s in (first, second)):
        return
    if any(values.constant(s.stored) is not None for s in (first, second)):
        return
    flat = [descriptors.row_major(library, (y.extent,), dtype_of(s.stored.type)) for s in (first, second)]
    target = descriptors.row_major(library, (y.extent,))
    request = Request("binary", (BINARY[type(op)], *flat, target))
    operands = {
        Argument.SRC: Operand(first.stored, flat[0]),
        Argument.SRC_1: Operand(second.stored, flat[1]),
        Argument.SCALE_OF | Argument.SRC: vector(library, first.scale, np.float32),
        Argument.SCALE_OF | Argument.SRC_1: vector(library, second.scale, np.float32),
    }
    quantization = tuple(Quantization(Argument.SCALE_OF | k, 0) for k in (Argument.SRC, Argument.SRC_1))
    post_ops = (EltwisePostOp(Algorithm.LINEAR, 1.0, shift),) if shift else ()
    yield OpPrimitive(request, operands, target, (y.extent,), post_ops, quantization)


def quantized_result(
    primitive: OpPrimitive, op: ReorderOp, scale: float, zero_point: float
) -> OpPrimitive | None:
    """`primitive` with its result stored as the integers of `op`; None where it is none that can write integers."""
    library = op_library(primitive)
    values = Values(library)
    layout, dtype = values.layout(op.result), dtype_of(op.result.type)
    if not lie_alike(values.layout(op.input), layout) or layout.is_padded:
        return None
    if not primitive.is_on_integers:
        return None  # that of floats writes integers wrong (binary) or slowly
    whole = primitive.extents == (layout.extent,) != layout.shape
    result = (
        retyped(primitive.result, dtype)
        if not whole
        else descriptors.row_major(library, (layout.extent,), dtype)
    )
    # The last of those that are said alike: of one row of sums the bias in front has the same descriptor.
    before = primitive.request.arguments
    last = max(number for number, argument in enumerate(before) if argument is primitive.result)
    request = replace(primitive.request, arguments=(*before[:last], result, *before[last + 1 :]))
    post_ops = [*primitive.post_ops, EltwisePostOp(Algorithm.LINEAR, 1 / scale, 0.0)]
    if zero_point:
        # A zero point among the attributes is added before the library rounds. ONNX rounds first.
        post_ops += [
            EltwisePostOp(Algorithm.ROUND, 0.0, 0.0),
            EltwisePostOp(Algorithm.LINEAR, 1.0, zero_point),
        ]
    return replace(primitive, request=request, result=result, post_ops=tuple(post_ops))


def retyped(descriptor: MemoryDescriptor, dtype: str) -> MemoryDescriptor:
    """The same places for elements of another type. Raises Refused for a descriptor in blocks."""
    said = descriptor.blocking()
    if said.inner_blks:
        raise Refused("tensors of integers do not lie in blocks")
    return descriptors.strided(descriptor.library, said.dims, said.strides, dtype)


def state_integer_options(module: ModuleOp, library: Library) -> None:
    """Gives each convolution or product of a quantized tensor with quantized weights, in place, the one option that the
    library has for it: channels last, or row-major.

    A target prices the op of floats that the program says. Of convolutions on integers there are compiled kernels for
    no other order; products whose left operand lies transposed take 1.5 to 2.5 times as long (196x192 by 192x192 on a
    Zen 4: 54 and 24 us). The cost of a single option decides nothing.
    """
    for op in list(module.walk()):
        if not isinstance(op, nn.ConvOp | nn.GemmOp | nn.MatmulOp) or OPTIONS in op.attributes:
            continue
        x, w = dequantized(op.operands[0]), dequantized(op.operands[1])
        if x is None or w is None or not isinstance(w.stored.owner, nn.ConstantOp):
            continue
        tensors = [Format.row_major(names_for(len(shape_of(v)))) for v in (*op.operands, op.results[0])]
        if isinstance(op, nn.ConvOp):
            if not 3 <= len(shape_of(op.x)) <= 5:
                continue
            tensors[0] = tensors[-1] = activation(len(op.strides), "nSc").with_pad("undef")
        elif len(shape_of(w.stored)) != 2 or (isinstance(op, nn.GemmOp) and op.trans_a):
            continue
        if is_exact(library, x, w):
            option = LayoutOption(tuple(tensors[:-1]), (tensors[-1],), 1)
            op.attributes[OPTIONS] = ArrayAttr([OptionAttr(option)])
