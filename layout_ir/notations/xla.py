"""XLA and JAX layouts: an order of dims and nested tiles.

`{1,0:T(8,128)(2,1)}` lists the dims minor to major, then the tiles. A tile covers the last dims of the physical shape;
it cuts each into blocks, rounding up, and appends the blocks' extents. The next tile does the same to the shape that
results. `Layout(major_to_minor=(0, 1), tiling=((8, 128), (2, 1)))` is JAX's spelling of the same.

HLO writes the layout behind element type and extents, `bf16[256,256]{1,0:T(8,128)(2,1)}`; a shape without a layout is
row-major. Read are such shapes, and lines of HLO that begin with one, `%p = bf16[256,256]{1,0} parameter(0)`. JAX
writes `Format(layout=Layout(...), sharding=...)`; the layout is that of one shard, and the sharding is read over.

Where a tile divides what it cuts the result is digits. A second tile that does not divide the first (`T(6)(4)`) has
units that do not divide each other; it is read only for shapes at which the elements are digits nevertheless. `*` in
a tile fuses two dims, which no Format says. XLA leaves open what pads hold. Qualifiers that say other things than
addresses are read over where they are about the element (`E`) and the memory space (`S`), and refused otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import ClassVar

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.scan import Scanner
from layout_ir.algebra.steps import Steps, fit
from layout_ir.algebra.tag import names_for
from layout_ir.elements.element_types import canonical_name
from layout_ir.errors import LayoutError, shape_text
from layout_ir.notations.decomposition import PhysicalDim, blocked, format_of_physical, layout_of
from layout_ir.notations.notation import Notation, Subject

Tiles = tuple[tuple[int, ...], ...]
_TABLE_BOUND = 1 << 16


def subject_of(major_to_minor: Sequence[int], tiles: Tiles, shape: tuple[int, ...] | None) -> Subject:
    """What the dims, major to minor, and the tiles mean. Raises LayoutError where that is no Format."""
    rank = len(major_to_minor)
    if sorted(major_to_minor) != list(range(rank)):
        raise LayoutError(f"dims {list(major_to_minor)} are no permutation of {rank} dims")
    if rank > 64 or sum(map(len, tiles)) > 256:
        raise LayoutError(f"a layout of {rank} dims and {len(tiles)} tiles is more than is read")
    physical = [PhysicalDim(dim, 1, None) for dim in major_to_minor]
    try:
        for tile in tiles:
            physical = _tiled(physical, tile)
        return format_of_physical(names_for(rank), physical)
    except LayoutError as error:
        if shape is None or len(shape) != rank:
            raise
        return _at_shape(major_to_minor, tiles, shape, error)


def _tiled(physical: list[PhysicalDim], tile: Sequence[int]) -> list[PhysicalDim]:
    """The physical shape after one more tile, whose sizes must divide what they cut."""
    if len(tile) > len(physical):
        raise LayoutError(f"tile {tuple(tile)} has more dims than the {len(physical)} dims it is applied to")
    keep, cut = physical[: len(physical) - len(tile)], physical[len(physical) - len(tile) :]
    blocks: list[PhysicalDim] = []
    inside: list[PhysicalDim] = []
    for part, size in zip(cut, tile, strict=True):
        if size < 1:
            raise LayoutError(f"tile {tuple(tile)} has size {size}, sizes start at 1")
        if part.size is not None and part.size % size:
            raise LayoutError(
                f"tile {tuple(tile)} cuts {part.size} into blocks of {size}: it rounds up, and units that do not "
                "divide each other are no digits"
            )
        blocks.append(
            PhysicalDim(part.dim, part.unit * size, None if part.size is None else part.size // size)
        )
        inside.append(PhysicalDim(part.dim, part.unit, size))
    return [*keep, *blocks, *inside]


def _at_shape(
    major_to_minor: Sequence[int], tiles: Tiles, shape: tuple[int, ...], error: LayoutError
) -> Layout:
    """The layout by its addresses, dim by dim, where they are digits at this shape although the tiles are none."""
    if sum(shape) > _TABLE_BOUND or 0 in shape:
        raise error
    extents = [shape[d] for d in major_to_minor]
    physical = [(at, extents[at]) for at in range(len(extents))]
    # Per physical dim: how its index comes from that of its logical dim, as a list of (divisor, modulus) steps.
    steps: list[list[tuple[int, int | None]]] = [[] for _ in physical]
    for tile in tiles:
        start = len(physical) - len(tile)
        if start < 0:
            raise error
        head, cut = physical[:start], physical[start:]
        ahead, behind = steps[:start], steps[start:]
        physical = head + [(at, -(-n // t)) for (at, n), t in zip(cut, tile, strict=True)]
        physical += [(at, t) for (at, _), t in zip(cut, tile, strict=True)]
        steps = ahead + [[*s, (t, None)] for s, t in zip(behind, tile, strict=True)]
        steps += [[*s, (1, t)] for s, t in zip(behind, tile, strict=True)]
    strides = [prod(n for _, n in physical[k + 1 :]) for k in range(len(physical))]
    chains: list[list[tuple[int, int]]] = []
    for dim, extent in enumerate(shape):
        at = list(major_to_minor).index(dim)
        values = [0] * extent
        for (owner, _), path, stride in zip(physical, steps, strides, strict=True):
            if owner == at:
                for x in range(extent):
                    values[x] += _along(path, x) * stride
        terms = fit(Steps.of_values(values))
        if terms is None:
            raise error
        units = [u for u, _ in terms]
        counts = [b // a for a, b in itertools.pairwise(units)] + [-(-extent // units[-1])] if terms else []
        chains.append([(n, s) for n, (_, s) in zip(counts, terms, strict=True)][::-1] or [(1, 1)])
    return layout_of(shape, chains, size=prod(n for _, n in physical))


def _along(path: Sequence[tuple[int, int | None]], x: int) -> int:
    for divisor, modulus in path:
        x = x // divisor if modulus is None else x % modulus
    return x


def parts_of(subject: Subject, who: str) -> tuple[tuple[int, ...], Tiles]:
    """Dims major to minor and the tiles of `subject`. Raises LayoutError where nested tiles cannot say it.

    The inner blocks in memory order fall into runs in which physical dims rise; each run is what one level leaves
    outside of the next, so level k tiles by the products of the runs from k on.
    """
    outer, inner = blocked(subject, who)
    place = {dim: at for at, dim in enumerate(outer)}
    runs: list[list[tuple[int, int]]] = []
    for dim, size in inner:
        if not runs or place[dim] <= place[runs[-1][-1][0]]:
            runs.append([])
        runs[-1].append((dim, size))
    tiles: list[tuple[int, ...]] = []
    for level in range(len(runs)):
        below = [block for run in runs[level:] for block in run]
        first = min(place[dim] for dim, _ in below)
        tiles.append(tuple(prod(size for d, size in below if d == dim) for dim in outer[first:]))
    found = subject_of(outer, tuple(tiles), None)
    if isinstance(subject, Layout):
        assert isinstance(found, Format)
        bound = found.bind(subject.shape)
        if not bound.same_map(subject) or bound.padded_shape != subject.padded_shape:
            raise LayoutError(
                f"{who} cannot say {subject}: its blocks, in memory order {inner}, are no nested tiles of the last dims"
            )
    elif isinstance(found, Layout) or found.all_factors != subject.all_factors:
        raise LayoutError(
            f"{who} cannot say {subject}: its blocks, in memory order {inner}, are no nested tiles of the last dims"
        )
    return tuple(outer), tuple(tiles)


class XlaNotation(Notation):
    """`{1,0:T(8,128)(2,1)}`, and whole shapes: `bf16[256,256]{1,0:T(8,128)(2,1)}`."""

    name: ClassVar[str] = "xla"
    beginning: ClassVar[str] = (
        r"\{\s*[\d:}]|ROOT\b|%?[\w.-]+\s*=\s*\(?[a-z]\w*\[|\(?[a-z]\w*\[[\d,<=?\s]*\](?!\[)"
    )
    order: ClassVar[str] = "the dims of the array, which the numbers in the braces count from 0"
    about: ClassVar[str] = (
        "XLA layouts: dims minor to major, then tiles; with or without element type and extents"
    )
    example: ClassVar[str] = "{1,0:T(8,128)(2,1)}"
    needs_shape: ClassVar[bool] = False

    def element_type(self, text: str) -> str | None:
        """The element type of an HLO shape; None where a layout stands alone."""
        found = self._shape(Scanner(text, self.name))
        return None if found is None else found[0]

    def _shape(self, scan: Scanner) -> tuple[str, tuple[int, ...], bool] | None:
        """Takes `ROOT %p = bf16[256,256]`: element type, extents, and whether an instruction begins so."""
        if scan.at("{"):
            return None
        is_line = scan.accept("ROOT")
        if scan.at("%") or (scan.token.kind == "word" and scan.tokens[scan.pos + 1].text in ("=", ".", "-")):
            is_line = True
            while not scan.at("=") and scan.token.kind != "end":
                scan.next()
            scan.expect("=")
        if scan.at("("):
            scan.fail("a tuple has one layout for each of its elements: give the shape of one of them")
        start = scan.token
        word = scan.word("an element type such as bf16, or {")
        if word in ("token", "opaque"):
            scan.fail(f"a {word} has no elements and no layout", start)
        scan.expect("[")
        try:
            dtype = canonical_name(word)
        except LayoutError as error:
            scan.fail(str(error), start)
        extents: list[int] = []
        while not scan.accept("]"):
            if extents:
                scan.expect(",")
            if scan.at("<") or scan.at("?"):
                scan.fail("a dynamic extent has no layout: give its value")
            extents.append(scan.integer("an extent", low=0))
        return dtype, tuple(extents), is_line

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        scan = Scanner(text, self.name)
        stated = self._shape(scan)
        if stated is None:
            dims, tiles = self._layout(scan)
            scan.end()
            return subject_of(dims[::-1], tiles, shape)
        element, extents, is_line = stated
        if dtype is not None and canonical_name(dtype) != element:
            raise LayoutError(f"xla text says elements of {element}, asked for were {dtype}")
        dims, tiles = list(reversed(range(len(extents)))), ()
        at = scan.token
        if at.text == "{":
            dims, tiles = self._layout(scan)
            if len(dims) != len(extents):
                scan.fail(
                    f"the layout has {len(dims)} dims, the shape {shape_text(extents)} has {len(extents)}", at
                )
        if not is_line:
            scan.end()
        found = subject_of(dims[::-1], tiles, extents)
        return found.bind(extents) if isinstance(found, Format) else found

    def _layout(self, scan: Scanner) -> tuple[list[int], Tiles]:
        """Takes `{1,0:T(8,128)(2,1)S(1)}`: the dims, minor to major, and the tiles."""
        scan.expect("{")
        dims: list[int] = []
        while not (scan.at(":") or scan.at("}")):
            if dims:
                scan.expect(",")
            dims.append(scan.integer("a dim", low=0))
        tiles: list[tuple[int, ...]] = []
        if scan.accept(":"):
            while not scan.at("}"):
                start = scan.token
                word = scan.word("T(...) or another qualifier")
                if word == "T":
                    while scan.at("("):
                        tiles.append(tuple(scan.sequence("(", ")", lambda: self._tile_size(scan))))
                elif word in ("E", "S"):
                    scan.integers("(", ")", f"qualifier {word}")
                else:
                    scan.fail(f"qualifier '{word}' says more than addresses: T, E and S are read", start)
        scan.expect("}")
        return dims, tuple(tiles)

    @staticmethod
    def _tile_size(scan: Scanner) -> int:
        if scan.token.text == "*":
            scan.fail("'*' fuses a dim with the next minor one, and no format has fused dims")
        return scan.integer("a tile size", low=1)

    def _print(self, subject: Subject, dtype: str | None) -> str:
        dims, tiles = parts_of(subject, self.name)
        order = ",".join(map(str, reversed(dims)))
        text = "".join(f"({','.join(map(str, tile))})" for tile in tiles)
        return f"{{{order}:T{text}}}" if tiles else f"{{{order}}}"


class JaxNotation(Notation):
    """`Layout(major_to_minor=(0, 1), tiling=((8, 128), (2, 1)))`, also inside of a `Format` with a sharding."""

    name: ClassVar[str] = "jax"
    beginning: ClassVar[str] = r"Format\(|Layout\b|DeviceLocalLayout\b"
    order: ClassVar[str] = "the dims of the array (x.shape), which major_to_minor counts from 0"
    about: ClassVar[str] = "JAX layouts: dims major to minor, then tiles; reads Format and DeviceLocalLayout"
    example: ClassVar[str] = "Layout(major_to_minor=(0, 1), tiling=((8, 128), (2, 1)))"
    needs_shape: ClassVar[bool] = False

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        scan = Scanner(text, self.name)
        is_format = scan.accept("Format")
        if is_format:
            scan.expect("(")
            if scan.accept("layout"):
                scan.expect("=")
        self._refuse_undecided(scan)
        start = scan.token
        if scan.word("Layout or Format") not in ("Layout", "DeviceLocalLayout"):
            scan.fail(
                f"'{start.text}' is neither Layout nor Format (nor DeviceLocalLayout, as it was called)",
                start,
            )
        self._refuse_undecided(scan)
        dims, tiles = self._layout(scan)
        if is_format:
            # The sharding says which device has which part; the layout is that of a part.
            depth = 1
            while depth:
                if scan.token.kind == "end":
                    scan.expect(")")
                depth += {"(": 1, ")": -1}.get(scan.next().text, 0)
        scan.end()
        return subject_of(dims, tiles, shape)

    @staticmethod
    def _refuse_undecided(scan: Scanner) -> None:
        if scan.accept("."):  # Layout.AUTO
            pass
        if scan.at("AUTO") or scan.at("None") or scan.at("DeviceLocalLayout.AUTO"):
            scan.fail(
                f"{scan.token.text} leaves the layout to the compiler: give that of the compiled function"
            )

    @staticmethod
    def _layout(scan: Scanner) -> tuple[tuple[int, ...], Tiles]:
        """Takes what stands in the parentheses of a layout: dims major to minor, and tiles."""
        scan.expect("(")
        if scan.accept("major_to_minor"):
            scan.expect("=")
        dims = scan.integers("(", ")", "a dim", low=0)
        tiles: Tiles = ()
        while scan.accept(","):
            if scan.at(")"):
                break
            start = scan.token
            field = "tiling" if scan.at("(") or scan.at("None") else scan.word("a field").lstrip("_")
            if start.text not in ("(", "None"):
                scan.expect("=")
            if field == "tiling":
                if not scan.accept("None"):
                    tiles = tuple(
                        scan.sequence("(", ")", lambda: scan.integers("(", ")", "a tile size", low=1))
                    )
            elif field == "sub_byte_element_size_in_bits":
                scan.integer("the element size", low=0)
            else:
                scan.fail(f"unexpected field '{start.text}': a layout has tiling and an element size", start)
        scan.expect(")")
        return dims, tiles

    def _print(self, subject: Subject, dtype: str | None) -> str:
        dims, tiles = parts_of(subject, self.name)
        if not tiles:
            return f"Layout(major_to_minor={tuple(dims)})"
        inner = ", ".join(str(tuple(tile)) for tile in tiles)
        return f"Layout(major_to_minor={tuple(dims)}, tiling=({inner}{',' if len(tiles) == 1 else ''}))"
