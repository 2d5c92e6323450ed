"""MLIR: memref types with strided layouts, and affine maps.

`memref<2x5xf32, strided<[5, 1], offset: 3>>` is one stride per dim in elements. An affine map with one result is the
address, with several the index into a row-major array of the results' extents; both are read as sums of digits (see
`expressions`). Neither says anything of pads. Dynamic numbers (`?`) and symbols have no Layout: a Layout is what is
left when everything is known.
"""

from __future__ import annotations

from typing import ClassVar

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.scan import Scanner
from layout_ir.algebra.tag import names_for
from layout_ir.elements.element_types import canonical_name
from layout_ir.errors import LayoutError
from layout_ir.notations.decomposition import PhysicalDim, from_strides, physical_dims, strided
from layout_ir.notations.expressions import (
    ExpressionParser,
    Operators,
    Sum,
    Term,
    address_text,
    bound_layout,
    dense_format,
    digit_text,
)
from layout_ir.notations.notation import Notation, Subject
from layout_ir.notations.shaped_types import read_shaped_type

OPERATORS = Operators("floordiv", "mod")


def _strided(scan: Scanner) -> tuple[tuple[int, ...], int]:
    scan.expect("strided", "<")

    def number() -> int:
        if scan.token.text == "?":
            scan.fail("a dynamic stride or offset '?' has no layout: give its value")
        return scan.integer("a stride")

    strides = tuple(scan.sequence("[", "]", number))
    offset = 0
    if scan.accept(","):
        scan.expect("offset", ":")
        offset = number()
    scan.expect(">")
    return strides, offset


def _affine(scan: Scanner, shape: tuple[int, ...] | None) -> Subject:
    wrapped = scan.accept("affine_map")
    if wrapped:
        scan.expect("<")
    names = scan.sequence("(", ")", lambda: scan.word("a dim"))
    if len(set(names)) != len(names):
        scan.fail(f"the map names a dim twice in ({', '.join(names)})")
    if len(names) > 64:
        scan.fail(f"the map has {len(names)} dims, at most 64 are supported")
    if scan.token.text == "[":
        scan.fail("symbols have no value here: a layout needs constants")
    scan.expect("->")
    parser = ExpressionParser(scan, names, OPERATORS)
    results: list[Sum] = scan.sequence("(", ")", parser.sum)
    if wrapped:
        scan.expect(">")
    return layout_of_map(names_for(len(names)), results, shape)


def layout_of_map(
    names: tuple[str, ...], results: list[Sum], shape: tuple[int, ...] | None, chunk: int = 0
) -> Subject:
    """The Format of a map of single digits; with a shape the Layout of any map."""
    if shape is not None and len(shape) != len(names):
        raise LayoutError(
            f"rank mismatch between map of {len(names)} dims and shape {shape}: {len(names)} != {len(shape)}"
        )
    if len(results) != 1 or len(names) <= 1:
        try:
            format = dense_format(names, results, chunk)
        except LayoutError:
            if shape is None or chunk:
                raise
            format = None
        if format is not None and (chunk or shape is None or len(results) > 1):
            return format
    if shape is None:
        raise LayoutError(
            "a map whose results are not single digits has strides that depend on the shape: give one"
        )
    if chunk:
        raise LayoutError("a map with a separator is read only where its results are single digits")
    return bound_layout(names, results, shape)


