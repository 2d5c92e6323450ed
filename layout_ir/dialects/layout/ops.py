"""Ops that change a layout; those that look through one are in `views`.

%r = layout.reorder %x : T -> U              the same values in another Format (and, if it differs, element type)
%r = layout.reorder %x scale = [1.0, 0.05] zero_point = [0, 3] : T -> U      of quantized tensors
%r = layout.reorder %x scale = [1.0, [0.05, 0.1]] dim = 1 : T -> U           with one number per index of dim 1
%r = layout.fill_pads %x : T -> U            the same addresses; pads now hold what U promises
%r = layout.cast %x : T -> U                 the same addresses under another Format; no code
"""

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
from layout_ir.dialects.layout.common import LayoutDialectOp
from layout_ir.dialects.layout.numbers import (
    Numbers,
    check_channels,
    numbers_of,
    numbers_text,
    parse_numbers,
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

NEUTRAL = {"scale": 1.0, "zero_point": 0.0}
"""The numbers that elements stand for themselves with."""


class ChangeOp(LayoutDialectOp):
    """The same tensor under another encoding."""

    def __init__(self, input: SSAValue | Operation, encoding: Encoding):
        value = SSAValue.get(input)
        super().__init__(operands=[value], result_types=[with_format(value.type, encoding)])


@irdl_op_definition
class ReorderOp(ChangeOp):
    """The same logical values in another Format, pads written as the result's policy says.

    Where the element type changes, values are converted; `scale` and `zero_point`, each with a number for the operand
    and one for the result, say which real numbers the elements of quantized tensors stand for:
    real = (stored - zero_point) * scale. In place of a number there may be a list with one per index of `dim`.
    `layout_ir.elements.quantization` defines both.
    """

    name = "layout.reorder"

    scale = opt_prop_def(ArrayAttr)
    zero_point = opt_prop_def(ArrayAttr)
    dim = opt_prop_def(IntegerAttr)

    @classmethod
    def parse_options(cls, parser: Parser) -> dict[str, Attribute]:
        found: dict[str, Attribute] = {}
        for name in (*NEUTRAL, "dim"):
            if parser.parse_optional_keyword(name) is not None:
                parser.parse_punctuation("=")
                found[name] = (
                    IntegerAttr(parser.parse_integer(), i64) if name == "dim" else parse_numbers(parser)
                )
        return found

    def print_options(self, printer: Printer) -> None:
        for name in NEUTRAL:
            if name in self.properties:
                printer.print_string(f" {name} = {numbers_text(self.numbers(name))}")
        if self.dim is not None:
            printer.print_string(f" dim = {self.dim.value.data}")

    def numbers(self, name: str) -> tuple[Numbers, ...]:
        """The numbers of both sides in `scale` or `zero_point`, neutral ones where it is left out."""
        return numbers_of(self.properties[name], name) if name in self.properties else (NEUTRAL[name],) * 2

    @property
    def conversion(self) -> Conversion:
        """What becomes of the elements. Raises LayoutError where the numbers do not fit the element types."""
        given = {name: self.numbers(name) for name in NEUTRAL}
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
        if self.keeps_numbers:
            return Conversion(*types)
        return conversion_between(
            *types,
            scale=given["scale"],
            # Floats have no zero point, not even one of 0.
            zero_point=tuple(x if _distinct(x) - {0.0} else None for x in given["zero_point"]),
            dim=dim,
            channels=0 if dim is None else shape[dim],
        )[0]

    @property
    def keeps_numbers(self) -> bool:
        """Whether elements stand for themselves on both sides."""
        return all(
            _distinct(side) <= {neutral} for name, neutral in NEUTRAL.items() for side in self.numbers(name)
        )

    @property
    def keeps_elements(self) -> bool:
        """Whether the result has the elements of the operand, so that only the layout differs."""
        return self.source_type.element_type == self.result_type.element_type and self.keeps_numbers

    def check(self) -> None:
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


def _distinct(numbers: Numbers) -> set[float]:
    return set(numbers) if isinstance(numbers, tuple) else {numbers}


@irdl_op_definition
class FillPadsOp(ChangeOp):
    """Pads are written with the policy of the result's type; elements stay where they are."""

    name = "layout.fill_pads"

    def check(self) -> None:
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
    """The same bytes under another Format that says the same of every element."""

    name = "layout.cast"

    def check(self) -> None:
        self.same_shape()
        self.same_element()
        if self.is_open:
            return
        source, result = layout_of(self.source_type), layout_of(self.result_type)
        reason = cast_obstacle(source, result)
        if reason is not None:
            raise LayoutError(reason)


def cast_obstacle(source: Layout, result: Layout) -> str | None:
    """Why a tensor in `source` cannot be read as `result` without touching memory; None where it can."""
    if not source.same_map(result):
        return (
            f"{source.format} and {result.format} keep {shape_text(source.shape)} at different addresses: "
            "use layout.reorder"
        )
    if result.extent > source.extent:
        return f"{result.format} needs {result.extent} elements, the buffer of {source.format} has {source.extent}"
    if result.is_padded and result.pad != "undef" and not source.same_contract(result):
        return f"{source.format} does not promise the pads of {result.format}: use layout.fill_pads"
    return None
