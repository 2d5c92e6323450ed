"""A parser of IR text that gives every op its place in the source.

xDSL's parser fills the location of an op only from a trailing `loc(...)`. `LocatedParser` adds the position of
the op's name to every op that has none, as MLIR does for its diagnostics. It also turns exceptions of the constructors
of attributes and ops into parse errors, which have a place, and does not spell out large splats: of
`dense<1.0> : tensor<64x1024x1024xf32>` one element is kept, where xDSL's parser needs 1.5 GB. And elements of floats in
hexadecimal are bit patterns, as MLIR writes NaN and infinities in `dense<0xFF800000> : tensor<4xf32>`: xDSL's parser
takes that for 4286578688.0.

Cost: about a tenth of the parse time (one bisection and one attribute per op).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Any, NoReturn, cast

from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FileLineColLoc,
    Float80Type,
    Float128Type,
    FloatAttr,
    IntAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnknownLoc,
    i1,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue
from xdsl.parser import AttrParser, Parser, ParserState, UnresolvedOperand
from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRLexer

from layout_ir.dialects.layout.irdl_segments import drop_segment_sizes
from layout_ir.elements.packed_bits import unpacked_bits
from layout_ir.errors import LayoutError
from layout_ir.rendering import did_you_mean


class _Lexer(MLIRLexer):
    # xDSL's expression nests one repetition in another and needs exponential time to find that a string does not
    # end. This one accepts the same strings in linear time.
    _unescaped_characters_regex = re.compile(r'"[^"\\\n\v\f]*(?:\\(?:["nt\\]|[0-9A-Fa-f]{2})[^"\\\n\v\f]*)*"')


_LARGEST, _ALLOWED = 1_000_000, 100
"""Attributes to which all uses of aliases may expand together, not counting the first `_ALLOWED` of each use: a type
with its format has five. Forty lines, each an alias of the one before twice, expand to 2^40."""


class _Aliases(dict[str, Attribute]):
    """The aliases of a program. Raises LayoutError where their uses expand to more than `_LARGEST` attributes."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[int, int] = {}
        self._used = 0

    def __setitem__(self, name: str, attribute: Attribute) -> None:
        self._size(attribute)
        super().__setitem__(name, attribute)

    def __getitem__(self, name: str) -> Attribute:
        attribute = super().__getitem__(name)
        self._used += max(self._size(attribute) - _ALLOWED, 0)
        if self._used > _LARGEST:
            raise LayoutError(f"aliases up to '{name}' stand for more than {_LARGEST} attributes in all")
        return attribute

    def _size(self, attribute: Attribute) -> int:
        """The number of attributes in `attribute`, itself included, each counted as often as it occurs.

        Sizes are kept by identity: an attribute that aliases share is one object, which lives as long as they do.
        """
        known = self._sizes.get(id(attribute))
        if known is None:
            known = self._sizes[id(attribute)] = 1 + sum(map(self._size, _parts(attribute)))
        return known


_SPLAT = re.compile(r'<\s*[^\s>\["]')
"""The beginning of a dense literal that is one value: no list, no text of bytes, and not empty."""

_BYTES = re.compile(r'<\s*"0x')
"""The beginning of a dense literal that is a text of bytes."""


