"""TVM: layout strings (`NCHW16c`) and index maps.

A layout string names the dims of the stored array: a capital letter is a dim, or the outer part of one, a number and
a small letter the inner part. Each dim may be blocked once, so many oneDNN tags have no string. The string does not
say which order the dims have in the logical tensor; here it is the usual one of that set of letters (N, C, H, W; O, I,
H, W), or the order of the string where the letters are no known set. The command line takes the extents of `--shape`
in the order of the string, as an array of that layout has them: `--from tvm HWIO --shape 3x3x32x64` has 64 outputs.

An index map is any formula; read are those that are sums of digits (see `expressions`). `AXIS_SEPARATOR` cuts the
physical dims into a part that counts allocations and a part inside each: our bar.
"""

from __future__ import annotations

import re
from typing import ClassVar

from layout_ir.algebra.format import Format, PadPolicy
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.scan import Scanner
from layout_ir.algebra.tag import from_tag, names_for
from layout_ir.errors import LayoutError
from layout_ir.notations.digits import Piece, format_of_pieces, layout_of, pieces_of
from layout_ir.notations.expressions import ExpressionParser, Sum, Words, address_text
from layout_ir.notations.memref import digit_results, layout_of_map
from layout_ir.notations.notation import Notation, Subject

WORDS = Words("//", "%")
_LIMIT = 1 << 63


class TvmNotation(Notation):
    """`NCHW16c`."""

    name: ClassVar[str] = "tvm"
    about: ClassVar[str] = "TVM layout strings: NCHW16c"
    example: ClassVar[str] = "NCHW16c"
    needs_shape: ClassVar[bool] = False
    order: ClassVar[str] = (
        "the capital letters, as they come: HWIO takes h, w, i, o; OIHW16o takes o, i, h, w"
    )
    by_index: ClassVar[bool] = False

    def shape_order(self, text: str) -> tuple[str, ...] | None:
        return tuple(letter.lower() for letter in text if letter.isupper())

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        stripped = text.strip()
        parts = re.findall(r"[A-Z]|\d+[a-z]", stripped)
        if not parts or "".join(parts) != stripped:
            raise LayoutError(
                f"tvm text {stripped[:60]!r} is no list of capital letters and blocks such as 16c"
            )
        primal = [p.lower() for p in parts if p.isupper()]
        for letter in primal:
            if primal.count(letter) > 1:
                raise LayoutError(f"tvm text '{stripped[:60]}' names axis '{letter.upper()}' twice")
        names = _logical_order("".join(primal))
        blocks: dict[str, int] = {}
        for part in parts:
            if part[0].isdigit():
                letter, size = part[-1], part[:-1]
                if letter not in primal:
                    raise LayoutError(
                        f"tvm text '{stripped[:60]}' blocks axis '{letter}', of which there is no '{letter.upper()}'"
                    )
                if letter in blocks:
                    raise LayoutError(
                        f"tvm text '{stripped[:60]}' blocks axis '{letter.upper()}' twice: a layout string blocks it "
                        "once"
                    )
                if len(size) > 19 or not 1 <= int(size) < _LIMIT:
                    raise LayoutError(
                        f"tvm text '{stripped[:60]}' has a block of {size[:20]}: sizes lie between 1 and 2^63 - 1"
                    )
                blocks[letter] = int(size)
        pieces = [
            Piece(names.index(p.lower()), blocks.get(p.lower(), 1), None) if p.isupper()
            else Piece(names.index(p[-1]), 1, blocks[p[-1]])
            for p in parts
        ]  # fmt: skip
        try:
            return format_of_pieces(names, pieces)
        except LayoutError:
            if shape is None or len(shape) != len(names):
                raise
        return _at_shape(names, pieces, shape)

    def _print(self, subject: Subject, dtype: str | None) -> str:
        if not subject.names or any(len(name) != 1 or not name.islower() for name in subject.names):
            raise self.refuse(subject, f"axes are single letters, the dims are {', '.join(subject.names)}")
        written = subject.format if isinstance(subject, Layout) else subject
        pieces = pieces_of(written)
        if pieces is None or not self._is_plain(pieces, subject.rank):
            pieces = pieces_of(subject)
        if pieces is None:
            raise self.refuse(subject, "layout strings are dense, this has strides of its own")
        text = self._text(subject, pieces)
        if _logical_order("".join(p.lower() for p in text if p.isupper())) != tuple(subject.names):
            raise self.refuse(
                subject,
                f"the string {text} means another logical order of the dims than ({', '.join(subject.names)})",
            )
        if isinstance(subject, Layout):
            bound = self.parse(text, subject.shape)
            assert isinstance(bound, Layout)
            if not bound.same_map(subject) or bound.padded_shape != subject.padded_shape:
                raise self.refuse(subject, "its padded box is no multiple of its blocks")
        return text

    @staticmethod
    def _is_plain(pieces: tuple[Piece, ...], rank: int) -> bool:
        per_dim = [sum(p.dim == dim for p in pieces) for dim in range(rank)]
        return all(1 <= n <= 2 for n in per_dim) and sum(p.size is None for p in pieces) == rank

    def _text(self, subject: Subject, pieces: tuple[Piece, ...]) -> str:
        text = "".join(
            subject.names[d].upper() for d in range(subject.rank) if all(p.dim != d for p in pieces)
        )
        for dim in range(subject.rank):
            own = sorted((p for p in pieces if p.dim == dim), key=lambda p: p.unit)
            if len(own) > 2:
                raise self.refuse(
                    subject,
                    f"dim '{subject.names[dim]}' is blocked {len(own) - 1} times, a layout string blocks it once",
                )
            if isinstance(subject, Format) and own and own[-1].size is not None:
                raise self.refuse(subject, f"dim '{subject.names[dim]}' has a fixed capacity and no rest")
        for piece in pieces:
            top = all(other.dim != piece.dim or other.unit <= piece.unit for other in pieces)
            letter = subject.names[piece.dim]
            text += letter.upper() if top else f"{piece.size}{letter}"
        return text


