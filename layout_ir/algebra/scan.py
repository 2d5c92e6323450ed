"""Reading texts: tokens, bounded integers, lists, and errors with the span of the offending part.

One cursor serves the text of a Format and the texts of foreign notations, which differ in their tokens and in how a
message begins. Reading costs no more than the length of the text: an integer is bounded before it is converted, nesting
before it exhausts the stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from layout_ir.errors import LayoutError

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d+)|(?P<word>[A-Za-z_]\w*)|(?P<punct>->|//|.)", re.ASCII | re.DOTALL
)
LIMIT = 1 << 63
"""Integers lie below this in magnitude."""
MAX_DEPTH = 32
"""Nesting of parentheses that is read; deeper texts are refused before they exhaust the stack."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is the group of the pattern that matched, or end; `start` is its offset in the text."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Offset of what follows it."""
        return self.start + len(self.text)


class Scanner:
    """A cursor over the tokens of `text`, which is written in the notation called `what`.

    Messages begin with that name and the text, if there is a name. `pattern` matches at every place of a text; its
    groups are the kinds of tokens: number, word and others, and space, which is left out.
    """

    def __init__(self, text: str, what: str = "", pattern: re.Pattern[str] = _TOKEN):
        self.text = text
        self.what = what
        self.tokens = [
            Token(str(match.lastgroup), match.group(), match.start())
            for match in pattern.finditer(text)
            if match.lastgroup != "space"
        ]
        self.tokens.append(Token("end", "", len(text)))
        self.pos = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        """The next token, which stays the next one."""
        return self.tokens[self.pos]

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raises LayoutError with the span of `token`, the next one by default."""
        token = token or self.token
        subject = f"{self.what} text {shorten(self.text)}: " if self.what else ""
        raise LayoutError(subject + message, (token.start, max(token.end, token.start + 1)))

    def found(self) -> str:
        """What a message calls the next token."""
        return f"'{self.token.text}'" if self.token.kind != "end" else "the end"

    def next(self) -> Token:
        """Takes the next token; the end is given again and again."""
        token = self.token
        if token.kind != "end":
            self.pos += 1
        return token

    def at(self, text: str) -> bool:
        """Whether the next token is `text`."""
        return self.token.text == text and self.token.kind != "end"

    def accept(self, text: str) -> bool:
        """Whether the next token is `text`; it is taken then."""
        if self.at(text):
            self.pos += 1
            return True
        return False

    def expect(self, *texts: str, where: str = "") -> None:
        """Takes the tokens `texts`; `where` they stand is for the message."""
        for text in texts:
            if not self.accept(text):
                self.fail(f"expected '{text}'{where and f' {where}'}, found {self.found()}")

    def word(self, what: str) -> str:
        """Takes an identifier; `what` it stands for is for the message. Raises LayoutError with its span."""
        if self.token.kind != "word":
            self.fail(f"expected {what}, found {self.found()}")
        return self.next().text

    def integer(self, what: str, *, low: int | None = None, expected: str | None = None) -> int:
        """An integer of magnitude below 2^63, at least `low` if given; `expected` is what messages call it."""
        start = self.token
        negative = self.accept("-")
        token = self.token
        if token.kind != "number" or not token.text.isdigit():
            self.fail(f"expected {expected or f'{what} (an integer)'}, found {self.found()}")
        if len(token.text) > 19 or int(token.text) >= LIMIT:
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
        """Takes a list such as (1, 2): integers as `integer` reads them, between `opening` and `closing`."""
        return tuple(self.sequence(opening, closing, lambda: self.integer(what, low=low)))

    def end(self) -> None:
        """Raises LayoutError where the text goes on."""
        if self.token.kind != "end":
            self.fail(f"unexpected {self.found()} behind the end")


def shorten(text: str) -> str:
    """`text` in quotes, cut where it is too long for a message."""
    return f"'{text}'" if len(text) <= 60 else f"'{text[:57]}...'"
