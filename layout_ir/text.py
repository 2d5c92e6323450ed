"""The text form of a Format: one attribute, one spelling.

    format  ::= `(` (id (`,` id)*)? `)` `:` `[` (factor (`,` factor)*)? (`|` factor (`,` factor)*)? `]` (`,` field)*
    factor  ::= id (`:` size)? (`*` stride)? (`@` axis)?
    field   ::= `pad` `=` (`undef` | `zero` | `zp` | number) | `offset` `=` int | `lo` `=` `[` ints `]`
              | `size` `=` int | `swizzle` `=` `(` bits `,` base `,` shift `)`

`print_format(parse_format(t))` is the canonical spelling of t: defaults left out, fields in the order above. Errors
carry the span of the offending part, so that a tool can point at it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn

from layout_ir.errors import LayoutError
from layout_ir.format import MEMORY, Factor, Format, PadPolicy

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|(?P<id>[A-Za-z_]\w*)|(?P<punct>[()\[\]:,|*@=-])",
    re.ASCII,
)
_FIELDS = ("pad", "offset", "lo", "size", "swizzle")
_LIMIT = 1 << 63


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _tokens(text: str) -> list[_Token]:
    result: list[_Token] = []
    pos = 0
    while pos < len(text):
        match = _TOKEN.match(text, pos)
        if match is None:
            raise LayoutError(f"unexpected character {text[pos]!r} in format", (pos, pos + 1))
        if match.lastgroup != "space":
            result.append(_Token(str(match.lastgroup), match.group(), pos))
        pos = match.end()
    result.append(_Token("end", "", len(text)))
    return result


@dataclass(slots=True)
class _Parser:
    """Recursive descent over the tokens of one format."""

    tokens: list[_Token]
    names: list[str] = field(default_factory=list[str])
    pos: int = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.pos]

    def fail(self, message: str, token: _Token | None = None) -> NoReturn:
        token = token or self.token
        raise LayoutError(message, (token.start, max(token.end, token.start + 1)))

    def accept(self, text: str) -> bool:
        if self.token.text == text and self.token.kind != "end":
            self.pos += 1
            return True
        return False

    def expect(self, text: str, where: str) -> None:
        if not self.accept(text):
            found = f"'{self.token.text}'" if self.token.text else "the end"
            self.fail(f"expected '{text}' {where}, found {found}")

    def identifier(self, what: str) -> _Token:
        token = self.token
        if token.kind != "id":
            self.fail(f"expected {what}, found {repr(token.text) if token.text else 'the end'}")
        self.pos += 1
        return token

    def integer(self, what: str) -> int:
        negative = self.accept("-")
        token = self.token
        if token.kind != "number" or not token.text.isdigit():
            self.fail(f"expected an integer {what}, found {repr(token.text) if token.text else 'the end'}")
        # Bounded before conversion: a text of a million digits must not cost seconds.
        if len(token.text) > 19 or int(token.text) >= _LIMIT:
            self.fail(f"{what} {token.text[:24]} is not below 2^63")
        self.pos += 1
        return -int(token.text) if negative else int(token.text)

    def size(self, name: str) -> int:
        token = self.token
        value = self.integer(f"as the size of '{name}'")
        if value < 1:
            self.fail(f"factor '{name}:{value}' has size {value}, sizes start at 1", token)
        return value

    def factor(self) -> Factor:
        token = self.identifier("a dim name")
        if token.text not in self.names:
            self.fail(f"unknown dim '{token.text}': the format declares ({', '.join(self.names)})", token)
        size = self.size(token.text) if self.accept(":") else None
        stride = self.integer(f"as the stride of '{token.text}'") if self.accept("*") else None
        axis = self.identifier("an axis name behind '@'").text if self.accept("@") else MEMORY
        return Factor(self.names.index(token.text), size, stride, axis)

    def factors(self, *ends: str) -> tuple[Factor, ...]:
        result: list[Factor] = []
        if self.token.text in ends:
            return ()
        while True:
            result.append(self.factor())
            if not self.accept(","):
                return tuple(result)

    def policy(self) -> PadPolicy:
        token = self.token
        if token.kind == "id" and token.text in ("undef", "zero", "zp"):
            self.pos += 1
            return token.text
        sign = -1 if self.accept("-") else 1
        token = self.token
        if token.kind == "id" and token.text == "inf":
            self.pos += 1
            return sign * math.inf
        if token.kind != "number":
            self.fail(f"pad policy {token.text!r} is none of undef, zero, zp or a number", token)
        if sign < 0 and token.text == str(_LIMIT):  # the least i64, neutral in a maximum
            self.pos += 1
            return -_LIMIT
        if token.text.isdigit():
            return sign * self.integer("as a pad value")
        self.pos += 1
        return sign * float(token.text)

    def format(self) -> Format:
        self.expect("(", "before the dim names")
        while not self.accept(")"):
            if self.names:
                self.expect(",", "between dim names")
            token = self.identifier("a dim name")
            if token.text in self.names:
                self.fail(f"dim '{token.text}' is declared twice", token)
            self.names.append(token.text)
        self.expect(":", "between the dim names and the factors")
        opening = self.token
        self.expect("[", "before the factors")
        factors = self.factors("|", "]")
        bar = self.accept("|")
        chunk = self.factors("]") if bar else ()
        if bar and not chunk:
            self.fail("expected the factors of a chunk behind '|'")
        closing = self.token
        self.expect("]", "behind the factors")
        fields: dict[str, Any] = {}
        while self.accept(","):
            token = self.identifier("a field")
            if token.text not in _FIELDS:
                self.fail(f"unknown field '{token.text}': the fields are {', '.join(_FIELDS)}", token)
            if token.text in fields:
                self.fail(f"field '{token.text}' is given twice", token)
            self.expect("=", f"behind '{token.text}'")
            fields[token.text] = self.field(token.text)
        if self.token.kind != "end":
            self.fail(f"unexpected {self.token.text!r} behind the format")
        try:
            return Format(tuple(self.names), factors, chunk, **fields)
        except LayoutError as error:
            raise LayoutError(str(error), error.span or (opening.start, closing.end)) from None

    def field(self, name: str) -> Any:
        match name:
            case "pad":
                return self.policy()
            case "offset" | "size":
                return self.integer(f"as the {name}")
            case "lo":
                return self.integers("[", "]", "lo")
            case _:
                token = self.token
                values = self.integers("(", ")", "swizzle")
                if len(values) != 3:
                    self.fail(f"swizzle has {len(values)} numbers, expected (bits, base, shift)", token)
                return values

    def integers(self, opening: str, closing: str, name: str) -> tuple[int, ...]:
        self.expect(opening, f"behind '{name} ='")
        values: list[int] = []
        while not self.accept(closing):
            if values:
                self.expect(",", f"between the numbers of '{name}'")
            values.append(self.integer(f"in '{name}'"))
        return tuple(values)


@lru_cache(maxsize=4096)
def parse_format(text: str) -> Format:
    """The Format that `text` spells. Raises LayoutError with the span of the offending part."""
    return _Parser(_tokens(text)).format()


def print_policy(pad: PadPolicy) -> str:
    """The spelling of a pad policy."""
    return pad if isinstance(pad, str) else repr(pad)


def _print_factors(format: Format, factors: tuple[Factor, ...]) -> str:
    parts: list[str] = []
    for factor in factors:
        text = format.names[factor.dim]
        text += "" if factor.size is None else f":{factor.size}"
        text += "" if factor.stride is None else f"*{factor.stride}"
        text += "" if factor.axis == MEMORY else f"@{factor.axis}"
        parts.append(text)
    return ", ".join(parts)


def print_format(format: Format) -> str:
    """The canonical spelling of `format`."""
    body = _print_factors(format, format.factors)
    if format.chunk_factors:
        body += " | " + _print_factors(format, format.chunk_factors)
    text = f"({', '.join(format.names)}) : [{body}]"
    if format.pad != "undef":
        text += f", pad = {print_policy(format.pad)}"
    if format.offset:
        text += f", offset = {format.offset}"
    if format.lo:
        text += f", lo = [{', '.join(map(str, format.lo))}]"
    if format.size is not None:
        text += f", size = {format.size}"
    if format.swizzle is not None:
        text += f", swizzle = ({', '.join(map(str, format.swizzle))})"
    return text
