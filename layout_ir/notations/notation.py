"""What a notation is: a foreign way to write layouts, read and printed.

A notation says where elements lie; few say more. What it has no words for is refused when printing, with both sides
of the conflict, and never dropped: a base offset, pads in front (`lo`), chunks that may lie apart, a swizzle, places
on other axes, elements behind the last one. What pads hold is a promise and not an address: a notation whose system
promises nothing (`pads = "undef"`) prints any policy and reads back the weaker one, a notation whose system promises
zeros refuses formats that promise something else.

Texts that hold a shape, and texts read with a `shape`, give a Layout; all others give a Format. Names of dims are
the reader's business and come from the rank where the notation has none.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from layout_ir.algebra.factors import MEMORY
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import PadPolicy
from layout_ir.errors import LayoutError, shape_text

Subject = Format | Layout

T = TypeVar("T")


def read_behind(text: str, beginning: str, read: Callable[[str], T]) -> T:
    """What `read` makes of `text` without white space around it and without a beginning that a regular expression
    matches; the span of a LayoutError is one of `text`."""
    match = re.match(rf"\s*(?:{beginning})?", text)
    start = match.end() if match else 0
    try:
        return read(text[start:].rstrip())
    except LayoutError as error:
        if error.span is None:
            raise
        low, high = error.span
        raise LayoutError(str(error), (low + start, high + start)) from None


class Notation(ABC):
    """One foreign notation. Subclasses give the class variables and the two methods `_parse` and `_print`."""

    name: ClassVar[str]
    """What the registry and the command line call it."""
    beginning: ClassVar[str] = ""
    """A regular expression for how texts begin that are meant for this notation; "" where many others begin so."""
    about: ClassVar[str]
    """One line for lists and help texts."""
    example: ClassVar[str]
    """A text in the notation."""
    pads: ClassVar[PadPolicy] = "undef"
    """What this system promises of pads."""
    says: ClassVar[frozenset[str]] = frozenset()
    """Which of offset, lo, chunks, swizzle, axes and size a text can state; size also where the notation does not say
    how long a buffer is."""
    needs_shape: ClassVar[bool] = True
    """Whether printing needs a shape."""
    order: ClassVar[str] = "the dims of the array, as its indices come"
    """A description of the order of the extents that the command line takes with a text of this notation."""
    by_index: ClassVar[bool] = True
    """Whether texts speak of dims by their place among the indices, not by a name."""

    def shape_order(self, text: str) -> tuple[str, ...] | None:
        """The dims in the order in which arrays of this system have them; None where that is the layout's own."""
        return None

    def element_type(self, text: str) -> str | None:
        """The element type that `text` states beside the layout (its canonical name); None where it states none.

        Raises LayoutError for a text that is not of this notation.
        """
        return None

    def parse(self, text: str, shape: Sequence[int] | None = None, dtype: str | None = None) -> Subject:
        """The Layout that `text` means, or the Format where neither it nor `shape` says the extents.

        `dtype` is the element type, for notations that count bytes. Raises LayoutError (with a span where one part
        of the text is to blame) for anything that is not of this notation, and for what no Format can say.
        """
        subject = self._parse(text, None if shape is None else tuple(shape), dtype)
        if shape is None:
            return subject
        if isinstance(subject, Format):
            return subject.bind(shape)
        if subject.shape != tuple(shape):
            raise LayoutError(
                f"{self.name} text says shape {shape_text(subject.shape)}, asked for was {shape_text(shape)}"
            )
        return subject

    def print(self, subject: Subject, dtype: str | None = None) -> str:
        """`subject` in this notation. Raises LayoutError with the reason where the notation cannot say it."""
        self._check(subject)
        return self._print(subject, dtype)

    @abstractmethod
    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject: ...

    @abstractmethod
    def _print(self, subject: Subject, dtype: str | None) -> str: ...

    # For subclasses -------------------------------------------------------------------------------------------

    def refuse(self, subject: Subject, reason: str) -> LayoutError:
        """The error that says why `subject` has no text in this notation."""
        return LayoutError(f"{self.name} cannot say {subject}: {reason}")

    def bound(self, subject: Subject) -> Layout:
        """`subject` if it is a Layout; raises LayoutError for a Format."""
        if isinstance(subject, Format):
            raise self.refuse(
                subject, "its numbers depend on the shape, and a format has none: bind it to a shape first"
            )
        return subject

    def _check(self, subject: Subject) -> None:
        reasons: list[tuple[str, bool, str]] = []
        if isinstance(subject, Layout):
            chunked, lo = subject.chunk_rank > 0, subject.lo
            oversized = (
                subject.extent > max(subject.first_address + subject.span, 0) and subject.swizzle is None
            )
            axes = {f.axis for f in subject.factors}
            padded = subject.is_padded
        else:
            chunked, lo = bool(subject.chunk_factors), subject.lo
            oversized = subject.size is not None
            axes = {f.axis for f in subject.factors}
            padded = any(block > 1 for block in subject.blocks()) or bool(lo)
            if self.needs_shape:
                self.bound(subject)
        elsewhere = sorted(axes - {MEMORY})
        reasons.append(
            (
                "offset",
                subject.offset != 0,
                f"its first element lies {subject.offset} elements into the buffer",
            )
        )
        reasons.append(("lo", any(lo), f"it has pads in front of elements, lo = {list(lo)}"))
        reasons.append(("chunks", chunked, "its memory is cut into chunks that may lie apart"))
        reasons.append(
            ("swizzle", subject.swizzle is not None, f"its addresses are swizzled by {subject.swizzle}")
        )
        reasons.append(("axes", bool(elsewhere), f"it has places on the axes {', '.join(elsewhere)}"))
        reasons.append(
            ("size", oversized, f"its buffer holds {subject.size} elements, more than the layout reaches")
        )
        for word, present, reason in reasons:
            if present and word not in self.says:
                raise self.refuse(subject, f"{reason}, for which {self.name} has no words")
        if padded and self.pads == "zero" and subject.pad not in ("zero", "undef"):
            raise self.refuse(subject, f"its pads hold {subject.pad}, those of {self.name} hold zeros")
