"""Tiles, the transposes in registers: their extents, their schedule, and how an axis is cut where that must be exact.

A tile that would reach over the end of its axis is usually moved back, so that elements are written twice with the same
value. Where the destination is also read (beta), or two elements share a byte, an axis is cut into whole tiles instead,
then into ever smaller ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import gcd
from operator import index

from layout_ir.backends.llvm.machine.machine import LANE, LINE, Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.parallel import finished
from layout_ir.dialects.kernel.plan import (
    AnyLoop,
    Axis,
    Blocking,
    Copy,
    Loop,
    Step,
    TableLoop,
    Tile,
    VariableBoundLoops,
)
from layout_ir.symbolic.symint import Size, SymInt, hint_of, is_remainder

_FEW_COLS = 256
"""Bytes of a row of the source from which on a tile has columns enough."""


def _tile_rows(count: Size, per_lane: int, machine: Machine) -> int:
    """Rows of a tile: as many as registers have lanes for, or as are there.

    Where a register is not a whole line, two side by side are written together.
    """
    lanes = 4 if machine.vector > LANE else 1
    while lanes > 1 and per_lane * lanes > count:
        lanes //= 2
    return index(min(per_lane * lanes, count))


# Tiles that move -----------------------------------------------------------------------------------------------------


def move_tile(rows: Loop, cols: Axis, width: int, machine: Machine) -> Tile:
    """The tile and its schedule for data that stays in the caches: down the rows, one line of the source wide.

    The last tile of an axis is moved back over the one before it where it would reach over the end. Of a few rows that
    are half tiles and no whole ones, it would move a third of 24 twice, a fifth of 40: there, tiles are half as high,
    which fills whole registers. Measured on a Zen 3 that others used, nchw to nhwc of 24, 40 and 56 channels of f32,
    GB/s: 28 x 28 29 to 43, 28 to 48, 31 to 48, and 56 x 56 37 to 46, 28 to 45, 23 to 40.
    """
    per_lane = LANE // width
    high = rows.count if rows.valid else _tile_rows(rows.count, per_lane, machine)
    whole = not rows.valid and machine.vector >= 32 and width == 4 and high == 16 and cols.count >= 16
    line = max(LINE // width, per_lane)
    half = line // 2
    if whole and machine.vector <= half * width and _is_in_halves(rows.count, half):
        schedule = Blocking("cols", line), Blocking("rows", half), Blocking("cols", half)
        return Tile(width, Axis(rows.count, rows.src), cols, schedule, square=True)
    wide = line if whole else index(min(per_lane, cols.count))
    schedule = [Blocking("rows", high), Blocking("cols", wide)]
    if not whole and cols.count > line:
        schedule = [Blocking("cols", line), *schedule]
    elif whole and (cols.fold or cols.stride > 4 * LINE):
        # Down the rows; where a line belongs to two tiles, no further than until the second.
        schedule.reverse()
        if rows.src % LINE and rows.count > 128:
            schedule = [Blocking("rows", 64), *schedule]
    return Tile(width, Axis(rows.count, rows.src), cols, tuple(schedule), square=bool(whole))


_FEW_TILES = 8
"""Half tiles from which on it matters little that the last whole one is moved back: of 72 channels in L2, half tiles
took a tenth longer."""


def _is_in_halves(count: Size, half: int) -> bool:
    """Whether so many rows are few half tiles, and no whole ones."""
    return not isinstance(count, SymInt) and count < _FEW_TILES * half and count % (2 * half) == half


def folded(loops: list[Loop], cols: Loop, width: int) -> tuple[list[Loop], Axis]:
    """The columns of a tile, with iterations of the loop whose columns follow them where they are few; other loops."""
    if isinstance(cols.count, SymInt):
        return loops, Axis(cols.count, cols.dst)
    size = cols.count * width
    outer = next((x for x in loops if x.src == size and not x.valid), None)
    if outer is None or isinstance(outer.count, SymInt) or size % LINE == 0 or size >= _FEW_COLS:
        return loops, Axis(cols.count, cols.dst)
    # Enough for whole tiles; where all of them go is a table in L1.
    times = max(k for k in range(1, min(outer.count, LINE // width) + 1) if outer.count % k == 0)
    rest = [x for x in loops if x is not outer]
    if times < outer.count:
        rest.append(Loop(outer.count // times, times * outer.src, times * outer.dst))
    rest.sort(key=lambda x: -abs(x.dst))
    return rest, Axis(times * cols.count, cols.dst, cols.count, outer.dst)


def in_cache(step: Step, machine: Machine) -> Step:
    """`step` for a source and destination that L2 holds.

    Lanes are then gathered one by one, for shuffles inside of lanes are fewer and cost less than those across: 14 x 14
    x 256 from nchw to nhwc 104 GB/s instead of 91, to nChw16c 105 instead of 84. Not where rows of the source share
    sets of L1 and, with the lines that are written, overfill them: they may be gone before all of their lanes are read
    (512 x 512 56 GB/s, not 68). Symbolic strides are taken for those of the hint, without a guard: one plan serves
    shapes of either kind.
    """
    tile = step.kernel
    if not isinstance(tile, Tile) or not tile.square:
        return step
    high, strides = tile.block("rows"), (hint_of(tile.rows.stride), hint_of(tile.cols.stride))
    way, ways = machine.ways[0]
    read, written = (max(high * gcd(stride, way) // way, 1) for stride in strides)
    if read > 1 and read + written > ways:
        return step
    schedule = (*tile.schedule, Blocking("cols", LANE // tile.width))
    return replace(step, kernel=replace(tile, square=False, schedule=schedule))


# Tiles that convert --------------------------------------------------------------------------------------------------


def begins_at_bytes(at: Step, loops: Sequence[AnyLoop], pair: ElementPair) -> bool:
    """Whether every iteration of `loops`, from where `at` begins, begins at a whole byte on both sides."""
    if not pair.packed:
        return True
    offsets: list[tuple[Size, Size]] = [(at.src, at.dst)]
    for loop in loops:
        for move in [level.loop for level in loop.levels] if isinstance(loop, VariableBoundLoops) else [loop]:
            if isinstance(move, TableLoop):
                offsets += zip(move.src, move.dst, strict=True)
            else:
                offsets.append((move.src, move.dst))
    return not any((pair.src_packed and src % 2) or (pair.dst_packed and dst % 2) for src, dst in offsets)


def conversion_tiles(
    at: Step, loops: tuple[AnyLoop, ...], rows: Loop, cols: Loop, pair: ElementPair, machine: Machine
) -> Iterator[Step]:
    """The step with a tile of `rows` and `cols`; steps with smaller ones too, where no element may be written twice."""
    if not pair.exactly_once:
        yield finished(at, loops, _conversion_tile(rows, cols, pair, machine))
        return
    high, wide = _extents(rows.count, cols.count, pair, machine)
    if pair.packed:
        high, wide = (1 << extent.bit_length() - 1 for extent in (high, wide))
    for row, row_count in _whole_tiles(rows.count, high):
        for col, col_count in _whole_tiles(cols.count, wide):
            here = replace(
                at,
                src=at.src + row * rows.src + col * cols.src,
                dst=at.dst + row * rows.dst + col * cols.dst,
                channel=at.channel + row * rows.channel + col * cols.channel,
            )
            r, c = replace(rows, count=row_count), replace(cols, count=col_count)
            rests = [
                n for n, size in ((row_count, high), (col_count, wide)) if isinstance(n, SymInt) and n % size
            ]
            if rests or (pair.src_packed and col_count % 2) or (pair.dst_packed and row_count % 2):
                yield finished(here, (*loops, r), Copy(1, c))
            else:
                yield finished(here, loops, _conversion_tile(r, c, pair, machine))


def _whole_tiles(count: Size, size: int) -> list[tuple[Size, Size]]:
    """(first, elements) of parts of whole tiles: those of `size`, then of ever smaller powers of two.

    A symbolic count is whole tiles, and a rest for which there is none.
    """
    if isinstance(count, SymInt):
        whole = count // size * size
        return [(start, n) for start, n in ((0, whole), (whole, count % size)) if n]
    result: list[tuple[Size, Size]] = []
    at = 0
    while at < count:
        while size > count - at:
            size = 1 << (count - at).bit_length() - 1
        here = (count - at) // size * size
        result.append((at, here))
        at += here
    return result


def _extents(rows: Size, cols: Size, pair: ElementPair, machine: Machine) -> tuple[int, int]:
    """Rows and columns of a tile: registers of whole lanes, as few as the data needs, and a line of every source row.

    Fewer columns, those of a lane, where no element may be written twice, so that less remains for smaller tiles, and
    where 16 registers do not hold what is converted before it is transposed (f32 to bf16 with AVX2: 24 GB/s, not 41).
    Rests of blocks go one by one: a plan for each of them would be too many.
    """
    per_lane = LANE // (pair.src if pair.transposes_first else pair.dst)
    high = 1 if is_remainder(rows) else _tile_rows(rows, per_lane, machine)
    if is_remainder(cols):
        return high, 1
    wide = per_lane
    if (pair.transposes_first or machine.vector == LINE) and not pair.exactly_once:
        while 2 * wide * pair.src <= LINE and 2 * wide <= cols:
            wide *= 2
    return high, index(min(wide, cols))


def _conversion_tile(rows: Loop, cols: Loop, pair: ElementPair, machine: Machine) -> Tile:
    high, wide = _extents(rows.count, cols.count, pair, machine)
    # Along few rows of the source: more are read side by side than processors follow.
    return Tile(
        pair.narrower,
        Axis(rows.count, rows.src, channel=rows.channel),
        Axis(cols.count, cols.dst, channel=cols.channel),
        (Blocking("rows", high), Blocking("cols", wide)),
    )
