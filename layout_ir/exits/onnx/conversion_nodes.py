"""A reorder that converts elements, as nodes: the steps of `layout_ir.elements.quantization`, one by one.

DequantizeLinear is Cast, Sub, Mul. QuantizeLinear is not the other half: what it makes of NaN, which becomes 0 here,
is up to whoever runs it.
"""

from __future__ import annotations

from typing import cast

from layout_ir.dialects.layout import ReorderOp
from layout_ir.elements.element_types import element_type
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError
from layout_ir.exits.onnx.node_writer import NodeWriter
from layout_ir.exits.onnx.operator_versions import DATA_TYPES

_QUANTIZED = ("i8", "ui8")
_OPERATORS = {"src_zero": "Sub", "src_scale": "Mul", "dst_scale": "Div", "dst_zero": "Add"}


def write_conversion(write: NodeWriter, op: ReorderOp) -> None:
    """Writes the nodes for a reorder that keeps the layout. Raises LayoutError where operators cannot do the same."""
    steps = _Steps(write, op)
    conversion = op.conversion
    if conversion.dst == "f32" and conversion.src in _QUANTIZED and conversion.src_scale is not None:
        steps.dequantize(conversion)
    else:
        steps.convert(conversion)


class _Steps:
    """A chain of nodes for one reorder. The value so far, `x`, has elements of `dtype`."""

    def __init__(self, write: NodeWriter, op: ReorderOp):
        self.write = write
        self.op = op
        self.x = write.name_of(op.input)
        self.dtype = op.conversion.src

    def node(self, op_type: str, *others: str, last: bool = False, **attributes: int) -> None:
        """A node on the value so far and on `others`; the `last` one makes the result."""
        outputs = None if last else [self.write.temporary(self.op)]
        (self.x,) = self.write.node(self.op, op_type, [self.x, *others], outputs, **attributes)

    def cast(self, dtype: str, *, last: bool = False) -> None:
        """Converts the value to elements of `dtype`, as ONNX casts."""
        if dtype != self.dtype or last:
            self.node("Cast", last=last, to=DATA_TYPES[dtype])
            self.dtype = dtype

    def parameter(self, value: object, name: str, dtype: str, *, vector: bool = False) -> str:
        """An initializer for a parameter: a number, or one per channel that lies along the dim of the channels."""
        if not isinstance(value, tuple):
            return self.write.number(cast(float, value), dtype, name)
        values, dim = cast("tuple[float, ...]", value), self.op.conversion.dim
        rank = len(self.op.source_type.get_shape())
        behind = () if vector or dim is None else (1,) * (rank - dim - 1)
        return self.write.numbers(values, dtype, name, (len(values), *behind))

    def dequantize(self, conversion: Conversion) -> None:
        """One DequantizeLinear."""
        zero = conversion.src_zero
        if conversion.dim is not None and not isinstance(conversion.src_scale, tuple):
            raise LayoutError("one scale for zero points per channel is nothing that DequantizeLinear has")
        if isinstance(conversion.src_scale, tuple) and zero is not None and not isinstance(zero, tuple):
            zero = (zero,) * len(conversion.src_scale)
        others = [self.parameter(conversion.src_scale, "scale", "f32", vector=True)]
        if zero is not None:
            others.append(self.parameter(zero, "zero_point", conversion.src, vector=True))
        attributes = {} if conversion.dim is None else {"axis": conversion.dim}
        self.node("DequantizeLinear", *others, last=True, **attributes)

    def convert(self, conversion: Conversion) -> None:
        """The steps of the definition: into the type of the arithmetic, the parameters, and to the destination."""
        if conversion.parameters:
            self.cast(conversion.computes)
            for name, value in conversion.parameters.items():
                if name == "dst_zero":
                    self.node("Round")
                self.node(_OPERATORS[name], self.parameter(value, name, self.dtype))
        source, target = element_type(self.dtype), element_type(conversion.dst)
        if target.kind != "bool" and not target.is_float and source.kind != "bool":
            if source.is_float:
                self._round(conversion.dst)
            else:
                self._saturate(conversion.dst)
        self.cast(conversion.dst, last=True)

    def _round(self, dtype: str) -> None:
        """Rounds to the nearest integer within the bounds of `dtype`; not a number becomes 0."""
        low, high = element_type(dtype).range
        if self.dtype in ("f16", "bf16"):
            self.cast("f32")
        if self.dtype == "f32" and float(high) >= 2**24:
            self.cast("f64")
        if self.dtype == "f64" and float(high) >= 2**53:
            raise LayoutError(f"the bounds of {dtype} are no numbers of f64, to which Clip could saturate")
        number = self.x
        self.node("IsNaN")
        is_nan, self.x = self.x, number
        self.node("Round")
        self.node(
            "Clip", self.write.number(low, self.dtype, "min"), self.write.number(high, self.dtype, "max")
        )
        number, self.x = self.x, is_nan
        self.node("Where", self.write.number(0.0, self.dtype, "zero"), number)

    def _saturate(self, dtype: str) -> None:
        """Within the bounds of `dtype`, which are numbers of the type so far or beyond those."""
        (low, high), (least, most) = element_type(dtype).range, element_type(self.dtype).range
        if low > least or high < most:
            bounds = [
                self.write.number(int(bound), self.dtype, name)
                for name, bound in (("min", max(low, least)), ("max", min(high, most)))
            ]
            self.node("Clip", *bounds)
