"""Qualcomm HTP: `ChunkedMemoryLayout<rank, dim,size, ...>` and the R4 names.

The pairs run outermost to innermost; size 0 is the rest of a dim and stands once per dim, before all others. What has
a size is the chunk. Chunks need not follow each other in memory, a table says where each begins, and that is what the
bar of a Format says too. A blocked format without a bar prints as the same pairs: chunks one behind the other are one
possible table. `FlatMemoryLayout<rank>` is row-major, in chunks of one element, which no bar can describe.

The published listings contradict each other in two places, and both readings have a name here: R4NCHW stores
N, C, W, H in the table (the text has N, C, H, W), and SpatialXMajor is coded 4 high (its comment says 8, which is
R4Crouton4x1). Pads read back as `undef`: that the hardware leaves 31 there is a policy of the tensor, `pad = 31`.
"""

from __future__ import annotations

from math import prod
from typing import ClassVar

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.scan import Scanner
from layout_ir.notations.decomposition import blocked
from layout_ir.notations.notation import Notation, Subject

_FLAT = ((0, 0), (1, 0), (2, 0), (3, 0))
NAMES: dict[str, tuple[tuple[int, int], ...]] = {
    "R4Flat": _FLAT,
    "R4NCHW": ((0, 0), (3, 0), (2, 0), (1, 0)),
    "R4Depth32": ((0, 0), (1, 0), (3, 0), (2, 0), (2, 4), (3, 32)),
    "R4Crouton": (*_FLAT, (1, 8), (2, 8), (3, 32)),
    "R4Crouton4x1": (*_FLAT, (1, 8), (2, 2), (3, 32), (2, 4)),
    "R4Crouton2x2": (*_FLAT, (1, 4), (2, 4), (3, 32), (1, 2), (2, 2)),
    "R4Crouton2": (*_FLAT, (1, 8), (2, 2), (3, 32), (2, 2)),
    "SpatialXMajor": (*_FLAT, (1, 4), (2, 2), (3, 32), (2, 4)),
}
"""Named layouts of (batch, height, width, depth) tensors as pairs (dim, size)."""

_ALIASES = {"ChannelMajorCrouton": "R4Crouton", "SpatialXYMajor": "R4Crouton2x2"}


def format_of_pairs(pairs: tuple[tuple[int, int], ...], rank: int) -> Format:
    """The Format that the pairs (dim, size) mean; sized pairs are the chunk."""
    names = ("n", "h", "w", "c") if rank == 4 else tuple("abcdefghijkl"[:rank]) if rank <= 12 else None
    outer = tuple(Factor(dim) for dim, size in pairs if size == 0)
    chunk = tuple(Factor(dim, size) for dim, size in pairs if size != 0)
    return Format(names or tuple(f"d{k}" for k in range(rank)), outer, chunk)


class HtpNotation(Notation):
    """`ChunkedMemoryLayout<4, 0,0, 1,0, 2,0, 3,0, 1,8, 2,8, 3,32>`, `FlatMemoryLayout<4>`, `R4Crouton`."""

    name: ClassVar[str] = "htp"
    beginning: ClassVar[str] = r"(Chunked|Flat)MemoryLayout\b|R4[A-Z]"
    about: ClassVar[str] = "Qualcomm HTP: ChunkedMemoryLayout<rank, dim,size, ...> and R4 names"
    order: ClassVar[str] = "dims 0, 1, 2, 3 of the pairs: n, h, w, c; h, w, i, o for weights"
    by_index: ClassVar[bool] = False
    example: ClassVar[str] = "ChunkedMemoryLayout<4, 0,0, 1,0, 2,0, 3,0, 1,8, 2,8, 3,32>"
    says: ClassVar[frozenset[str]] = frozenset({"chunks"})
    needs_shape: ClassVar[bool] = False

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        scan = Scanner(text, "htp")
        first = scan.token
        word = scan.word("ChunkedMemoryLayout, FlatMemoryLayout or a name such as R4Crouton")
        if word in ("ChunkedMemoryLayout", "FlatMemoryLayout"):
            scan.expect("<")
            rank = scan.integer("the rank", low=0)
            if rank > 64:
                scan.fail(f"rank {rank} is above 64")
            if word == "FlatMemoryLayout":
                scan.expect(">")
                scan.end()
                return format_of_pairs(tuple((dim, 0) for dim in range(rank)), rank)
            pairs: list[tuple[int, int]] = []
            while not scan.accept(">"):
                scan.expect(",")
                pairs.append(self._pair(scan, rank, pairs))
            scan.end()
            if missing := set(range(rank)) - {dim for dim, _ in pairs}:
                scan.fail(f"dim {min(missing)} of {rank} has no pair")
            if missing := set(range(rank)) - {dim for dim, size in pairs if size == 0}:
                scan.fail(f"dim {min(missing)} of {rank} has no pair of size 0, which is the rest of it")
            return format_of_pairs(tuple(pairs), rank)
        name = word.removesuffix("MemoryLayout").removesuffix("Layout")
        name = _ALIASES.get(name, name)
        if name not in NAMES:
            scan.fail(f"unknown name '{word}': known are {', '.join((*NAMES, *_ALIASES))}", first)
        scan.end()
        return format_of_pairs(NAMES[name], 4)

    @staticmethod
    def _pair(scan: Scanner, rank: int, before: list[tuple[int, int]]) -> tuple[int, int]:
        start = scan.token
        dim = scan.integer("a dim", low=0)
        scan.expect(",")
        size = scan.integer(f"the size of dim {dim}", low=0)
        if dim >= rank:
            scan.fail(f"pair {dim},{size} names dim {dim} of a layout of rank {rank}", start)
        if size == 0 and any(other != 0 for _, other in before):
            scan.fail(f"pair {dim},0 stands behind a pair with a size: rests come first", start)
        if size == 0 and (dim, 0) in before:
            scan.fail(f"pair {dim},0 stands twice: a dim has one rest", start)
        return dim, size

    def _print(self, subject: Subject, dtype: str | None) -> str:
        outer, inner = blocked(subject, self.name)
        pairs = [(dim, 0) for dim in outer] + inner
        cut = (
            prod(f.size or 1 for f in subject.chunk_factors)
            if isinstance(subject, Format)
            else subject.chunk_size
        )
        if cut > 1 and cut != prod(size for _, size in inner):
            raise self.refuse(
                subject, f"its chunks hold {cut} elements, but in pairs all blocks together are the chunk"
            )
        if isinstance(subject, Layout):
            bound = format_of_pairs(tuple(pairs), subject.rank).bind(subject.shape)
            if not bound.same_map(subject) or bound.padded_shape != subject.padded_shape:
                raise self.refuse(subject, "its padded box is no multiple of its blocks")
        if not inner and outer == list(range(subject.rank)):
            return f"FlatMemoryLayout<{subject.rank}>"
        return f"ChunkedMemoryLayout<{', '.join([str(subject.rank), *(f'{dim},{size}' for dim, size in pairs)])}>"