def _logical_order(letters: str) -> tuple[str, ...]:
    """The usual logical order of a set of letters; the order of the text where there is none."""
    try:
        return from_tag(letters).names
    except LayoutError:
        return tuple(letters)


def _at_shape(names: tuple[str, ...], pieces: list[Piece], shape: tuple[int, ...]) -> Layout:
    """The layout of a string in which a block lies outside of the axis it is cut from."""
    counts = [p.size if p.size is not None else max(-(-shape[p.dim] // p.unit), 1) for p in pieces]
    chains: list[list[tuple[int, int]]] = [[] for _ in names]
    running = 1
    strides: list[int] = []
    for count in reversed(counts):
        strides.insert(0, running)
        running *= count
    for unit_descending in sorted(range(len(pieces)), key=lambda k: -pieces[k].unit):
        piece = pieces[unit_descending]
        count = counts[unit_descending] if piece.size is not None else -(-shape[piece.dim] // piece.unit)
        chains[piece.dim].append((count, strides[unit_descending]))
    return layout_of(shape, chains, names=names)


class IndexMapNotation(Notation):
    """`lambda n, c, h, w: [n, c // 16, h, w, c % 16]`, also inside `T.index_map(...)`."""

    name: ClassVar[str] = "indexmap"
    about: ClassVar[str] = "TVM index maps: lambda n, c: [n, c // 16, c % 16]"
    example: ClassVar[str] = (
        "lambda n, h, w, c: [n, h // 8, w // 8, c // 32, AXIS_SEPARATOR, h % 8, w % 8, c % 32]"
    )
    pads: ClassVar[PadPolicy] = "undef"
    says: ClassVar[frozenset[str]] = frozenset({"offset", "lo", "chunks", "size"})
    needs_shape: ClassVar[bool] = False

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        scan = Scanner(text, self.name)
        wrapped = scan.token.text != "lambda"
        if wrapped:
            if scan.accept("T") or scan.accept("tvm"):
                while scan.accept("."):
                    scan.word("index_map")
            else:
                scan.word("lambda or index_map")
            scan.expect("(")
        scan.expect("lambda")
        names: list[str] = []
        while not scan.at(":"):
            if names:
                scan.expect(",")
            start = scan.token
            name = scan.word("an index")
            if name in names:
                scan.fail(f"the map names index '{name}' twice", start)
            names.append(name)
        scan.expect(":")
        if len(names) > 64:
            scan.fail(f"the map has {len(names)} indices, at most 64 are supported")
        parser = ExpressionParser(scan, names, WORDS)
        separator: list[int] = []
        results: list[Sum] = []

        def result() -> None:
            if self._separator(scan):
                if separator:
                    scan.fail("a second separator: a format has one bar")
                separator.append(len(results))
            else:
                results.append(parser.sum())

        square = scan.at("[")
        scan.sequence("[" if square else "(", "]" if square else ")", result)
        if wrapped:
            scan.expect(")")
        scan.end()
        own = tuple(names) if all(len(n) == 1 and n.islower() for n in names) else names_for(len(names))
        return layout_of_map(own, results, shape, len(results) - separator[0] if separator else 0)

    @staticmethod
    def _separator(scan: Scanner) -> bool:
        start = scan.pos
        while scan.token.kind == "word":
            if scan.next().text == "AXIS_SEPARATOR":
                return True
            if not scan.accept("."):
                break
        scan.pos = start
        return False

    def _print(self, subject: Subject, dtype: str | None) -> str:
        names = list(subject.names)
        results = digit_results(subject, names, WORDS)
        chunk = len(subject.chunk_factors) if isinstance(subject, Format) else subject.chunk_rank
        if results is None and chunk:
            raise self.refuse(subject, "chunks are written as digits, and these are none of a dense map")
        if results is None:
            results = [address_text(self.bound(subject), names, WORDS)]
        if chunk:
            if len(results) <= chunk:
                raise self.refuse(subject, "nothing counts its chunks")
            results.insert(len(results) - chunk, "AXIS_SEPARATOR")
        text = f"lambda {', '.join(names)}: [{', '.join(results)}]"
        if chunk and isinstance(subject, Layout):
            again = self.parse(text, subject.shape)
            if isinstance(again, Format) or again.chunk_size != subject.chunk_size:
                raise self.refuse(
                    subject, f"a separator does not cut off its chunks of {subject.chunk_size} elements"
                )
        return text
