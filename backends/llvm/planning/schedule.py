"""The loops and the kernel of one box.

Loops are turned so that the destination is walked forwards, merged where two are one, and ordered by falling
destination stride. What is left of runs decides the kernel: a run on both sides is copied, a run on each side of
different loops is transposed in registers, anything else moves element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd
from operator import index

from layout_ir.backends.llvm.machine.machine import LANE, LINE, Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.index_splitting import Box
from layout_ir.backends.llvm.planning.parallel import split_of
from layout_ir.backends.llvm.symbolic.guarding import size_oblivious, unguarded
from layout_ir.backends.llvm.symbolic.symint import hint_of, is_symbolic
from layout_ir.dialects.kernel.plan import (
    ONCE,
    AnyLoop,
    Axis,
    Blocking,
    Copy,
    Elements,
    Fill,
    Interleave,
    Kernel,
    Loop,
    PaddedCopy,
    Step,
    TableLoop,
    Tile,
    VariableBoundLoops,
)

_FEW_COLS = 256
"""Bytes of a row from which on a tile need not look for more columns."""

_WAY = 4096
"""Bytes of a way of first-level caches, which are found by the places in a page: lines so far apart share a set."""


def move_step(box: Box, width: int, machine: Machine, pad: int = 0) -> Step | None:
    """The step that copies the elements of `box`; None where one of its loops has pads that no kernel writes."""
    loops, rest, src, dst = _normal(box, width)
    run = next((x for x in loops if x.src == x.dst == width), None)
    ragged = next((x for x in loops if x.valid), None)
    if run is not None and run.count * width < LANE and ragged is None:
        wide = _widened(loops, rest, src, dst, run, width)
        if wide != width:
            loops.remove(run)
            loops = merged([*loops, Loop(run.count * width // wide, wide, wide)])
            width = wide
            run = next((x for x in loops if x.src == x.dst == width), None)
    if run is not None:
        loops.remove(run)
        if ragged is not None and ragged is not run:
            return None
        inner = loops.pop() if loops else ONCE
        if run.valid:
            padded = PaddedCopy(width, pad, run.valid * width, run.count * width, inner)
            return finished((*rest, *loops), src, dst, padded)
        return finished((*rest, *loops), src, dst, Copy(run.count * width, inner))
    rows = next((x for x in loops if x.dst == width), None)
    cols = next((x for x in loops if x.src == width and x is not rows), None)
    if rows is not None and cols is not None:
        loops.remove(rows)
        loops.remove(cols)
        if ragged is not None:
            tile = _tile(rows, Axis(cols.count, cols.dst), width, machine)
            fits = ragged is rows and _last_rows(tile) == rows.count
            tile = replace(tile, valid=rows.valid, pad=pad)
            return finished((*rest, *loops), src, dst, tile) if fits else None
        woven = _weave(rows, cols, width, machine)
        if woven is not None:
            return finished((*rest, *loops), src, dst, woven)
        loops, axis = _folded(loops, cols, width)
        return finished((*rest, *loops), src, dst, _tile(rows, axis, width, machine))
    if ragged is not None:
        return None
    if not loops:
        return finished(tuple(rest), src, dst, Copy(width))
    inner = rows or cols or loops[-1]
    loops.remove(inner)
    return finished((*rest, *loops), src, dst, Elements(width, inner))


def fill_step(box: Box, width: int, value: int) -> Step:
    """The step that writes the pads of `box`."""
    loops, rest, _, dst = _normal(box, width)
    run = next((x for x in loops if x.dst == width), None)
    if run is not None:
        loops.remove(run)
    size = run.count * width if run is not None else width
    inner = loops.pop() if loops else ONCE
    return finished((*rest, *loops), 0, dst, Fill(width, value, size, inner))


@size_oblivious
def _normal(box: Box, width: int) -> tuple[list[Loop], list[AnyLoop], int, int]:
    """Loops by falling destination stride, the other items by theirs, and the offsets after turning."""
    src, dst = box.src, box.dst
    loops: list[Loop] = []
    rest: list[AnyLoop] = []
    for item in box.items:
        if not isinstance(item, Loop):
            rest.append(item)
        elif item.count != 1:
            # A loop with pads runs forwards in the destination already.
            turn = item.dst < 0 if abs(item.src) != width or abs(item.dst) == width else item.src < 0
            if turn:
                src += (item.count - 1) * item.src
                dst += (item.count - 1) * item.dst
                item = Loop(item.count, -item.src, -item.dst)
            loops.append(item)
    rest.sort(key=_reach, reverse=True)
    return merged(loops), rest, src, dst


def _reach(item: AnyLoop) -> int:
    """The destination stride that orders tables and ragged dims among themselves."""
    if isinstance(item, Loop):
        return abs(item.dst)
    if isinstance(item, TableLoop):
        return max(item.dst) - min(item.dst)
    return max(_reach(level.loop) for level in item.levels)


@unguarded
def merged(loops: Sequence[Loop]) -> list[Loop]:
    """`loops` by falling destination stride, with every pair that is one loop on both sides made one."""
    result = sorted((x for x in loops if x.count != 1), key=lambda x: -abs(x.dst))
    again = True
    while again:
        again = False
        for k, outer in enumerate(result):
            for inner in result:
                if (
                    inner is not outer
                    and not inner.valid | outer.valid
                    and (outer.src, outer.dst, outer.channel)
                    == (
                        inner.count * inner.src,
                        inner.count * inner.dst,
                        inner.count * inner.channel,
                    )
                ):
                    result[k] = replace(inner, count=outer.count * inner.count)
                    result.remove(inner)
                    again = True
                    break
            if again:
                break
    return sorted(result, key=lambda x: -abs(x.dst))


@size_oblivious
def _widened(
    loops: Sequence[Loop], rest: Sequence[AnyLoop], src: int, dst: int, run: Loop, width: int
) -> int:
    """The largest element (at most 8 bytes) that the run and every other step are whole multiples of."""
    numbers = [src, dst, run.count * width]
    for x in loops:
        if x is not run:
            numbers += [x.src, x.dst]
    for item in rest:
        numbers += _numbers(item)
    wide = 8
    while wide > width and any(n % wide for n in numbers):
        wide //= 2
    return wide


def _numbers(item: AnyLoop) -> list[int]:
    if isinstance(item, Loop):
        return [item.src, item.dst]
    if isinstance(item, TableLoop):
        return [*item.src, *item.dst]
    return [n for level in item.levels for n in _numbers(level.loop)]


def begins_at_bytes(at: Step, loops: Sequence[AnyLoop], pair: ElementPair) -> bool:
    """Whether every iteration of `loops`, from where `at` begins, begins at a whole byte on both sides."""
    offsets: list[tuple[int, int]] = [(at.src, at.dst)]
    for loop in loops:
        for move in [level.loop for level in loop.levels] if isinstance(loop, VariableBoundLoops) else [loop]:
            if isinstance(move, TableLoop):
                offsets += zip(move.src, move.dst, strict=True)
            else:
                offsets.append((move.src, move.dst))
    return not any((pair.src_packed and src % 2) or (pair.dst_packed and dst % 2) for src, dst in offsets)


def _last_rows(tile: Tile) -> int:
    return [cut.size for cut in tile.schedule if cut.axis == "rows"][-1]


def _weave(rows: Loop, cols: Loop, width: int, machine: Machine) -> Interleave | None:
    """Two to four strands, woven or split, where the run is without gaps and a register's worth long."""
    if rows.count <= 4 and cols.dst == rows.count * width:
        few, many, stride, splits = rows.count, cols.count, rows.src, False
    elif cols.count <= 4 and rows.src == cols.count * width:
        few, many, stride, splits = cols.count, rows.count, cols.dst, True
    else:
        return None
    few = index(few)
    block = max(machine.vector, 32) // width
    while block > many:
        block //= 2
    return Interleave(width, few, many, stride, splits, block) if block * width >= LANE else None


