"""TVM: layout strings (`NCHW16c`) and index maps.

A layout string names the dims of the stored array: a capital letter is a dim, or the outer part of one, a number and
a small letter an inner part. Of several inner parts of one dim (`OIHW4i16o4i`, of 8-bit kernels) the left one counts
blocks of those to its right, so oneDNN tags have strings, but for names of their own. Inner parts in brackets
(`NCHW[4c2n]`) are one dim of TVM's array, in which they lie as without the brackets. The string does not
say which order the dims have in the logical tensor; here it is the usual one of that set of letters (N, C, H, W; O, I,
H, W), or the order of the string where the letters are no known set. The command line takes the extents of `--shape`
in the order of the string, as an array of that layout has them: `--from tvm HWIO --shape 3x3x32x64` has 64 outputs.

An index map is any formula; read are those that are sums of digits (see `expressions`). `AXIS_SEPARATOR` cuts the
physical dims into a part that counts allocations and a part inside each: our bar.
"""

from __future__ import annotations

import re
from typing import ClassVar

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import PadPolicy
from layout_ir.algebra.scan import Scanner
from layout_ir.algebra.tag import names_for
from layout_ir.errors import LayoutError
from layout_ir.notations.decomposition import PhysicalDim, format_of_physical, layout_of, physical_dims
from layout_ir.notations.expressions import ExpressionParser, Operators, Sum, address_text
from layout_ir.notations.memref import digit_results, layout_of_map
from layout_ir.notations.notation import Notation, Subject

OPERATORS = Operators("//", "%")
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
        """The dims as the capital letters of `text` name them: TVM's arrays have them in memory order."""
        return tuple(letter.lower() for letter in text if letter.isupper())

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        stripped = text.strip()
        # Digits are looked at once, however many there are.
        unpacked = re.sub(r"\[((?:[0-9]++[a-z]){2,})\]", r"\1", stripped)
        parts = re.findall(r"[A-Z]|(?<![0-9])[0-9]++[a-z]", unpacked)
        if not parts or "".join(parts) != unpacked:
            raise LayoutError(
                f"tvm text {stripped[:60]!r} is no list of capital letters and blocks such as 16c",
                (0, len(text)),
            )
        primal = [p.lower() for p in parts if p.isupper()]
        for letter in primal:
            if primal.count(letter) > 1:
                raise LayoutError(f"tvm text '{stripped[:60]}' names axis '{letter.upper()}' twice")
        names = _logical_order("".join(primal))
        units = dict.fromkeys(primal, 1)
        physical: list[PhysicalDim] = []
        for part in reversed(parts):
            if part.isupper():
                continue
            letter, size = part[-1], part[:-1]
            if letter not in primal:
                raise LayoutError(
                    f"tvm text '{stripped[:60]}' blocks axis '{letter}', of which there is no '{letter.upper()}'"
                )
            if len(size) > 19 or not 1 <= int(size) < _LIMIT or units[letter] * int(size) >= _LIMIT:
                raise LayoutError(
                    f"tvm text '{stripped[:60]}' has a block of {size[:20]}: sizes lie between 1 and 2^63 - 1, as does "
                    "their product in an axis"
                )
            physical.insert(0, PhysicalDim(names.index(letter), units[letter], int(size)))
            units[letter] *= int(size)
        inner = iter(physical)
        physical = [
            PhysicalDim(names.index(p.lower()), units[p.lower()], None) if p.isupper() else next(inner)
            for p in parts
        ]
        try:
            return format_of_physical(names, physical)
        except LayoutError:
            if shape is None or len(shape) != len(names):
                raise
        return _at_shape(names, physical, shape)

    def _print(self, subject: Subject, dtype: str | None) -> str:
        if not subject.names or any(len(name) != 1 or not name.islower() for name in subject.names):
            raise self.refuse(subject, f"axes are single letters, the dims are {', '.join(subject.names)}")
        written = subject.format if isinstance(subject, Layout) else subject
        physical = physical_dims(written)
        if physical is None or not self._is_plain(physical, subject.rank):
            physical = physical_dims(subject)
        if physical is None:
            raise self.refuse(subject, "layout strings are dense, this has strides of its own")
        text = self._text(subject, physical)
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
    def _is_plain(physical: tuple[PhysicalDim, ...], rank: int) -> bool:
        per_dim = [sum(p.dim == dim for p in physical) for dim in range(rank)]
        return all(per_dim) and sum(p.size is None for p in physical) == rank

    def _text(self, subject: Subject, physical: tuple[PhysicalDim, ...]) -> str:
        text = "".join(
            subject.names[d].upper() for d in range(subject.rank) if all(p.dim != d for p in physical)
        )
        for dim in range(subject.rank):
            in_memory = [p for p in physical if p.dim == dim]
            own = sorted(in_memory, key=lambda p: p.unit)
            if [p for p in in_memory if p is not own[-1]] != own[-2::-1]:
                raise self.refuse(
                    subject,
                    f"dim '{subject.names[dim]}' has a larger block inside of a smaller one, and in a layout string "
                    "the left one counts blocks of the right one",
                )
            if isinstance(subject, Format) and own and own[-1].size is not None:
                raise self.refuse(subject, f"dim '{subject.names[dim]}' has a fixed capacity and no rest")
        for part in physical:
            top = all(other.dim != part.dim or other.unit <= part.unit for other in physical)
            letter = subject.names[part.dim]
            text += letter.upper() if top else f"{part.size}{letter}"
        return text


