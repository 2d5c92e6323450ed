"""How a step walks through its source and its destination: which bytes lie together, and what has its turn meanwhile.

A walk is the loops of a step as one side sees them, from inside out. First come bytes that lie together: a *piece*.
Around it are loops that jump: before the neighbour of a piece has its turn, `jumps` other pieces have had theirs,
`stride` bytes apart.
"""

from __future__ import annotations

from math import gcd, prod
from operator import index
from typing import NamedTuple

from layout_ir.backends.llvm.machine.machine import LANE, LINE, PAGE, Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.dialects.kernel.plan import (
    Copy,
    Elements,
    Fill,
    Interleave,
    Kernel,
    Loop,
    PaddedCopy,
    Staged,
    Step,
    TableLoop,
    Tile,
)
from layout_ir.symbolic.guarding import unguarded

GAP = 1 / 8
"""The part of a piece up to which a gap behind it does not stop a processor that follows reads. Measured on Zen 3, 2048
x 1000 of f32 to blocks of 64 columns, past the caches, GB/s block by block and along rows of 4000 bytes, of which 3840
are read, 12 and 18; but nhwc with 64 channels to nChw16c, in pieces of 64 bytes that are 256 apart, took 1.4 to 1.9
times as long as with its lines in their order."""

_READ_AT_ONCE = 32
"""Places that may be read by turns, a part of a line of each, without losing one: their loads are under way at once."""

Walk = list[tuple[int, int]]
"""(count, stride) of loops, the innermost first."""


class Side(NamedTuple):
    """How one side of a step is walked through."""

    piece: int
    """Bytes that lie together and are read or written one behind the other."""
    stride: int
    """Bytes from one piece to the next, 0 where there is only one."""
    jumps: int
    """Pieces between two neighbours."""


