"""Ops that change a layout; those that look through one are in `view_ops`.

%r = layout.reorder %x : T -> U              the same values in another Format (and, if it differs, element type)
%r = layout.reorder %x scale = [1.0, 0.05] zero_point = [0, 3] : T -> U      of quantized tensors, per-tensor
%r = layout.reorder %x scale = [1.0, [0.05, 0.1]] dim = 1 : T -> U           per-channel along dim 1
%r = layout.fill_pads %x : T -> U            the same addresses; pads now hold what U promises
%r = layout.cast %x : T -> U                 the same addresses under another Format; no code
"""

from functools import lru_cache

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import pad_after
from layout_ir.dialects.layout.layout_op import LayoutDialectOp
from layout_ir.dialects.layout.quantization_parameters import (
    QuantizationParameter,
    check_channels,
    parse_sides,
    sides_of,
    sides_text,
)
from layout_ir.dialects.layout.types import (
    Encoding,
    dtype_of,
    format_of,
    is_any,
    layout_of,
    with_format,
)
from layout_ir.elements.quantization import Conversion, conversion_between
from layout_ir.errors import LayoutError, shape_text

UNQUANTIZED = {"scale": 1.0, "zero_point": 0.0}
"""The quantization parameters with which every element stands for its own value."""


class ChangeOp(LayoutDialectOp):
    """An op whose result has the shape and element type of the operand, under another encoding."""

    def __init__(self, input: SSAValue | Operation, encoding: Encoding):
        value = SSAValue.get(input)
        super().__init__(operands=[value], result_types=[with_format(value.type, encoding)])


@irdl_op_definition
class ReorderOp(ChangeOp):
    """The same logical values in another Format; pads are written as the policy of the result asks.

    Where the element type changes, values are converted. The quantization parameters `scale` and `zero_point`, each
    with one entry for the operand and one for the result, say which real numbers stored elements stand for:
    real = (stored - zero_point) * scale. An entry is one number, or a list with one per index of `dim`.
    `layout_ir.elements.quantization` defines rounding and saturation.
    """

    name = "layout.reorder"

    scale = opt_prop_def(ArrayAttr)
    zero_point = opt_prop_def(ArrayAttr)
    dim = opt_prop_def(IntegerAttr)

    @classmethod
    def parse_options(cls, parser: Parser) -> dict[str, Attribute]:
        """`scale`, `zero_point` and `dim`, those that are given, in this order."""
        found: dict[str, Attribute] = {}
        for name in (*UNQUANTIZED, "dim"):
            if parser.parse_optional_keyword(name) is not None:
                parser.parse_punctuation("=")
                found[name] = (
                    IntegerAttr(parser.parse_integer(), i64) if name == "dim" else parse_sides(parser)
                )
        return found

    def print_options(self, printer: Printer) -> None:
        """Prints ` scale = [...] zero_point = [...] dim = N`, those that are given."""
        for name in UNQUANTIZED:
            if name in self.properties:
                printer.print_string(f" {name} = {sides_text(self.quantization_parameter(name))}")
        if self.dim is not None:
            printer.print_string(f" dim = {self.dim.value.data}")

    def quantization_parameter(self, name: str) -> tuple[QuantizationParameter, ...]:
        """Property `name`, "scale" or "zero_point", of operand and result; 1 or 0 for both where it is left out.

        Raises LayoutError where the property holds anything but numbers.
        """
        stated = self.properties.get(name)
        return (UNQUANTIZED[name],) * 2 if stated is None else sides_of(stated, name)

    @property
    def conversion(self) -> Conversion:
        """The conversion of each element. Raises LayoutError where the quantization parameters do not fit the shape or
        the element types."""
        given = {name: self.quantization_parameter(name) for name in UNQUANTIZED}
        dim, shape = None if self.dim is None else self.dim.value.data, self.source_type.get_shape()
        for name, sides in given.items():
            if len(sides) != 2:
                raise LayoutError(
                    f"{name} has {len(sides)} numbers, expected two: the operand's and the result's"
                )
            check_channels(name, sides, dim, shape)
        if dim is not None and not any(isinstance(side, tuple) for sides in given.values() for side in sides):
            raise LayoutError(
                f"dim = {dim} says where channels are, but no list has a number for each: leave it out"
            )
        types = dtype_of(self.source_type), dtype_of(self.result_type)
        if self.is_unquantized:
            return Conversion(*types)
        return _conversion(*types, given["scale"], given["zero_point"], dim, 0 if dim is None else shape[dim])

    @property
    def is_unquantized(self) -> bool:
        """Whether scale and zero point are 1 and 0 on both sides, so that an element stands for its own value."""
        return UNQUANTIZED.keys().isdisjoint(self.properties) or all(
            _distinct(side) <= {neutral}
            for name, neutral in UNQUANTIZED.items()
            for side in self.quantization_parameter(name)
        )

    @property
    def keeps_elements(self) -> bool:
        """Whether the result has the elements of the operand bit for bit, so that only the layout differs."""
        return self.source_type.element_type == self.result_type.element_type and self.is_unquantized

    def check(self) -> None:
        """Raises LayoutError unless both sides have one shape, the parameters fit the types, the result's pads can hold
        the converted policy, and no two elements of the result share an address."""
        self.same_shape()
        conversion = self.conversion
        if self.is_dynamic:
            for type in (self.source_type, self.result_type):
                if not is_any(type) and format_of(type) is None:
                    raise LayoutError(f"{type} has no layout: its encoding is {type.encoding}")
            format = format_of(self.result_type)
            if format is not None:
                pad_after(format.pad, conversion)
        elif not self.is_open:
            destination = layout_of(self.result_type)
            pad_after(destination.pad, conversion)
            layout_of(self.source_type)
            if destination.is_injective(padded=destination.pad != "undef") is False:
                raise LayoutError(
                    f"the destination {destination.format} keeps several elements at one address"
                )


