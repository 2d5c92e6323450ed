"""Layouts on the command line: a tag, a format, or a foreign notation behind its name, and a shape.

    nChw8c        "(n, c, h, w) : [n, c, h, w, c:8]"        "xla:{1,0:T(8,128)}"        htp:R4Crouton

A text that is none of ours and has no name of a notation before it is read in the notation that it must be in
(`layout_ir.notations.guessing`), if there is one.

Errors about a text become `TextError`s, so that the tool can point into it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS, Subject, read
from layout_ir.tools.commands import TextError

_PREFIX = re.compile(r"\s*([A-Za-z]\w*):(?=[^:])", re.DOTALL)
_NUMBER = re.compile(r"\s*(-?[0-9]+)\s*")
_LIMIT = 1 << 63
OURS = "format"
"""What --to and --from, and JSON, call our own text form."""

T = TypeVar("T")


def read_shape(text: str | None) -> tuple[int, ...] | None:
    """The extents that `--shape` gives; None without it. Raises TextError."""
    if text is None:
        return None
    if text.strip() in ("", "()"):
        return ()
    return _numbers(text, "x", "an extent", low=0)


def read_dynamic_shape(text: str | None) -> tuple[int | None, ...] | None:
    """As `read_shape`, where an extent may be dynamic: ?, in the result None. Raises TextError."""
    if text is None or "?" not in text:
        return read_shape(text)
    parts = text.split("x")
    # A digit in the place of each dynamic extent keeps the places of errors.
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


@lru_cache(maxsize=64)
def source_of(
    text: str, source: str | None, shape: tuple[int, ...] | None, dtype: str | None
) -> tuple[str | None, int]:
    """The notation of `text` (None: ours) and where it begins, behind a prefix that names the notation.

    `source` is the notation that the user states; without it and without a prefix it is guessed, if the text is not
    ours. Raises TextError or LayoutError for a text of no notation, and of several that mean different layouts.
    """
    if source is not None:
        return (None if source == OURS else source), 0
    match = _PREFIX.match(text)
    if match is not None:
        name = match.group(1)
        if name in (OURS, *NOTATIONS):
            return (None if name == OURS else name), match.end()
        if not _begins_a_notation(text):
            known = ", ".join(NOTATIONS)
            raise TextError(f"unknown notation '{name}': known are {known}", text, match.span(1))
    try:
        Format.of(text)
    except LayoutError as error:
        if re.fullmatch(r"\s*\w*\s*", text) and not _begins_a_notation(text) and not _is_known_name(text):
            raise  # a word is a tag with a mistake in it
        if text.lstrip().startswith("(") and re.match(r"\s*\([\s\w,]*\)\s*:\s*\[", text):
            raise  # a format with a mistake in it
        from layout_ir.notations.guessing import guess

        try:
            return guess(text, shape, dtype), 0
        except LayoutError as other:
            raise other from error
    return None, 0


def _begins_a_notation(text: str) -> bool:
    """Whether `text` begins as texts of one notation do, and those of no other."""
    return any(
        notation.beginning and re.match(notation.beginning, text.lstrip()) for notation in NOTATIONS.values()
    )


def _is_known_name(text: str) -> bool:
    """Whether a word is a text of some notation, at any shape."""
    from layout_ir.notations.guessing import readings

    return bool(readings(text)[0])


def read_subject(
    text: str, shape: tuple[int, ...] | None, dtype: str | None, source: str | None = None
) -> Subject:
    """What `text` means, in notation `source` or in the one of `source_of`. Raises TextError or LayoutError."""
    name, start = pointing(text, 0, lambda: source_of(text, source, shape, dtype))
    return pointing(text, start, lambda: read(text[start:], name, shape=shape, dtype=dtype))


def dynamic_format(args: argparse.Namespace, text: str) -> Format:
    """The format that `text` means where --shape has dynamic extents. Raises LayoutError where it says extents."""
    subject = read_subject(text, None, args.dtype)
    if not isinstance(subject, Format):
        raise LayoutError(f"'{text}' is a layout of known extents, the shape {args.shape} has dynamic ones")
    return subject


def shape_order(args: argparse.Namespace, text: str, source: str | None = None) -> tuple[str, ...] | None:
    """The dims in the order in which --shape gives their extents; None where that is the order of the layout's dims.

    --dims says it, else the notation. Raises LayoutError where --dims does not name each dim of the layout once.
    """
    source, start = pointing(text, 0, lambda: source_of(text, source, _known_shape(args), args.dtype))
    body = text[start:]
    stated = None if source is None else NOTATIONS[source].shape_order(body)
    given = getattr(args, "dims", None)
    if given is None and stated is None:
        return None
    if given is not None and args.shape is None:
        raise LayoutError(f"--dims {given} says the order of --shape, but no shape is given")
    order = stated or ()
    if given is not None:
        order = tuple(part.strip() for part in given.split(",")) if "," in given else tuple(given.strip())
    names = _names(body, len(order), args.dtype, source or OURS)
    if given is not None and sorted(order) != sorted(names):
        raise LayoutError(f"--dims {given} does not name the dims of '{text}', which are {', '.join(names)}")
    return None if order == names or sorted(order) != sorted(names) else order


def _names(text: str, rank: int, dtype: str | None, source: str | None) -> tuple[str, ...]:
    """The dims of what `text` means, in the order of the layout."""
    try:
        return tuple(read_subject(text, None, dtype, source).names)
    except LayoutError:
        return tuple(read_subject(text, (1,) * rank, dtype, source).names)  # some texts need a shape


def reordered(
    shape: tuple[T, ...] | None, order: tuple[str, ...] | None, names: tuple[str, ...]
) -> tuple[T, ...] | None:
    """Extents given in `order`, in the order of `names`. As they are where there is nothing to reorder."""
    if shape is None or order is None or len(shape) != len(names):
        return shape
    return tuple(shape[order.index(name)] for name in names)


def read_at_shape(args: argparse.Namespace, text: str, source: str | None = None) -> Subject:
    """What `text` means at --shape, whose order the notation or --dims says. Raises TextError or LayoutError."""
    shape, order = read_shape(args.shape), shape_order(args, text, source)
    if order is not None and shape is not None:
        shape = reordered(shape, order, _names(text, len(order), args.dtype, source))
    # Guessed with the extents as they were given, and read with those of the layout.
    name, start = pointing(text, 0, lambda: source_of(text, source, _known_shape(args), args.dtype))
    return pointing(text, start, lambda: read(text[start:], name, shape=shape, dtype=args.dtype))


def _known_shape(args: argparse.Namespace) -> tuple[int, ...] | None:
    """The extents of --shape; None without it, and where one of them is dynamic."""
    shape = read_dynamic_shape(args.shape)
    return None if shape is None or None in shape else tuple(x for x in shape if x is not None)


def same_order(args: argparse.Namespace, texts: Sequence[str], shape: tuple[T, ...]) -> tuple[T, ...]:
    """Extents, perhaps dynamic, in the order of the dims of the layouts. Raises LayoutError where texts disagree."""
    found: list[tuple[T, ...]] = []
    for text in texts:
        order = shape_order(args, text)
        names = _names(text, len(shape), args.dtype, None)
        found.append(reordered(shape, order, names) or ())
    if any(other != found[0] for other in found):
        raise LayoutError(
            f"'{texts[0]}' and '{texts[1]}' have their dims in different orders, so --shape {args.shape} means two "
            "things: say one with --dims"
        )
    return found[0]


def as_indexed(subject: Subject, order: tuple[str, ...] | None) -> Subject:
    """A layout with its dims in the order of --shape, which is that of the indices of the array."""
    if order is None or isinstance(subject, Format):
        return subject
    return subject.permute([subject.names.index(name) for name in order])


def extents_text(layout: Layout, order: tuple[str, ...] | None = None) -> str:
    """Each dim with its extent, in the order of --shape: h=3 w=3 i=32 o=64."""
    extents = dict(zip(layout.names, layout.shape, strict=True))
    return " ".join(f"{name}={extents[name]}" for name in order or layout.names) or "a scalar"


def notation_of(args: argparse.Namespace, text: str, source: str | None = None) -> str | None:
    """The notation in which `text` is read; None for our own."""
    return source_of(text, source, _known_shape(args), args.dtype)[0]


def element_type_of(args: argparse.Namespace, text: str, source: str | None = None) -> str | None:
    """The element type of --dtype, or the one that the text states; None where neither does. Raises TextError."""
    if args.dtype is not None:
        return str(args.dtype)
    name, start = source_of(text, source, _known_shape(args), None)
    return None if name is None else pointing(text, start, lambda: NOTATIONS[name].element_type(text[start:]))


def common_element_type(args: argparse.Namespace, *texts: str) -> str | None:
    """The element type of --dtype, or the one that `texts` state; None where none of them does.

    Raises LayoutError where they state different ones.
    """
    stated = {text: found for text in texts if (found := element_type_of(args, text)) is not None}
    if len(set(stated.values())) > 1:
        said = " and ".join(f"'{text}' of {found}" for text, found in stated.items())
        raise LayoutError(f"elements are those {said}: write one type, and --to-dtype to convert")
    return next(iter(stated.values()), None)


def check_notation(option: str, name: str | None, *others: str) -> None:
    """Raises LayoutError where the value of `option` is neither a notation nor one of `others`."""
    if name not in (None, OURS, *NOTATIONS, *others):
        raise LayoutError(
            f"unknown notation '{name}' behind {option}: known are {OURS}, {', '.join(NOTATIONS)}"
        )


def note_order(args: argparse.Namespace, text: str, subject: Subject, source: str | None = None) -> None:
    """Says on stderr how --shape was read, where a foreign notation or --dims decides it."""
    if isinstance(subject, Format) or args.shape is None:
        return
    if notation_of(args, text, source) is not None or args.dims is not None:
        order = shape_order(args, text, source)
        print(f"note: --shape {args.shape} is {extents_text(subject, order)}", file=sys.stderr)


def read_layout(args: argparse.Namespace, text: str | None = None, source: str | None = None) -> Layout:
    """The layout that `text` (None: args.format) means at `args.shape`. Raises TextError or LayoutError."""
    text = str(args.format) if text is None else text
    subject = read_at_shape(args, text, source)
    if isinstance(subject, Format):
        order = shape_order(args, text, source) or subject.names
        like = "x".join("8" for _ in order) or "()"
        raise LayoutError(
            f"'{text}' says no extents: give {subject.rank} of them ({', '.join(order)}), such as --shape {like}"
        )
    return subject


def noted_layout(args: argparse.Namespace, text: str) -> Layout:
    """What `read_layout` gives, after `note_order` has said how --shape was read."""
    layout = read_layout(args, text)
    note_order(args, text, layout)
    return layout


def pointing(text: str, start: int, make: Callable[[], T]) -> T:
    """`make()`; where it raises a LayoutError about a part of text[start:], the TextError that points there."""
    try:
        return make()
    except LayoutError as error:
        if error.span is None:
            raise
        low, high = error.span
        raise TextError(str(error), text, (low + start, high + start)) from error
