"""An opaque ONNX node that becomes ops: its inputs and attributes, and conversions to and from real numbers."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps, elements_of
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, attribute_of, dtype_of
from layout_ir.dialects.layout.quantization_parameters import properties_of
from layout_ir.dialects.nn.tensor_types import Shape, shape_of
from layout_ir.dialects.nn.windows import resolved_pads
from layout_ir.elements.numpy_types import Array

_INTEGERS = ("i8", "ui8", "i16", "ui16", "i32")
"""Element types of quantized tensors that are converted; floats of 8 bits saturate in ways of their own."""


class Unsupported(Exception):
    """The node is used in a way that stays opaque."""


class OpaqueNode(InsertedOps):
    """An opaque node, which has a result, and the ops that are inserted in front of it."""

    def __init__(self, op: nn.OpaqueOp) -> None:
        super().__init__(op)
        self.op = op
        if op.captures.data:
            self.inputs: list[SSAValue | None] = []
        else:
            given = iter(op.operands)
            self.inputs = [next(given) if there else None for there in op.given_inputs]

    def attribute(self, name: str, default: Any = None) -> Any:
        """A number, text or list among the attributes of the node, of the type of its default where it has one."""
        found = self.op.node_attribute(name, default)
        if default is not None and type(found) is not type(default):
            raise Unsupported
        return found

    def axis(self, default: int, rank: int) -> int:
        """The dim, from 0, of a tensor of `rank` dims that the attribute `axis` names, which may count from the end."""
        axis: int = self.attribute("axis", default)
        if not -rank <= axis < rank:
            raise Unsupported
        return axis % rank

    def input(self, number: int) -> SSAValue:
        """Input `number`, which the node must have."""
        found = self.optional(number)
        if found is None:
            raise Unsupported
        return found

    def optional(self, number: int) -> SSAValue | None:
        """Input `number`; None where it is left out."""
        return self.inputs[number] if number < len(self.inputs) else None

    def constant_input(self, number: int) -> Array | None:
        """The elements of input `number`, which must be a constant or left out: None."""
        value = self.optional(number)
        if value is None:
            return None
        found = elements_of(value)
        if found is None:
            raise Unsupported
        return found

    def windows(self, x: SSAValue, kernel: Shape) -> dict[str, Shape]:
        """Strides, pads and dilations of windows over `x`, whose channels are dim 1."""
        rank = len(kernel)
        strides: Shape = self.attribute("strides", (1,) * rank)
        dilations: Shape = self.attribute("dilations", (1,) * rank)
        given: Shape = self.attribute("pads", (0,) * (2 * rank))
        automatic = self.attribute("auto_pad", "NOTSET")
        if self.attribute("channels_last", 0) or len(shape_of(x)) != rank + 2:
            raise Unsupported
        pads = resolved_pads(automatic, given, shape_of(x)[2:], kernel, strides, dilations)
        return {"strides": strides, "pads": pads, "dilations": dilations}

    # Quantization -----------------------------------------------------------------------------------------------

    def dequantized(self, value: SSAValue, scale: int, zero_point: int, dim: int | None = None) -> SSAValue:
        """The real numbers of `value`, whose scale and zero point are those inputs; one per index of `dim`, or one."""
        scales = self.constant_input(scale)
        if scales is None:
            raise Unsupported
        return self.converted(value, "f32", (scales, None), (self.constant_input(zero_point), None), dim)

    def quantized(self, value: SSAValue, scale: int, zero_point: int, dtype: str) -> SSAValue:
        """`value` in elements of `dtype`, whose scale and zero point are those inputs."""
        scales = self.constant_input(scale)
        if scales is None or scales.size != 1:
            raise Unsupported
        return self.converted(value, dtype, (None, scales), (None, self.constant_input(zero_point)))

    def converted(
        self,
        value: SSAValue,
        dtype: str,
        scales: tuple[Array | None, Array | None],
        zero_points: tuple[Array | None, Array | None],
        dim: int | None = None,
    ) -> SSAValue:
        """`value` in elements of `dtype`; scales and zero points are those of `value` and of the result."""
        every = [side for side in (*scales, *zero_points) if side is not None and side.size != 1]
        if any(side.ndim != 1 for side in every) or (every and dim is None):
            raise Unsupported
        properties = properties_of(*(tuple(map(_numbers, given)) for given in (scales, zero_points)), dim=dim)
        type = TensorType(attribute_of(dtype), shape_of(value), self._encoding)
        return self.insert(ReorderOp.create(operands=[value], result_types=[type], properties=properties))


def _numbers(side: Array | None) -> list[float] | None:
    return None if side is None else side.reshape(-1).astype(float).tolist()


def integers_of(value: SSAValue) -> str:
    """The element type of a quantized tensor."""
    dtype = dtype_of(value.type)
    if dtype not in _INTEGERS:
        raise Unsupported
    return dtype
