"""Attributes with a text of their own, written as a string: `#layout.format<"(n, c) : [c, n]">`.

Tools that know a dialect by its definition in IRDL read parameters that are attributes themselves, so there such a text
is one string. `quotable` makes a class of attributes read it as well; `layout_ir.printing` writes it on request.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from xdsl.ir import Data
from xdsl.parser import AttrParser, Parser, ParserState
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input

_D = TypeVar("_D", bound=type[Data[Any]])
_QUOTED = re.compile(r'\s*<\s*"')


def quotable(cls: _D) -> _D:
    """`cls` with a parser that also reads the text between `<` and `>` as a string; no such text may begin with one."""
    plain = cls.parse_parameter

    def parse_parameter(parser: AttrParser) -> Any:
        if _QUOTED.match(parser.lexer.input.content, parser.pos) is None:
            return plain(parser)
        with parser.in_angle_brackets():
            start = parser.pos
            text = f"<{parser.parse_str_literal()}>"
            end = parser.pos
        inner = Parser(parser.ctx, "", "")
        inner._parser_state = ParserState(type(parser.lexer)(Input(text, "")))  # pyright: ignore[reportPrivateUsage]
        try:
            value = plain(inner)
        except ParseError as error:
            parser.raise_error(error.msg, start, end)
        if inner.pos != len(text):
            parser.raise_error("expected the end of the string", start, end)
        return value

    cls.parse_parameter = staticmethod(parse_parameter)  # pyright: ignore[reportAttributeAccessIssue]
    return cls
