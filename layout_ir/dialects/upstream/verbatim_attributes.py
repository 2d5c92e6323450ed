"""Attributes and types that are carried as the text that they are written with.

Nothing here looks into them: encodings of sparse tensors, quantized element types, mappings of `scf.forall`. The text
is kept but for the spaces between its words, so that two that differ in them alone are equal.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from layout_ir.dialects.upstream.word_attributes import WordAttr

_OPENING = {"<": ">", "(": ")", "[": "]", "{": "}"}


class VerbatimAttr(Data[str]):
    """The text between angle brackets, in which brackets are balanced."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        return parse_balanced(parser, cls.name)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


def parse_balanced(parser: AttrParser, name: str) -> str:
    """The text between the angle brackets at the parser's position, behind `name`."""
    text = parser.lexer.input.content
    start = parser.pos
    end = _end_of_body(text, start)
    if text[start : start + 1] != "<" or end is None:
        parser.raise_error(f"expected balanced angle brackets behind {name}", start, start + 1)
    # xDSL's lexer does not know all tokens of such texts: it continues behind them.
    parser._resume_from(end)  # pyright: ignore[reportPrivateUsage]
    parser.parse_punctuation(">")
    return " ".join(text[start + 1 : end].split())


def _end_of_body(text: str, start: int) -> int | None:
    """Where the bracket closes that opens at `start`; None where none does. Brackets in strings do not count."""
    expected: list[str] = []
    is_quoted = False
    for place in range(start, len(text)):
        character = text[place]
        if character == '"' and text[place - 1] != "\\":
            is_quoted = not is_quoted
        if is_quoted or text[place - 1 : place + 1] == "->":
            continue
        if character in _OPENING:
            expected.append(_OPENING[character])
        elif character in _OPENING.values():
            if not expected or expected.pop() != character:
                return None
            if not expected:
                return place
    return None


@irdl_attr_definition
class SparseEncodingAttr(VerbatimAttr):
    """How a sparse tensor is stored, level by level."""

    name = "sparse_tensor.encoding"


@irdl_attr_definition
class UniformQuantizedType(VerbatimAttr, TypeAttribute):
    """Integers that stand for real numbers by a scale and a zero point."""

    name = "quant.uniform"


@irdl_attr_definition
class AnyQuantizedType(VerbatimAttr, TypeAttribute):
    """Integers that stand for real numbers in a way that is not said."""

    name = "quant.any"


@irdl_attr_definition
class CalibratedQuantizedType(VerbatimAttr, TypeAttribute):
    """Real numbers of a known range."""

    name = "quant.calibrated"


@irdl_attr_definition
class AddressSpaceAttr(WordAttr):
    """A memory of a GPU, such as `workgroup`."""

    name = "gpu.address_space"


@irdl_attr_definition
class BlockMappingAttr(WordAttr):
    """The dim of the grid that runs a loop."""

    name = "gpu.block"


@irdl_attr_definition
class WarpgroupMappingAttr(WordAttr):
    """The dim of warpgroups that runs a loop."""

    name = "gpu.warpgroup"


@irdl_attr_definition
class WarpMappingAttr(WordAttr):
    """The dim of warps that runs a loop."""

    name = "gpu.warp"


@irdl_attr_definition
class LaneMappingAttr(WordAttr):
    """The dim of lanes that runs a loop."""

    name = "gpu.lane"


@irdl_attr_definition
class ThreadMappingAttr(WordAttr):
    """The dim of a block of threads that runs a loop."""

    name = "gpu.thread"


@irdl_attr_definition
class ExternAttr(Data[str]):
    """The value of a global that is defined elsewhere; the type that its text may have, with its brackets."""

    name = "ml_program.extern"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        if parser.lexer.input.content[parser.pos : parser.pos + 1] != "<":
            return ""
        return f"<{parse_balanced(parser, cls.name)}>"

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """What orders accesses of globals in a graph."""

    name = "ml_program.token"


VERBATIM_ATTRIBUTES: dict[str, tuple[type[Attribute], ...]] = {
    "ml_program": (ExternAttr, TokenType),
    "sparse_tensor": (SparseEncodingAttr,),
    "quant": (UniformQuantizedType, AnyQuantizedType, CalibratedQuantizedType),
    "gpu": (
        *(AddressSpaceAttr, BlockMappingAttr, WarpgroupMappingAttr, WarpMappingAttr, LaneMappingAttr),
        ThreadMappingAttr,
    ),
}
"""The classes by dialect."""
