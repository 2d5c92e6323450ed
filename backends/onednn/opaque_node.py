"""An opaque ONNX node that becomes ops in front of it: its inputs and attributes, and how ops are inserted."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    NoneAttr,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.backends.reference.semantics import literal_array
from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr, ReorderOp, attribute_of, dtype_of, is_any, with_format
from layout_ir.dialects.nn.constant import literal
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array, storage

_INTEGERS = ("i8", "ui8", "i16", "ui16", "i32")
"""Element types of quantized tensors that are converted; floats of 8 bits saturate in ways of their own."""


class Unsupported(Exception):
    """The node is used in a way that stays opaque."""


class OpaqueNode:
    """An opaque node whose ops are inserted in front of it."""

    def __init__(self, op: nn.OpaqueOp) -> None:
        self.op = op
        if op.captures.data:
            self.inputs: list[SSAValue | None] = []
        else:
            given = iter(op.operands)
            self.inputs = [next(given) if there else None for there in op.given_inputs]
        self._made: list[Operation] = []
        self._builder = Builder(InsertPoint.before(op))
        self._encoding = AnyAttr() if is_any(op.results[0].type) else NoneAttr()

    def take_back(self) -> None:
        """Erases what was inserted."""
        for made in reversed(self._made):
            Rewriter.erase_op(made)

    def attribute(self, name: str, default: Any = None) -> Any:
        """A number, text or list among the attributes of the node."""
        return self.op.node_attribute(name, default)

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

    def constant(self, values: Array, dtype: str = "f32") -> SSAValue:
        """A constant with elements of `dtype`."""
        type = TensorType(attribute_of(dtype), values.shape)
        data = literal(type, np.asarray(values, storage(dtype)).tobytes())
        return self.insert(nn.ConstantOp(data, with_format(type, self._encoding)))

    def apply(self, op: type[nn.NNOp], *operands: SSAValue | None, **attributes: Any) -> SSAValue:
        """The result of an op on those operands that are given."""
        return self.insert(op(*(x for x in operands if x is not None), **attributes))

    def insert(self, op: Operation) -> SSAValue:
        """The one result of `op`, which is inserted."""
        op.location = self.op.location
        result = op.results[0]
        wanted = with_format(result.type, self._encoding)
        if result.type != wanted:
            result = Rewriter.replace_value_with_new_type(result, wanted)
        op.verify_()
        self._builder.insert(op)
        self._made.append(op)
        return result

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
        properties: dict[str, Attribute] = {}
        per_channel = False
        for name, neutral, sides in (("scale", 1.0, scales), ("zero_point", 0.0, zero_points)):
            attributes: list[Attribute] = []
            for side in sides:
                if side is None or side.size == 1:
                    number = neutral if side is None else float(side.reshape(-1)[0])
                    attributes.append(FloatAttr(number, f64))
                elif side.ndim == 1 and dim is not None:
                    per_channel = True
                    attributes.append(DenseArrayBase.from_list(f64, [float(x) for x in side]))
                else:
                    raise Unsupported
            properties[name] = ArrayAttr(attributes)
        if per_channel:
            assert dim is not None
            properties["dim"] = IntegerAttr(dim, i64)
        type = TensorType(attribute_of(dtype), shape_of(value), self._encoding)
        return self.insert(ReorderOp.create(operands=[value], result_types=[type], properties=properties))


def elements_of(value: SSAValue) -> Array | None:
    """The elements of a constant in their shape; None for what is computed."""
    op = value.owner
    if not isinstance(op, nn.ConstantOp):
        return None
    return np.broadcast_to(literal_array(op), shape_of(value))


def integers_of(value: SSAValue) -> str:
    """The element type of a quantized tensor."""
    dtype = dtype_of(value.type)
    if dtype not in _INTEGERS:
        raise Unsupported
    return dtype