@lru_cache(maxsize=1024)
def _conversion(
    source: str,
    result: str,
    scale: tuple[QuantizationParameter, ...],
    zero_point: tuple[QuantizationParameter, ...],
    dim: int | None,
    channels: int,
) -> Conversion:
    """The conversion that the parameters of both sides make. An op is asked for it when it is verified, when options
    are looked for, and for each of its kernels."""
    return conversion_between(
        source,
        result,
        scale=scale,
        # Floats have no zero point, not even one of 0.
        zero_point=tuple(x if _distinct(x) - {0.0} else None for x in zero_point),
        dim=dim,
        channels=channels,
    )[0]


def _distinct(parameter: QuantizationParameter) -> set[float]:
    return set(parameter) if isinstance(parameter, tuple) else {parameter}


@irdl_op_definition
class FillPadsOp(ChangeOp):
    """Pads are written with the policy of the result's type; elements stay where they are."""

    name = "layout.fill_pads"

    def check(self) -> None:
        """Raises LayoutError unless both sides store elements and pads at the same addresses and the result promises
        something of its pads."""
        self.same_shape()
        self.same_element()
        if self.is_open:
            return
        source, result = layout_of(self.source_type), layout_of(self.result_type)
        if not source.same_store(result):
            raise LayoutError(
                f"layout.fill_pads moves nothing, but {source.format} and {result.format} store "
                f"{shape_text(source.shape)} differently: use layout.reorder"
            )
        if result.pad == "undef":
            raise LayoutError("layout.fill_pads to pad = undef writes nothing: name what the pads shall hold")


@irdl_op_definition
class CastOp(ChangeOp):
    """The same buffer under another Format in which every element has the same address; no code."""

    name = "layout.cast"

    def check(self) -> None:
        """Raises LayoutError where the buffer of the operand cannot be read in the result's format as it is."""
        self.same_shape()
        self.same_element()
        if self.is_open:
            return
        source, result = layout_of(self.source_type), layout_of(self.result_type)
        reason = cast_obstacle(source, result)
        if reason is not None:
            raise LayoutError(reason)


def can_cast(source: Layout, result: Layout) -> bool:
    """Whether a tensor in `source` can be read as `result` without touching memory."""
    return (
        source.same_map(result)
        and result.extent <= source.extent
        and (not result.is_padded or result.pad == "undef" or source.same_contract(result))
    )


def cast_obstacle(source: Layout, result: Layout) -> str | None:
    """Why a tensor in `source` cannot be read as `result` without touching memory; None where it can."""
    if can_cast(source, result):
        return None
    if not source.same_map(result):
        return (
            f"{source.format} and {result.format} keep {shape_text(source.shape)} at different addresses: "
            "use layout.reorder"
        )
    if result.extent > source.extent:
        return (
            f"{result.format} needs {result.extent} elements, the buffer of {source.format} has {source.extent}: "
            "use layout.reorder"
        )
    return f"{source.format} does not promise the pads of {result.format}: use layout.fill_pads"
