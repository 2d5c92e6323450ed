"""What loops and micro-kernels say besides numbers: lists with a short spelling.

#kernel.cuts<cols:16, rows:16>                          a tile's schedule, outermost first
#kernel.offsets<0:0, 16:32>                             source and destination bytes, round by round
#kernel.conversion<f32 to i8, ratio 20.0, dst_zero 3.0>  the element types, and the arithmetic between them
#kernel.levels<1: for 4 src 4 dst 8, 4: <0:0, 64:16>>   the digits of a ragged dim, fine to coarse
"""

from dataclasses import dataclass
from typing import cast

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from layout_ir.elements.element_types import canonical_name
from layout_ir.elements.quantization import PARAMETERS, Conversion, Parameter
from layout_ir.errors import LayoutError

Offsets = tuple[tuple[int, int], ...]
"""(source, destination) bytes of every round."""


@dataclass(frozen=True, slots=True)
class Steady:
    """`count` rounds, `src` and `dst` bytes apart."""

    count: int
    src: int
    dst: int


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit of a ragged dim: steps of `unit` positions."""

    unit: int
    move: Steady | Offsets
    channel: int = 0
    """Channels from one round to the next, in a plan that converts."""

    @property
    def rounds(self) -> int:
        return self.move.count if isinstance(self.move, Steady) else len(self.move)

    @property
    def moves(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Every offset or stride, of source and destination."""
        pairs = [(self.move.src, self.move.dst)] if isinstance(self.move, Steady) else self.move
        return tuple(src for src, _ in pairs), tuple(dst for _, dst in pairs)

    def offset(self, k: int) -> tuple[int, int, int]:
        """Where round `k` reads and writes, and by how many channels it is further."""
        move = self.move
        src, dst = (k * move.src, k * move.dst) if isinstance(move, Steady) else move[k]
        return src, dst, k * self.channel


def _parse_offsets(parser: AttrParser) -> Offsets:
    def pair() -> tuple[int, int]:
        src = parser.parse_integer()
        parser.parse_punctuation(":")
        return src, parser.parse_integer()

    return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, pair))


def _offsets_text(offsets: Offsets) -> str:
    return f"<{', '.join(f'{src}:{dst}' for src, dst in offsets)}>"


@irdl_attr_definition
class CutsAttr(Data[tuple[tuple[str, int], ...]]):
    """The loops of a tile's schedule: `rows` or `cols` in blocks."""

    name = "kernel.cuts"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, int], ...]:
        def cut() -> tuple[str, int]:
            axis = parser.expect(
                lambda: parser.parse_optional_keyword("rows") or parser.parse_optional_keyword("cols"),
                "expected 'rows' or 'cols'",
            )
            parser.parse_punctuation(":")
            return axis, parser.parse_integer()

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, cut))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{', '.join(f'{axis}:{size}' for axis, size in self.data)}>")


@irdl_attr_definition
class OffsetsAttr(Data[Offsets]):
    """Where the rounds of a table loop read and write."""

    name = "kernel.offsets"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Offsets:
        return _parse_offsets(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(_offsets_text(self.data))


@irdl_attr_definition
class LevelsAttr(Data[tuple[Digit, ...]]):
    """The digits of a ragged dim."""

    name = "kernel.levels"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Digit, ...]:
        def digit() -> Digit:
            unit = parser.parse_integer()
            parser.parse_punctuation(":")
            if parser.parse_optional_keyword("for") is None:
                return Digit(unit, _parse_offsets(parser), channel())
            count = parser.parse_integer()
            parser.parse_keyword("src")
            src = parser.parse_integer()
            parser.parse_keyword("dst")
            return Digit(unit, Steady(count, src, parser.parse_integer()), channel())

        def channel() -> int:
            return parser.parse_integer() if parser.parse_optional_keyword("channel") is not None else 0

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, digit))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{', '.join(map(_digit_text, self.data))}>")


def _digit_text(digit: Digit) -> str:
    move = digit.move
    channel = f" channel {digit.channel}" if digit.channel else ""
    if isinstance(move, Steady):
        return f"{digit.unit}: for {move.count} src {move.src} dst {move.dst}{channel}"
    return f"{digit.unit}: {_offsets_text(move)}{channel}"


@irdl_attr_definition
class ConversionAttr(Data[Conversion]):
    """What becomes of the elements: their types, and the arithmetic in the order in which it acts.

    A step is a number that is compiled in or a list with one per channel, `dim D of N` behind them; or `tensor` or
    `channel` where every call brings one along.
    """

    name = "kernel.conversion"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Conversion:
        with parser.in_angle_brackets():
            src = _parse_dtype(parser)
            parser.parse_keyword("to")
            dst = _parse_dtype(parser)
            found: dict[str, Parameter] = {}
            dim, channels = None, 0
            while parser.parse_optional_punctuation(",") is not None:
                if parser.parse_optional_keyword("dim") is not None:
                    dim = parser.parse_integer()
                    parser.parse_keyword("of")
                    channels = parser.parse_integer()
                    break
                name = parser.parse_identifier("a parameter")
                if name not in PARAMETERS:
                    parser.raise_error(f"unknown parameter '{name}', expected {', '.join(PARAMETERS)}")
                kind = parser.parse_optional_keyword("tensor") or parser.parse_optional_keyword("channel")
                found[name] = _parse_numbers(parser) if kind is None else cast("Parameter", kind)
            try:
                return Conversion(
                    src, dst, found.get("src_zero"), found.get("ratio"), found.get("beta"), found.get("dst_zero"),
                    dim, channels,
                )  # fmt: skip
            except LayoutError as error:
                parser.raise_error(str(error))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


def _parse_numbers(parser: AttrParser) -> Parameter:
    numbers = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_number)
    return float(parser.parse_number()) if numbers is None else tuple(map(float, numbers))


def _parse_dtype(parser: AttrParser) -> str:
    name = parser.parse_identifier("an element type")
    try:
        return canonical_name(name)
    except LayoutError as error:
        parser.raise_error(str(error))