class _BitPattern(Parser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """A number in hexadecimal. Of a signaling NaN the quiet one is read, as of a scalar."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        if isinstance(self.value, tuple):
            parser.raise_error("complex numbers are read in decimal only", self.span.start, self.span.end)
        if not isinstance(type, AnyFloat):
            return super().to_type(parser, type)
        try:
            if self.span.text.startswith("-"):
                raise OverflowError
            return next(type.iter_unpack(int(self.span.text, 16).to_bytes(type.compile_time_size, "little")))
        except OverflowError:
            digits = 2 * type.compile_time_size
            message = f"an element of {type} in hexadecimal is its bits, {digits} digits at most and no sign"
            parser.raise_error(message, self.span.start, self.span.end)


_LARGE_SPLAT = 1 << 16
"""Elements from which on a splat is kept as one: below, it is what xDSL makes of it."""


def _parts(attribute: Attribute) -> Iterable[Attribute]:
    match attribute:
        case ParametrizedAttribute():
            return attribute.parameters
        case ArrayAttr():
            return attribute.data
        case DictionaryAttr():
            return attribute.data.values()
        case _:
            return ()


_CUSTOM_NAME = re.compile(r"([a-z_]+)\.[A-Za-z_0-9.]+")

_MLIR = frozenset(
    {
        "affine", "arith", "async", "bufferization", "cf", "complex", "index", "linalg", "math", "memref",
        "ml_program", "quant", "scf", "shape", "sparse_tensor", "tensor", "tosa", "ub", "vector",
    }
)  # fmt: skip
"""Dialects of MLIR that programs about tensors are written in."""

_TO_LINALG = {
    "chlo": "iree-opt --iree-stablehlo-input-transformation-pipeline",
    "stablehlo": "iree-opt --iree-stablehlo-input-transformation-pipeline",
    "torch": "iree-opt --torch-backend-to-linalg-on-tensors-backend-pipeline",
}
"""Dialects that are not known here, and what makes linalg of them, which is."""


def _way_in(dialect: str) -> str:
    """The end of a message about a dialect that is not known here: what makes linalg of its programs."""
    tool = _TO_LINALG.get(dialect)
    return "" if tool is None else f"; for layouts to be chosen, make linalg of it: {tool}"


class LocatedParser(Parser):
    """A parser of IR text that gives each op a `FileLineColLoc`.

    `line_offset` is added to every line, for a text that is a later part of the file `name`.
    """

    def __init__(self, ctx: Context, text: str, name: str, line_offset: int = 0):
        super().__init__(ctx, "", name)
        self._parser_state = ParserState(_Lexer(Input(text, name)))
        self.attribute_aliases = _Aliases()
        self._line_offset = line_offset
        self._file = StringAttr(name)
        self._line_starts = [0]
        position = text.find("\n")
        while position >= 0:
            self._line_starts.append(position + 1)
            position = text.find("\n", position + 1)
        self._splat: re.Match[str] | None = None
        """The beginning of the literal being read, where that may be a splat."""
        self._whole_type: Any = None
        """The type of the literal being read, where it is read as if it had one element."""
        self._resource_handles: dict[tuple[str, str], str] = {}
        """The names of the resources of this text in the store of their dialect, by dialect and name."""
        self._op_names: list[int] = []
        """Positions of the names of the ops being parsed, outermost first."""
        self._first_uses: dict[str, Span] = {}
        """Where each name is used first that is not defined yet."""

    def location(self, position: int) -> FileLineColLoc:
        """The location attribute of an offset into the text."""
        line = bisect_right(self._line_starts, position)
        col = position - self._line_starts[line - 1] + 1
        return FileLineColLoc(self._file, IntAttr(line + self._line_offset), IntAttr(col))

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr[Any]:
        around = self._splat, self._whole_type  # of a literal whose type has this one in its encoding
        if _BYTES.match(self.lexer.input.content, self.pos):
            self._splat = None
            literal = self._parse_bytes(type)
            self._splat = around[0]
            return literal
        self._splat = _SPLAT.match(self.lexer.input.content, self.pos)
        self._whole_type = None
        literal = super().parse_dense_int_or_fp_elements_attr(type and self._read_as(type))
        whole = self._whole_type
        self._splat, self._whole_type = around
        return literal if whole is None else DenseIntOrFPElementsAttr(whole, literal.data)

    def _parse_bytes(self, type: Any) -> DenseIntOrFPElementsAttr[Any]:
        """A literal of bytes in hexadecimal: the elements one behind the other, or one for all."""
        self.parse_punctuation("<")
        start = self.pos
        text = self.parse_str_literal()
        end = self.pos
        self.parse_punctuation(">", " in dense attribute")
        if type is None:
            self.parse_punctuation(":", " in dense attribute")
            type = super()._parse_dense_literal_type()
        element, count = type.get_element_type(), prod(type.get_shape())
        size = element.compile_time_size
        try:
            data = bytes.fromhex(text[2:])
        except ValueError as error:
            self.raise_error(f"the literal is no row of bytes: {error}", start, end)
        if element == i1:
            data = unpacked_bits(data, count)
        if len(data) == size and count < _LARGE_SPLAT:
            data *= count
        elif len(data) not in (size, size * count):
            self.raise_error(
                f"the literal has {len(data)} bytes, its type {count} elements of {size} bytes", start, end
            )
        return DenseIntOrFPElementsAttr(type, BytesAttr(data))

    def _parse_dense_literal_type(self) -> Any:
        return self._read_as(super()._parse_dense_literal_type())

    def _parse_tensor_literal_element(self) -> Parser._TensorLiteralElement:
        element = super()._parse_tensor_literal_element()
        if "0x" not in element.span.text:
            return element
        return _BitPattern(element.is_negative, element.value, element.span)

    def _read_as(self, type: Any) -> Any:
        """The type as which the elements of a literal are read: that of one element, where it is a large splat."""
        if self._splat is None or prod(type.get_shape()) < _LARGE_SPLAT:
            return type
        self._whole_type = type
        return TensorType(type.get_element_type(), [1])

    def _parse_dialect_resource_handle(self, dialect_name: str, interface: OpAsmDialectInterface) -> str:
        """The name under which the dialect keeps a resource: another one than in the text, where a program that was
        read before has one of that name. xDSL asks for a new one at each mention then, and loses the data."""
        key = self.parse_identifier()
        handle = self._resource_handles.get((dialect_name, key))
        if handle is None:
            handle = self._resource_handles[dialect_name, key] = interface.declare_resource(key)
        return handle

    def _parse_external_resources(self) -> None:
        """Skips what other tools keep in a file, as the options of a crash: it says nothing of the program."""

        def skip_value() -> None:
            if self.parse_optional_boolean() is None and self.parse_optional_str_literal() is None:
                self.parse_number()

        def skip_entry() -> None:
            self.parse_identifier_or_str_literal()
            self.parse_punctuation(":")
            skip_value()

        def skip_tool() -> None:
            self.parse_identifier_or_str_literal()
            self.parse_punctuation(":")
            self.parse_comma_separated_list(self.Delimiter.BRACES, skip_entry)

        self.parse_comma_separated_list(self.Delimiter.BRACES, skip_tool)

    def resolve_operand(self, operand: UnresolvedOperand, type: Any) -> SSAValue[Any]:
        name = operand.operand_name
        if name not in self.ssa_values and name not in self.forward_ssa_references:
            self._first_uses[name] = operand.span
        return super().resolve_operand(operand, type)

    def parse_optional_attribute(self) -> Attribute | None:
        start = self.pos
        attribute = super().parse_optional_attribute()
        if isinstance(attribute, FloatAttr):
            type = cast("FloatAttr[AnyFloat]", attribute).type
            if isinstance(type, Float80Type | Float128Type):
                # xDSL rounds them to 64 bits, and does not print them.
                self.raise_error(f"numbers of {type} are not read", start, self.pos)
        return cast("Attribute | None", attribute)

    def parse_operation(self) -> Operation:
        self._op_names.append(self.pos)
        op = super().parse_operation()
        drop_segment_sizes(op)
        position = self._op_names.pop()
        if isinstance(op.location, UnknownLoc):
            op.location = self.location(position)
        return op

    def _parse_op_result_list(self) -> list[tuple[Span, int]]:
        results = super()._parse_op_result_list()
        self._op_names[-1] = self.pos
        return results

    def _get_op_by_name(self, name: str) -> type[Operation]:
        try:
            return super()._get_op_by_name(name)
        except ParseError:
            # xDSL points at what comes after the name.
            start = self._op_names[-1]
            self.raise_error(f"unknown operation '{name}'{self._hint(name)}", start, start + len(name))

    def _hint(self, name: str) -> str:
        """The end of the message about an unknown op name: similar names, or that there is no such dialect."""
        prefix = name.partition(".")[0]
        if prefix not in self.ctx.registered_dialect_names:
            return f": there is no dialect '{prefix}'{_way_in(prefix)}"
        known = [op.name for op in self.ctx.get_dialect(prefix).operations]
        return did_you_mean(name, known)

    def parse_program(self, allow_implicit_module: bool = True) -> ModuleOp:
        """The whole text as a module. Raises `ParseError` for every text that is not one."""
        try:
            module = self.parse_module(allow_implicit_module)
        except ParseError as error:
            undefined = next(iter(self.forward_ssa_references), None)
            if undefined is not None and error.msg.startswith("values used but not defined"):
                error.msg, error.span = f"%{undefined} is used but not defined", self._first_uses[undefined]
            else:
                error.msg = self._clearer(error)
            error.span = replace(error.span, line_offset=self._line_offset)
            raise
        except (DiagnosticException, LayoutError) as error:
            self._fail(str(error), error)
        except RecursionError as error:
            self._fail("nested too deeply", error)
        except Exception as error:
            # Parsing hooks of dialects raise any exception on malformed text; the user still needs a place.
            reason = f"{type(error).__name__}: {error}".removesuffix(": ")
            start = self._op_names[-1] if self._op_names else self._current_token.span.start
            self._fail(f"cannot be parsed ({reason}){self._proposal()}", error, start)
        if isinstance(module.location, UnknownLoc):
            module.location = self.location(0)
        return module

    def _clearer(self, error: ParseError) -> str:
        """The message of a parse error, in place of some of xDSL's that do not say what is expected."""
        if error.msg == "Could not parse entire input!":
            message = "expected an operation"
        elif not error.msg.strip() or error.msg.startswith(" "):
            message = f"unexpected token{error.msg}"
        elif error.msg.startswith("Operation builtin.unregistered ") and self._op_names:
            text, start = self.lexer.input.content, self._op_names[-1]
            name = text[start : error.span.start].strip()
            dialect = name.partition(".")[0]
            known = dialect in self.ctx.registered_dialect_names
            what = f"op '{name}' is not known" if known else f"there is no dialect '{dialect}'"
            return (
                f"{what}: '{name}' is read in its generic form alone, which tools of MLIR "
                f"print with --mlir-print-op-generic{_way_in(dialect)}"
            )
        else:
            message = error.msg
        at_end = error.span.start >= len(self.lexer.input.content.rstrip())
        proposal = "" if "is used with type" in message else self._proposal()
        return (f"{message}, found the end of the file" if at_end else message) + proposal

    def _proposal(self) -> str:
        """The end of the message about an op of another dialect in custom form, which may be one that only MLIR reads:
        how to get the generic form."""
        text = self.lexer.input.content
        name = None if not self._op_names else _CUSTOM_NAME.match(text, self._op_names[-1])
        if name is None or name[1] not in _MLIR:
            return ""
        return (
            f"; if this is how MLIR writes '{name[0]}', its generic form can be read: "
            "mlir-opt --mlir-print-op-generic FILE | layout-opt --allow-unregistered-dialect"
        )

    def _fail(self, message: str, cause: BaseException, start: int | None = None) -> NoReturn:
        """Raise a parse error with this message at `start`, else at the token that was about to be read."""
        start = self._current_token.span.start if start is None else start
        raise ParseError(Span(start, start + 1, self.lexer.input, self._line_offset), message) from cause
