"""What the ops of the dialect hold: a plan, a conversion, a shape that is known in part.

#kernel.plan<width 4 src 64 dst 64 step src 0 dst 0 copy 64 parallel>
#kernel.conversion<f32 to i8, dst_scale 0.5, dst_zero 3.0>
#kernel.shape<?, 64, ?, ?>
"""

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from layout_ir.dialects.kernel.plan import Plan
from layout_ir.dialects.kernel.plan_parser import read_conversion, read_integer, read_plan
from layout_ir.dialects.layout.quoted_attributes import quotable
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import shape_text

Shape = tuple[int | None, ...]
"""One extent per dim, None where only the run time knows it."""


@quotable
@irdl_attr_definition
class PlanAttr(Data[Plan]):
    """A plan (see `layout_ir.dialects.kernel.plan`); a text is verified when it is read."""

    name = "kernel.plan"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Plan:
        with parser.in_angle_brackets():
            return read_plan(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{' '.join(str(self.data).split())}>")


@quotable
@irdl_attr_definition
class ConversionAttr(Data[Conversion]):
    """What becomes of the elements: their types, and the arithmetic in the order in which it acts.

    A parameter is a number that is compiled in or a list with one per channel, `dim D of N` behind them; or `tensor` or
    `channel` where every call has an argument for it.
    """

    name = "kernel.conversion"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Conversion:
        return read_conversion(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@quotable
@irdl_attr_definition
class ShapeAttr(Data[Shape]):
    """The shape of a tensor, `?` for extents that only the run time knows."""

    name = "kernel.shape"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Shape:
        def extent() -> int | None:
            if parser.parse_optional_punctuation("?") is not None:
                return None
            start, extent = parser.pos, read_integer(parser)
            return extent if extent >= 0 else parser.raise_error(f"extent {extent} is negative", start)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, extent))

    @property
    def text(self) -> str:
        """The extents as text, such as ?x64x?x?."""
        return shape_text(self.data)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{', '.join('?' if x is None else str(x) for x in self.data)}>")