class MemrefNotation(Notation):
    """`memref<2x5xf32, strided<[5, 1]>>`, or the layout alone: `strided<[5, 1], offset: 3>`."""

    name: ClassVar[str] = "memref"
    beginning: ClassVar[str] = r"memref<|strided<"
    about: ClassVar[str] = "MLIR memref types and their strided layouts"
    example: ClassVar[str] = "memref<2x16x5x4xf32, strided<[1024, 64, 8, 1], offset: 19>>"
    says: ClassVar[frozenset[str]] = frozenset({"offset", "lo", "size"})

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        scan = Scanner(text, self.name)
        if scan.token.text == "strided":
            strides, offset = _strided(scan)
            scan.end()
            if shape is None:
                raise LayoutError("strides alone have no extents: give a shape, or write memref<...>")
            return from_strides(shape, strides, offset)
        scan.expect("memref", "<")
        extents = self._extents(scan)
        layout: Subject = Format.row_major(names_for(len(extents)))
        if scan.accept(","):
            if scan.token.text == "strided":
                strides, offset = _strided(scan)
                layout = from_strides(extents, strides, offset)
            elif scan.token.text == "affine_map":
                layout = _affine(scan, extents)
            else:
                scan.fail(f"expected strided<...> or affine_map<...>, found {scan.found()}")
        scan.expect(">")
        scan.end()
        return layout.bind(extents) if isinstance(layout, Format) else layout

    def element_type(self, text: str) -> str | None:
        """The element type of a memref; None for strides alone."""
        scan = Scanner(text, self.name)
        if not scan.accept("memref"):
            return None
        scan.expect("<")
        return read_shaped_type(scan).element

    @staticmethod
    def _extents(scan: Scanner) -> tuple[int, ...]:
        """The extents in front of the element type of `2x5xf32`."""
        start = scan.token
        found = read_shaped_type(scan)
        if found.static is None:
            scan.fail("dynamic extents have no layout: write their values in place of '?'", start)
        if found.element is None:
            canonical_name(scan.text[start.start : scan.token.start].rpartition("x")[2].strip())
        return found.static

    def _print(self, subject: Subject, dtype: str | None) -> str:
        layout = self.bound(subject)
        strides, offset = strided(layout, self.name)
        inner = f"[{', '.join(map(str, strides))}]" + (f", offset: {offset}" if offset else "")
        if dtype is None:
            return f"strided<{inner}>"
        return f"memref<{'x'.join([*map(str, layout.shape), canonical_name(dtype)])}, strided<{inner}>>"


class AffineNotation(Notation):
    """`affine_map<(d0, d1) -> (d1 floordiv 8, d0, d1 mod 8)>`."""

    name: ClassVar[str] = "affine"
    beginning: ClassVar[str] = r"affine_map<|\([\w\s,]*\)\s*->"
    about: ClassVar[str] = "MLIR affine maps of indices to physical indices or to the address"
    example: ClassVar[str] = "affine_map<(d0, d1, d2, d3) -> (d0, d1 floordiv 8, d2, d3, d1 mod 8)>"
    says: ClassVar[frozenset[str]] = frozenset({"offset", "lo", "size"})
    needs_shape: ClassVar[bool] = False

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        scan = Scanner(text, self.name)
        found = _affine(scan, shape)
        scan.end()
        return found

    def _print(self, subject: Subject, dtype: str | None) -> str:
        names = [f"d{k}" for k in range(subject.rank)]
        results = digit_results(subject, names, OPERATORS)
        if results is None:
            results = [address_text(self.bound(subject), names, OPERATORS)]
        return f"affine_map<({', '.join(names)}) -> ({', '.join(results)})>"


def digit_results(subject: Subject, names: list[str], operators: Operators) -> list[str] | None:
    """One formula per physical dim, outermost first; None where the layout is not the row-major array of them."""
    written = subject if isinstance(subject, Format) else subject.format
    if written.offset or written.size is not None or subject.rank == 0:
        return None
    lo = written.lo or (0,) * subject.rank
    physical = physical_dims(written) or physical_dims(subject)
    if physical is None or len(physical) < 2:
        return None
    top = {p.dim: p.unit for p in sorted(physical, key=lambda p: p.unit)}
    if isinstance(subject, Format) and any(p.size is not None and p.unit == top[p.dim] for p in physical):
        return None
    cut = [PhysicalDim(p.dim, p.unit, None if p.unit == top[p.dim] else p.size) for p in physical]
    if isinstance(subject, Layout):
        format = dense_format(
            subject.names, [Sum(0, (Term(1, p.dim, lo[p.dim], p.unit, p.size),)) for p in cut]
        )
        if format is None:
            return None
        bound = format.bind(subject.shape)
        if not bound.same_map(subject) or bound.padded_shape != subject.padded_shape:
            return None
    return [digit_text(names[p.dim], operators, p, lo[p.dim]) for p in cut]
