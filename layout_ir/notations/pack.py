"""linalg.pack: inner tiles behind permuted outer dims.

`inner_dims_pos` and `inner_tiles` are the tiles in memory order, one per dim at most; `outer_dims_perm[k]` is the
source dim that the outer dim k of the result is. The op itself says what pads hold (`padding_value`), which is our pad
policy. A dim tiled twice is a pack of a pack and not one op; a dense format whose tile is not innermost is none at all.

A whole line, `linalg.pack %x ... : tensor<128x256xf32> -> tensor<16x8x8x32xf32>`, has the extents too; one of
linalg.unpack is about its source. There the padding value is an operand, `padding_value(%zero : f32)`, whose number the
line does not say: such pads are read as undef.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import PadPolicy, pad_number
from layout_ir.algebra.scan import Scanner
from layout_ir.algebra.tag import names_for
from layout_ir.errors import LayoutError, shape_text
from layout_ir.notations.decomposition import blocked
from layout_ir.notations.notation import Notation, Subject
from layout_ir.notations.shaped_types import ShapedType, read_shaped_type


@dataclass(frozen=True, slots=True)
class Pack:
    """The metadata of one linalg.pack. `padding` is the pad policy: "undef" where the op has no padding value."""

    inner_dims_pos: tuple[int, ...]
    inner_tiles: tuple[int, ...]
    outer_dims_perm: tuple[int, ...]
    padding: PadPolicy = "undef"

    def __post_init__(self):
        rank = len(self.outer_dims_perm)
        if sorted(self.outer_dims_perm) != list(range(rank)):
            raise LayoutError(
                f"outer_dims_perm {list(self.outer_dims_perm)} is no permutation of {rank} dims"
            )
        if len(self.inner_dims_pos) != len(self.inner_tiles):
            raise LayoutError(
                f"inner_dims_pos {list(self.inner_dims_pos)} and inner_tiles {list(self.inner_tiles)} differ in "
                f"length: {len(self.inner_dims_pos)} != {len(self.inner_tiles)}"
            )
        for at, dim in enumerate(self.inner_dims_pos):
            if not 0 <= dim < rank:
                raise LayoutError(f"inner_dims_pos names dim {dim} of a tensor of rank {rank}")
            if dim in self.inner_dims_pos[:at]:
                raise LayoutError(
                    f"inner_dims_pos names dim {dim} twice: a pack has one tile per dim, a second is a second pack"
                )
            if self.inner_tiles[at] < 1:
                raise LayoutError(f"inner tile {self.inner_tiles[at]} of dim {dim}: tiles start at 1")

    @staticmethod
    def of(subject: Subject) -> Pack:
        """The pack that makes a row-major tensor into `subject`. Raises LayoutError where one pack cannot."""
        outer, inner = blocked(subject, "pack")
        tiled = [dim for dim, _ in inner]
        for dim in tiled:
            if tiled.count(dim) > 1:
                raise LayoutError(
                    f"pack cannot say {subject}: dim '{subject.names[dim]}' has {tiled.count(dim)} blocks, a pack has "
                    "one tile per dim"
                )
        found = Pack(tuple(tiled), tuple(size for _, size in inner), tuple(outer), subject.pad)
        if (
            isinstance(subject, Layout)
            and found.format(subject.names).bind(subject.shape).padded_shape != subject.padded_shape
        ):
            raise LayoutError(
                f"pack cannot say {subject}: it pads {shape_text(subject.shape)} to multiples of its tiles, but the "
                f"padded extents are {shape_text(subject.padded_shape)}"
            )
        return found

    def format(self, names: Sequence[str] | None = None) -> Format:
        """The Format of the packed tensor, over the dims of the source."""
        outer = [Factor(dim) for dim in self.outer_dims_perm]
        inner = [Factor(dim, size) for dim, size in zip(self.inner_dims_pos, self.inner_tiles, strict=True)]
        return Format(tuple(names or names_for(len(outer))), (*outer, *inner), pad=self.padding)

    def packed_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Extents of the result for a source of extents `shape`."""
        if len(shape) != len(self.outer_dims_perm):
            raise LayoutError(
                f"rank mismatch between pack and shape: {len(self.outer_dims_perm)} != {len(shape)}"
            )
        tile = dict(zip(self.inner_dims_pos, self.inner_tiles, strict=True))
        return (*(-(-shape[d] // tile.get(d, 1)) for d in self.outer_dims_perm), *self.inner_tiles)

    def __str__(self) -> str:
        number = pad_number(self.padding)
        padding = f"padding_value({number!r}) " if number is not None else ""
        lists = (self.outer_dims_perm, self.inner_dims_pos, self.inner_tiles)
        perm, pos, tiles = (f"[{', '.join(map(str, values))}]" for values in lists)
        return f"{padding}outer_dims_perm = {perm} inner_dims_pos = {pos} inner_tiles = {tiles}"


class PackNotation(Notation):
    """`padding_value(0.0) outer_dims_perm = [0, 1, 2, 3] inner_dims_pos = [1] inner_tiles = [8]`."""

    name: ClassVar[str] = "pack"
    beginning: ClassVar[str] = (
        r"(%\w+\s*=\s*)?(linalg|tensor)\.|(padding_value|outer_dims_perm|inner_dims_pos|inner_tiles)\b"
    )
    about: ClassVar[str] = (
        "MLIR linalg.pack: outer_dims_perm, inner_dims_pos, inner_tiles, padding_value; reads whole lines"
    )
    example: ClassVar[str] = (
        "padding_value(0.0) outer_dims_perm = [0, 1, 2, 3] inner_dims_pos = [1] inner_tiles = [8]"
    )
    needs_shape: ClassVar[bool] = False

    def element_type(self, text: str) -> str | None:
        """The element type of a whole line; None where only the fields stand."""
        types = self._read(text)[3]
        return types[0].element if types else None

    def _read(
        self, text: str
    ) -> tuple[dict[str, tuple[int, ...]], PadPolicy | None, bool, tuple[ShapedType, ...]]:
        """The lists, the padding, whether it is an unpack, and the types of source and result, if they stand there."""
        scan = Scanner(text, self.name)
        lists: dict[str, tuple[int, ...]] = {}
        padding: PadPolicy | None = None
        types: tuple[ShapedType, ...] = ()
        is_line, is_unpack = self._opening(scan)
        while scan.token.kind != "end":
            start = scan.token
            if is_line and scan.accept(":"):
                types = self._types(scan)
                break
            field = scan.word("a field of linalg.pack")
            if field == "padding_value" and padding is None:
                padding = self._padding(scan)
            elif field in ("outer_dims_perm", "inner_dims_pos", "inner_tiles") and field not in lists:
                scan.expect("=")
                lists[field] = tuple(scan.sequence("[", "]", partial(self._number, scan, field)))
            elif is_line and field == "into":
                scan.expect("%")
                scan.next()
            else:
                scan.fail(
                    f"unexpected field '{field}': a pack has padding_value, outer_dims_perm, inner_dims_pos and "
                    "inner_tiles",
                    start,
                )
        if "inner_dims_pos" not in lists or "inner_tiles" not in lists:
            raise LayoutError("pack text needs inner_dims_pos and inner_tiles")
        return lists, padding, is_unpack, types

    @staticmethod
    def _opening(scan: Scanner) -> tuple[bool, bool]:
        """Takes `%p = linalg.pack %x`; whether it was there, and whether the op is unpack."""
        if scan.accept("%"):
            scan.next()
            scan.expect("=")
        if scan.token.text not in ("linalg", "tensor"):
            return False, False
        scan.next()
        scan.expect(".")
        start = scan.token
        op = scan.word("pack or unpack")
        if op not in ("pack", "unpack"):
            scan.fail(f"'{op}' has no tiles: pack and unpack are read", start)
        scan.expect("%")
        scan.next()
        return True, op == "unpack"

    @staticmethod
    def _number(scan: Scanner, field: str) -> int:
        if scan.at("%"):
            scan.fail(f"{field} holds a value that only the run time knows: a layout needs a number")
        return scan.integer(field)

    @staticmethod
    def _types(scan: Scanner) -> tuple[ShapedType, ...]:
        found: list[ShapedType] = []
        for at in range(2):
            if at:
                scan.expect("->")
            if not scan.accept("memref"):
                scan.expect("tensor")
            scan.expect("<")
            found.append(read_shaped_type(scan))
            scan.expect(">")
        scan.end()
        return tuple(found)

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        lists, padding, is_unpack, types = self._read(text)
        plain = types[is_unpack] if types else None
        rank = (
            len(lists["outer_dims_perm"])
            if lists.get("outer_dims_perm")
            else len(plain.extents)
            if plain is not None
            else None
            if shape is None
            else len(shape)
        )
        if rank is None:
            raise LayoutError("pack text without outer_dims_perm does not say the rank: give a shape")
        if rank > 64:
            raise LayoutError(f"pack text has rank {rank}, at most 64 is supported")
        perm = lists.get("outer_dims_perm") or tuple(range(rank))
        pack = Pack(
            lists["inner_dims_pos"], lists["inner_tiles"], perm, "undef" if padding is None else padding
        )
        if plain is None or plain.static is None:
            return pack.format()
        packed = types[not is_unpack]
        expected = pack.packed_shape(plain.static)
        if len(packed.extents) != len(expected) or any(
            said is not None and said != found for said, found in zip(packed.extents, expected, strict=True)
        ):
            raise LayoutError(
                f"pack text says that {shape_text(plain.static)} is {shape_text(packed.extents)} once packed, its "
                f"tiles make {shape_text(expected)}"
            )
        return pack.format().bind(plain.static)

    @staticmethod
    def _padding(scan: Scanner) -> PadPolicy:
        scan.expect("(")
        if scan.accept("%"):
            while not scan.accept(")"):
                if scan.next().kind == "end":
                    scan.expect(")")
            return "undef"
        start, text = scan.token, ""
        while scan.token.kind != "end" and scan.token.text not in (")", ":"):
            text += scan.next().text
        if scan.accept(":"):
            scan.word("an element type")
        scan.expect(")")
        try:
            return float(text)
        except ValueError:
            scan.fail(f"padding value '{text[:24]}' is no number", start)

    def _print(self, subject: Subject, dtype: str | None) -> str:
        if subject.pad == "zp":
            raise self.refuse(
                subject, "its pads hold the zero point, of which pack needs the value: write pad = number"
            )
        if isinstance(subject, Layout) and subject.is_padded and subject.pad == "undef":
            raise self.refuse(
                subject, "its pads are undef, and a tile that rounds up needs a value: write pad = zero"
            )
        return str(Pack.of(subject))
