"""Layouts on the command line: a tag, a format, or a foreign notation behind its name, and a shape.

    nChw8c        "(n, c, h, w) : [n, c, h, w, c:8]"        "xla:{1,0:T(8,128)}"        htp:R4Crouton

Errors about a text become `TextError`s, so that the tool can point into it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TypeVar

from layout_ir.errors import LayoutError
from layout_ir.format import Format
from layout_ir.layout import Layout
from layout_ir.notations import NOTATIONS, Subject, read
from layout_ir.tools.commands import TextError

FORMAT_HELP = (
    "a tag (nChw8c), a format ('(n, c) : [n, c, c:8]'), or a foreign notation behind its name ('xla:{1,0:T(8,128)}', "
    "htp:R4Crouton); layout-ir convert --list names them"
)

_PREFIX = re.compile(r"\s*([A-Za-z_]\w*):(?=.)", re.DOTALL)
_NUMBER = re.compile(r"\s*(-?\d+)\s*")
_LIMIT = 1 << 63

T = TypeVar("T")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--shape` and `--dtype`, which every command on layouts takes."""
    parser.add_argument("--shape", metavar="2x17x5x4", help="extents of the dims; () for a scalar")
    parser.add_argument("--dtype", metavar="TYPE", help="element type: f32, bf16, i8, ui4, ...")


def read_shape(text: str | None) -> tuple[int, ...] | None:
    """The extents that `--shape` gives; None without it. Raises TextError."""
    if text is None:
        return None
    if text.strip() in ("", "()"):
        return ()
    return _numbers(text, "x", "an extent", low=0)


def read_open_shape(text: str | None) -> tuple[int | None, ...] | None:
    """As `read_shape`, where an extent may be open: ?, in the result None. Raises TextError."""
    if text is None or "?" not in text:
        return read_shape(text)
    parts = text.split("x")
    # A digit in the place of each open extent keeps the places of errors.
    known = read_shape("x".join("1" if part.strip() == "?" else part for part in parts))
    assert known is not None
    return tuple(None if part.strip() == "?" else x for part, x in zip(parts, known, strict=True))


def read_index(text: str) -> tuple[int, ...]:
    """The index that `--index` gives, such as 1,16,4,3. Raises TextError."""
    return () if text.strip() in ("", "()") else _numbers(text, ",", "an index", low=None)


def _numbers(text: str, separator: str, what: str, low: int | None) -> tuple[int, ...]:
    values: list[int] = []
    start = 0
    for part in text.split(separator):
        span = (start, start + max(len(part), 1))
        start += len(part) + 1
        if _NUMBER.fullmatch(part) is None:
            raise TextError(
                f"expected {what} (an integer) between '{separator}'s, found '{part}'", text, span
            )
        digits = part.strip()
        if len(digits) > 20 or abs(int(digits)) >= _LIMIT:
            raise TextError(f"{what} of {digits[:24]} is not below 2^63", text, span)
        if low is not None and int(digits) < low:
            raise TextError(f"{what} is {digits}, at least {low} is needed", text, span)
        values.append(int(digits))
    return tuple(values)


def read_subject(
    text: str, shape: tuple[int, ...] | None, dtype: str | None, source: str | None = None
) -> Subject:
    """What `text` means, in notation `source` or in the one that its prefix names. Raises TextError or LayoutError."""
    start = 0
    match = _PREFIX.match(text)
    if match is not None and source is None:
        source, start = match.group(1), match.end()
        if source not in NOTATIONS:
            known = ", ".join(NOTATIONS)
            raise TextError(f"unknown notation '{source}': known are {known}", text, match.span(1))
    name = source
    return pointing(text, start, lambda: read(text[start:], name, shape=shape, dtype=dtype))


def read_layout(args: argparse.Namespace) -> Layout:
    """The layout that `args.format` means at `args.shape`. Raises TextError or LayoutError."""
    subject = read_subject(args.format, read_shape(args.shape), args.dtype)
    if isinstance(subject, Format):
        like = "x".join("8" for _ in subject.names) or "()"
        raise LayoutError(
            f"'{args.format}' says no extents: give {subject.rank} of them, such as --shape {like}"
        )
    return subject


def pointing(text: str, start: int, make: Callable[[], T]) -> T:
    """`make()`; where it raises a LayoutError about a part of text[start:], the TextError that points there."""
    try:
        return make()
    except LayoutError as error:
        if error.span is None:
            raise
        low, high = error.span
        raise TextError(str(error), text, (low + start, high + start)) from error
