"""The text form of a Format: one attribute, one spelling.

    format  ::= `(` (id (`,` id)*)? `)` `:` `[` (factor (`,` factor)*)? (`|` factor (`,` factor)*)? `]` (`,` field)*
    factor  ::= id (`:` size)? (`*` stride)? (`@` axis)?
    field   ::= `pad` `=` (`undef` | `zero` | `zp` | number) | `offset` `=` int | `lo` `=` `[` ints `]`
              | `size` `=` int | `swizzle` `=` `(` bits `,` base `,` shift `)`

`str(Format.parse(t))` is the canonical spelling of t: defaults left out, fields in the order above. Errors
carry the span of the offending part, so that a tool can point at it.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from layout_ir.algebra.factors import MEMORY, Factor
from layout_ir.algebra.pads import PadPolicy, print_policy
from layout_ir.algebra.scan import LIMIT, Scanner

if TYPE_CHECKING:
    from layout_ir.algebra.format import Format

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|(?P<word>[A-Za-z_]\w*)|(?P<punct>[()\[\]:,|*@=-])"
    r"|(?P<unknown>.)",
    re.ASCII | re.DOTALL,
)
_FIELDS = ("pad", "offset", "lo", "size", "swizzle")


class _Parser(Scanner):
    """Recursive descent over the tokens of one format."""

    def __init__(self, text: str):
        super().__init__(text, pattern=_TOKEN)
        self.names: dict[str, int] = {}
        """Each dim name with the number of its dim."""
        for token in self.tokens:
            if token.kind == "unknown":
                self.fail(f"unexpected character {token.text!r} in format", token)

    def number(self, what: str) -> int:
        """An integer; `what` says where it stands."""
        return self.integer(what, expected=f"an integer {what}")

    def size(self, name: str) -> int:
        token = self.token
        value = self.number(f"as the size of '{name}'")
        if value < 1:
            self.fail(f"factor '{name}:{value}' has size {value}, sizes start at 1", token)
        return value

    def factor(self) -> Factor:
        token, name = self.token, self.word("a dim name")
        if name not in self.names:
            self.fail(f"unknown dim '{name}': the format declares ({', '.join(self.names)})", token)
        size = self.size(name) if self.accept(":") else None
        stride = self.number(f"as the stride of '{name}'") if self.accept("*") else None
        axis = self.word("an axis name behind '@'") if self.accept("@") else MEMORY
        return Factor(self.names[name], size, stride, axis)

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
        if token.kind == "word" and token.text in ("undef", "zero", "zp"):
            self.pos += 1
            return token.text
        sign = -1 if self.accept("-") else 1
        token = self.token
        if token.kind == "word" and token.text == "inf":
            self.pos += 1
            return sign * math.inf
        if token.kind != "number":
            self.fail(f"pad policy {token.text!r} is none of undef, zero, zp or a number", token)
        if sign < 0 and token.text == str(LIMIT):  # the least i64, neutral in a maximum
            self.pos += 1
            return -LIMIT
        if token.text.isdigit():
            return sign * self.number("as a pad value")
        self.pos += 1
        return sign * float(token.text)

    def format(self) -> tuple[dict[str, Any], tuple[int, int]]:
        self.expect("(", where="before the dim names")
        while not self.accept(")"):
            if self.names:
                self.expect(",", where="between dim names")
            token, name = self.token, self.word("a dim name")
            if name in self.names:
                self.fail(f"dim '{name}' is declared twice", token)
            self.names[name] = len(self.names)
        self.expect(":", where="between the dim names and the factors")
        opening = self.token
        self.expect("[", where="before the factors")
        factors = self.factors("|", "]")
        bar = self.accept("|")
        chunk = self.factors("]") if bar else ()
        if bar and not chunk:
            self.fail("expected the factors of a chunk behind '|'")
        closing = self.token
        self.expect("]", where="behind the factors")
        fields: dict[str, Any] = {}
        while self.accept(","):
            token, name = self.token, self.word("a field")
            if name not in _FIELDS:
                self.fail(f"unknown field '{name}': the fields are {', '.join(_FIELDS)}", token)
            if name in fields:
                self.fail(f"field '{name}' is given twice", token)
            self.expect("=", where=f"behind '{name}'")
            fields[name] = self.field(name)
        if self.token.kind != "end":
            self.fail(f"unexpected {self.token.text!r} behind the format")
        fields |= {"names": tuple(self.names), "factors": factors, "chunk_factors": chunk}
        return fields, (opening.start, closing.end)

    def field(self, name: str) -> Any:
        match name:
            case "pad":
                return self.policy()
            case "offset" | "size":
                return self.number(f"as the {name}")
            case "lo":
                return self.numbers("[", "]", "lo")
            case _:
                token = self.token
                values = self.numbers("(", ")", "swizzle")
                if len(values) != 3:
                    self.fail(f"swizzle has {len(values)} numbers, expected (bits, base, shift)", token)
                return values

    def numbers(self, opening: str, closing: str, name: str) -> tuple[int, ...]:
        self.expect(opening, where=f"behind '{name} ='")
        values: list[int] = []
        while not self.accept(closing):
            if values:
                self.expect(",", where=f"between the numbers of '{name}'")
            values.append(self.number(f"in '{name}'"))
        return tuple(values)


def read_format(text: str) -> tuple[dict[str, Any], tuple[int, int]]:
    """The fields of the Format that `text` spells, and the span of its factors, for errors that concern all of them.

    Raises LayoutError with the span of the offending part where the text does not follow the grammar.
    """
    return _Parser(text).format()


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