def pieces_of(
    walk: Walk,
    sequences: int,
    machine: Machine,
    *,
    held: bool = True,
    total: bool = False,
    followed: bool = False,
) -> Side:
    """The pieces of a walk, where up to `sequences` that grow side by side are as good as one.

    Sequences that have grown until they meet are one piece. With `held`, L1 has to hold the lines of all of them, and
    their strides are among those of the jumps; without, whole lines may lie anywhere. With `total`, `sequences` bounds
    all levels of the walk together, not each. With `followed` it is asked what the processor follows: gaps of a part
    of a piece do not end it, and no cache has to hold what it has gone through.
    """
    piece, at, gap = 1, 0, GAP if followed else 0.0
    beside: Walk = []  # loops over the sequences that have grown side by side
    while True:
        # Loops that go on where the inner ones ended, or before.
        while at < len(walk) and (walk[at][0] == 1 or abs(walk[at][1]) <= piece * (1 + gap)):
            piece += (walk[at][0] - 1) * abs(walk[at][1])
            at += 1
        for loop in sorted(beside, key=lambda x: abs(x[1])):
            if abs(loop[1]) <= piece * (1 + gap):
                piece += (loop[0] - 1) * abs(loop[1])
                beside.remove(loop)
        stride, jumps, apart = 0, 1, 1
        jumping: Walk = []
        while at < len(walk) and (walk[at][0] == 1 or abs(walk[at][1]) > piece * (1 + gap)):
            count, step = walk[at]
            if count > 1:
                stride, jumps = gcd(stride, step), jumps * count
                # Places in lines beside each other are one sequence, of lines that L1 holds.
                beside_lines = abs(step) <= LINE and (followed or count * LINE <= machine.l1)
                apart *= 1 if beside_lines else count
                jumping.append(walk[at])
            at += 1
        if total:
            for count, step in beside:
                stride, jumps, apart = gcd(stride, step), jumps * count, apart * count
        in_sets, most = lines_held(stride, machine.ways[0]), sequences
        if held:
            most = min(sequences, in_sets)
        elif piece < LINE:
            most = min(sequences, max(sequences // 2, in_sets))
        # Lines of which parts are read by turns must stay in L1, unless they are few enough to be under way at once.
        lost = not followed and piece < LINE and jumps > most and 2 * jumps * LINE > machine.l1
        if at == len(walk) or apart > most or lost:
            if held:  # those that grow side by side have sets of their own
                stride = gcd(stride, *(step for _, step in beside))
            return Side(piece, stride, jumps)
        beside += jumping


def followed_pieces(walk: Walk, machine: Machine, *, total: bool = False) -> Side:
    """The pieces of a walk of reads, whose sequences the processor follows wherever they lie.

    Parts of lines that are read from few places by turns are under way at once; from half as many, where the places
    overfill their sets of L1. Measured on Zen 3, f32 from blocks of 8 channels to nhwc, GB/s of half lines by turns and
    of 256 bytes: from 32 places in two sets 29 and 43, from 16 places in one set 17 and 8 (in memory, the former
    streamed).
    """
    return pieces_of(walk, max(machine.profile.sequences, _READ_AT_ONCE), machine, held=False, total=total)


def is_in_order(walk: Walk) -> bool:
    """Whether a page or more, or all of a walk, is gone through line by line: half of each at least, before any again.

    Measured on Zen 4, 120 MiB over a buffer of 3 to 9 KiB, GB/s with prefetches and without: halves of lines 36 and 42,
    pieces of 16 bytes 32 apart, all of 3 KiB, 31 and 45, 64 apart 31 and 24, from two places by turns 42 and 16.
    """
    extent = 1
    for count, stride in walk:
        if extent >= PAGE:
            break
        if count > 1 and abs(stride) > (extent if extent >= LINE else min(2 * extent, LINE)):
            return False
        extent += (count - 1) * abs(stride)
    return True


@unguarded
def crosses_lines(step: Step, most: int) -> bool:
    """Whether stores of `step`, a move, of so many bytes at most, begin in one line of its destination and end in the
    next."""
    _, ((piece, _), *jumps) = walks_of(step, ElementPair(1, 1))
    store = min(1 << (piece.bit_length() - 1), most)
    return any(count > 1 and stride % store for count, stride in jumps)


def lines_held(stride: int, ways: tuple[int, int]) -> int:
    """Lines `stride` bytes apart that a cache with these `Machine.ways` holds at a time."""
    way, number = ways
    return number * (way // max(gcd(stride, way), LINE))


def walked_bytes(walk: Walk) -> int:
    """Bytes that are read or written on a walk, those twice that are gone through twice."""
    return prod(count for count, _ in walk)


def walks_of(step: Step, pair: ElementPair) -> tuple[Walk, Walk]:
    """The loops of `step` as source and destination see them; their counts multiply to the bytes of each side."""
    reads, writes = _kernel_walks(step.kernel, pair)
    for loop in reversed(step.loops):
        count = index(loop.count)
        if isinstance(loop, Loop):
            src, dst = index(loop.src), index(loop.dst)
        elif isinstance(loop, TableLoop) and count > 1:
            src, dst = index(loop.src[1] - loop.src[0]), index(loop.dst[1] - loop.dst[0])
        else:
            src = dst = PAGE  # bounds that vary: somewhere else each time
        reads.append((count, src))
        writes.append((count, dst))
    return reads, writes


def _kernel_walks(kernel: Kernel, pair: ElementPair) -> tuple[Walk, Walk]:
    widths = (1, 1) if pair.conversion is None else (pair.src, pair.dst)
    match kernel:
        case Copy() | PaddedCopy() | Elements():
            run = kernel.width if isinstance(kernel, Elements) else index(kernel.run)
            count, strides = index(kernel.inner.count), (kernel.inner.src, kernel.inner.dst)
            src, dst = (
                [(run * width, 1), (count, index(x))] for width, x in zip(widths, strides, strict=True)
            )
            return src, dst
        case Interleave():
            src, dst = (kernel.width, kernel.width) if pair.conversion is None else widths
            count, stride, block = index(kernel.count), index(kernel.stride), index(kernel.block)
            number = -(-count // block)
            side, other = (dst, src) if kernel.inverse else (src, dst)
            by_turns: Walk = [(block * side, 1), (kernel.ways, stride), (number, block * side)]
            in_order: Walk = [(kernel.ways * count * other, 1)]
            return (in_order, by_turns) if kernel.inverse else (by_turns, in_order)
        case Tile():
            return _tile_walks(kernel, pair)
        case Staged():
            reads, _ = walks_of(kernel.steps[0], pair)
            reads.append((index(kernel.iterations), index(kernel.src_stride)))
            size = index(kernel.size)
            if kernel.then:
                return reads, walks_of(kernel.then[0], ElementPair(pair.dst, pair.dst))[1]
            return reads, [
                (size, 1),
                (kernel.rows, index(kernel.dst_stride)),
                (index(kernel.iterations), size),
            ]
        case Fill():
            return [], [(index(kernel.run), 1), (index(kernel.inner.count), index(kernel.inner.dst))]


def _tile_walks(tile: Tile, pair: ElementPair) -> tuple[Walk, Walk]:
    src, dst = (tile.width, tile.width) if pair.conversion is None else (pair.src, pair.dst)
    row = index(tile.rows.stride)
    high, wide = index(tile.block("rows")), index(tile.block("cols"))
    # A square tile loads the whole of its rows, one that moves elements else a lane of each by turns.
    lane = wide * src if tile.square or pair.conversion is not None else min(wide * src, LANE)
    reads: Walk = [(lane, 1), (index(tile.valid or high), row), (-(-wide * src // lane), lane)]
    columns = [(index(count), index(stride)) for count, stride in tile.cols.loops]
    by_blocks = bool(tile.cols.fold and tile.streaming and tile.schedule[0].axis == "cols")
    if by_blocks:
        columns = [(wide, columns[0][1])]  # of which the rows have their turns before the next block has its
    # Columns that are folded have else had all their turns before the next rows have theirs.
    writes: Walk = [(high * dst, 1), *(columns if tile.cols.fold else [(wide, index(tile.cols.stride))])]
    extents = {"rows": index(tile.rows.count), "cols": index(tile.cols.count)}
    blocks: list[tuple[str, int, int]] = []
    for blocking in tile.schedule:
        size = min(index(blocking.size), extents[blocking.axis])
        blocks.append((blocking.axis, size, -(-extents[blocking.axis] // size)))
        extents[blocking.axis] = size
    for axis, size, count in reversed(blocks):
        if axis == "rows":
            reads.append((1 if tile.valid else count, size * row))
            writes.append((count, size * dst))
        else:
            reads.append((count, size * src))
            if not tile.cols.fold or by_blocks:
                writes.append((count, size * index(tile.cols.stride)))
    return reads, writes
