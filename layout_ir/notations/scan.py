"""Reading foreign texts: tokens, bounded integers, lists, and errors with the span of the offending part."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from layout_ir.errors import LayoutError

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d+)|(?P<word>[A-Za-z_]\w*)|(?P<punct>->|//|.)", re.ASCII | re.DOTALL
)
_LIMIT = 1 << 63
MAX_DEPTH = 32
"""Nesting of parentheses that is read; deeper texts are refused before they exhaust the stack."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is number, word, punct or end; `start` is its offset in the text."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class Scanner:
    """A cursor over the tokens of `text`, which is written in the notation called `what`."""

    def __init__(self, text: str, what: str):
        self.text = text
        self.what = what
        self.tokens: list[Token] = []
        for match in _TOKEN.finditer(text):
            if match.lastgroup != "space":
                self.tokens.append(Token(str(match.lastgroup), match.group(), match.start()))
        self.tokens.append(Token("end", "", len(text)))
        self.pos = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.pos]

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        token = token or self.token
        raise LayoutError(
            f"{self.what} text {shorten(self.text)}: {message}",
            (token.start, max(token.end, token.start + 1)),
        )

    def found(self) -> str:
        return f"'{self.token.text}'" if self.token.kind != "end" else "the end"

    def next(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.pos += 1
        return token

    def at(self, text: str) -> bool:
        """Whether the next token is `text`."""
        return self.token.text == text and self.token.kind != "end"

    def accept(self, text: str) -> bool:
        if self.at(text):
            self.pos += 1
            return True
        return False

    def expect(self, *texts: str) -> None:
        for text in texts:
            if not self.accept(text):
                self.fail(f"expected '{text}', found {self.found()}")

    def word(self, what: str) -> str:
        if self.token.kind != "word":
            self.fail(f"expected {what}, found {self.found()}")
        return self.next().text

    def integer(self, what: str, *, low: int | None = None) -> int:
        """An integer of magnitude below 2^63, at least `low` if given."""
        start = self.token
        negative = self.accept("-")
        token = self.token
        if token.kind != "number":
            self.fail(f"expected {what} (an integer), found {self.found()}")
        if len(token.text) > 19 or int(token.text) >= _LIMIT:
            self.fail(f"{what} {token.text[:24]} is not below 2^63")
        self.pos += 1
        value = -int(token.text) if negative else int(token.text)
        if low is not None and value < low:
            self.fail(f"{what} is {value}, at least {low} is needed", start)
        return value

    def sequence(self, opening: str, closing: str, item: Callable[[], T]) -> list[T]:
        """`opening` item, item, ... `closing`; a comma before the closing is accepted."""
        self.expect(opening)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"more than {MAX_DEPTH} levels of nesting")
        items: list[T] = []
        while not self.accept(closing):
            if items:
                self.expect(",")
                if self.accept(closing):
                    break
            items.append(item())
        self.depth -= 1
        return items

    def integers(self, opening: str, closing: str, what: str, *, low: int | None = None) -> tuple[int, ...]:
        return tuple(self.sequence(opening, closing, lambda: self.integer(what, low=low)))

    def end(self) -> None:
        if self.token.kind != "end":
            self.fail(f"unexpected {self.found()} behind the end")


def shorten(text: str) -> str:
    """`text` in quotes, cut where it is too long for a message."""
    return f"'{text}'" if len(text) <= 60 else f"'{text[:57]}...'"


def tuple_text(values: Sequence[int]) -> str:
    """`values` as Python writes a tuple."""
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"