def _folded(loops: list[Loop], cols: Loop, width: int) -> tuple[list[Loop], Axis]:
    """The columns of a tile, with some of the next digit's where they lie together but are few; the other loops."""
    if is_symbolic(cols.count):
        return loops, Axis(cols.count, cols.dst)
    size = cols.count * width
    outer = next((x for x in loops if x.src == size and not x.valid), None)
    if outer is None or is_symbolic(outer.count) or size % LINE == 0 or size >= _FEW_COLS:
        return loops, Axis(cols.count, cols.dst)
    # Enough for whole tiles; the places of all of them are a table in the first-level cache.
    times = max(k for k in range(1, min(outer.count, LINE // width) + 1) if outer.count % k == 0)
    rest = [x for x in loops if x is not outer]
    if times < outer.count:
        rest.append(Loop(outer.count // times, times * outer.src, times * outer.dst))
    rest.sort(key=lambda x: -abs(x.dst))
    return rest, Axis(times * cols.count, cols.dst, cols.count, outer.dst)


def _tile(rows: Loop, cols: Axis, width: int, machine: Machine) -> Tile:
    """The tile and its schedule for data that stays in the caches: down the rows, one line of the source wide."""
    per_lane = LANE // width
    # Two registers side by side where one is not a whole line.
    lanes = 4 if machine.vector > LANE else 1
    while lanes > 1 and per_lane * lanes > rows.count:
        lanes //= 2
    high = index(min(per_lane * lanes, rows.count))
    if rows.valid:
        high = rows.count
    whole = not rows.valid and machine.vector >= 32 and width == 4 and high == 16 and cols.count >= 16
    line = max(LINE // width, per_lane)
    wide = line if whole else index(min(per_lane, cols.count))
    cuts = [Blocking("rows", high), Blocking("cols", wide)]
    if not whole and cols.count > line:
        cuts = [Blocking("cols", line), *cuts]
    elif whole and (cols.fold or cols.stride > 4 * LINE):
        # Down the rows; where a line belongs to two tiles, no further than until the second.
        cuts.reverse()
        if rows.src % LINE and rows.count > 128:
            cuts = [Blocking("rows", 64), *cuts]
    return Tile(width, Axis(rows.count, rows.src), cols, tuple(cuts), square=whole)


def from_near(step: Step, machine: Machine) -> Step:
    """`step` for a source and destination that the second-level cache holds.

    Lanes are then gathered one by one, for shuffles inside of lanes are fewer and cost less than those across: 14 x 14
    x 256 from nchw to nhwc 104 GB/s instead of 91, to nChw16c 105 instead of 84. Not where rows of the source share
    sets of the first level and, with the lines that are written, overfill them: they may be gone before all of their
    lanes are read (512 x 512 56 GB/s, not 68).
    Open strides are taken for those of the example, without a condition: one plan serves shapes of either kind.
    """
    tile = step.kernel
    if not isinstance(tile, Tile) or not tile.square:
        return step
    high, strides = _last_rows(tile), hint_of((tile.rows.stride, tile.cols.stride))
    read, written = (max(high * gcd(stride, _WAY) // _WAY, 1) for stride in strides)
    if read > 1 and read + written > machine.l1 // _WAY:
        return step
    cuts = (*tile.schedule, Blocking("cols", LANE // tile.width))
    return replace(step, kernel=replace(tile, square=False, schedule=cuts))


def finished(items: tuple[AnyLoop, ...], src: int, dst: int, kernel: Kernel) -> Step:
    """The step of these loops, shared by an unknown number of threads."""
    return Step(items, src, dst, kernel, split_of(items, kernel))