def _logical_order(letters: str) -> tuple[str, ...]:
    """The usual logical order of a set of letters; the order of the text where there is none."""
    try:
        return Format.from_tag(letters).names
    except LayoutError:
        return tuple(letters)


def _at_shape(names: tuple[str, ...], physical: list[PhysicalDim], shape: tuple[int, ...]) -> Layout:
    """The layout of a string in which a block lies outside of the axis it is cut from."""
    counts = [p.size if p.size is not None else max(-(-shape[p.dim] // p.unit), 1) for p in physical]
    chains: list[list[tuple[int, int]]] = [[] for _ in names]
    running = 1
    strides: list[int] = []
    for count in reversed(counts):
        strides.insert(0, running)
        running *= count
    for unit_descending in sorted(range(len(physical)), key=lambda k: -physical[k].unit):
        part = physical[unit_descending]
        count = counts[unit_descending] if part.size is not None else -(-shape[part.dim] // part.unit)
        chains[part.dim].append((count, strides[unit_descending]))
    return layout_of(shape, chains, names=names)


class IndexMapNotation(Notation):
    """`lambda n, c, h, w: [n, c // 16, h, w, c % 16]`, also inside a call such as `T.index_map(...)`."""

    name: ClassVar[str] = "indexmap"
    beginning: ClassVar[str] = r"lambda\b|[\w.]+\(.*lambda\b"
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
            self._call(scan)
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
        parser = ExpressionParser(scan, names, OPERATORS)
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
            # Further arguments, such as index_dtype="int32", say nothing of places.
            while scan.token.kind != "end" and not (scan.at(")") and scan.pos == len(scan.tokens) - 2):
                if scan.at("lambda"):
                    scan.fail("a second map in one call: give one of them")
                scan.next()
            scan.expect(")")
        scan.end()
        own = tuple(names) if all(len(n) == 1 and n.islower() for n in names) else names_for(len(names))
        return layout_of_map(own, results, shape, len(results) - separator[0] if separator else 0)

    @staticmethod
    def _call(scan: Scanner) -> None:
        """Takes `T.index_map(` or `sch.transform_layout(block, ("read", 0), index_map=`, up to the lambda."""
        scan.word("lambda or a call such as T.index_map(...)")
        while scan.accept("."):
            scan.word("index_map or transform_layout")
        scan.expect("(")
        while not scan.at("lambda"):
            if scan.token.kind == "end":
                scan.fail("expected a lambda among the arguments")
            scan.next()

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
        results = digit_results(subject, names, OPERATORS)
        chunk = len(subject.chunk_factors) if isinstance(subject, Format) else subject.chunk_rank
        if results is None and chunk:
            raise self.refuse(subject, "chunks are written as digits, and these are none of a dense map")
        if results is None:
            results = [address_text(self.bound(subject), names, OPERATORS)]
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
