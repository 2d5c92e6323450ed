"""The loops and the kernel of one box.

Loops are turned so that the destination is walked forwards, merged where two are one, and ordered by falling
destination stride. What is left of runs decides the kernel: a run on both sides is copied, a run on each side of
different loops is transposed in registers, anything else moves element by element.
"""

from __future__ import annotations

from collections.abc import Sequence

from layout_ir.backends.llvm.boxes import Box
from layout_ir.backends.llvm.machine import Machine
from layout_ir.backends.llvm.plan import (
    Axis,
    Copy,
    Cut,
    Elements,
    Fill,
    Item,
    Loop,
    Ragged,
    Step,
    Table,
    Tile,
    rounds,
)

_LANE = 16
"""Bytes of the unit in which tiles are transposed: every vector register is made of such lanes."""

_ONCE = Loop(1, 0, 0)


def move_step(box: Box, width: int, volume: int, machine: Machine) -> Step:
    """The step that copies the elements of `box`; `volume` is what the whole reorder moves, in bytes."""
    loops, rest, src, dst = _normal(box, width)
    run = next((x for x in loops if x.src == x.dst == width), None)
    if run is not None and run.count * width < _LANE:
        wide = _widened(loops, rest, src, dst, run, width)
        if wide != width:
            loops.remove(run)
            loops = merged([*loops, Loop(run.count * width // wide, wide, wide)])
            width = wide
            run = next((x for x in loops if x.src == x.dst == width), None)
    if run is not None:
        loops.remove(run)
        inner = loops.pop() if loops else _ONCE
        return _finish((*rest, *loops), src, dst, Copy(run.count * width, inner))
    rows = next((x for x in loops if x.dst == width), None)
    cols = next((x for x in loops if x.src == width and x is not rows), None)
    if rows is not None and cols is not None:
        loops.remove(rows)
        loops.remove(cols)
        tile = _tile(rows, cols, width, volume, machine)
        return _finish((*rest, *loops), src, dst, tile)
    if not loops:
        return _finish(tuple(rest), src, dst, Copy(width))
    inner = rows or cols or loops[-1]
    loops.remove(inner)
    return _finish((*rest, *loops), src, dst, Elements(width, inner))


def fill_step(box: Box, width: int, value: int) -> Step:
    """The step that writes the pads of `box`."""
    loops, rest, _, dst = _normal(box, width)
    run = next((x for x in loops if x.dst == width), None)
    if run is not None:
        loops.remove(run)
    size = run.count * width if run is not None else width
    inner = loops.pop() if loops else _ONCE
    return _finish((*rest, *loops), 0, dst, Fill(width, value, size, inner))


def _normal(box: Box, width: int) -> tuple[list[Loop], list[Item], int, int]:
    """Loops by falling destination stride, the other items by theirs, and the offsets after turning."""
    src, dst = box.src, box.dst
    loops: list[Loop] = []
    rest: list[Item] = []
    for item in box.items:
        if not isinstance(item, Loop):
            rest.append(item)
        elif item.count > 1:
            turn = item.dst < 0 if abs(item.src) != width or abs(item.dst) == width else item.src < 0
            if turn:
                src += (item.count - 1) * item.src
                dst += (item.count - 1) * item.dst
                item = Loop(item.count, -item.src, -item.dst)
            loops.append(item)
    rest.sort(key=_reach, reverse=True)
    return merged(loops), rest, src, dst


def _reach(item: Item) -> int:
    """The destination stride that orders tables and ragged dims among themselves."""
    if isinstance(item, Loop):
        return abs(item.dst)
    if isinstance(item, Table):
        return max(item.dst) - min(item.dst)
    return max(_reach(level.move) for level in item.levels)


def merged(loops: Sequence[Loop]) -> list[Loop]:
    """`loops` by falling destination stride, with every pair that is one loop on both sides made one."""
    result = sorted((x for x in loops if x.count > 1), key=lambda x: -abs(x.dst))
    again = True
    while again:
        again = False
        for k, outer in enumerate(result):
            for inner in result:
                if inner is not outer and (outer.src, outer.dst) == (
                    inner.count * inner.src,
                    inner.count * inner.dst,
                ):
                    result[k] = Loop(outer.count * inner.count, inner.src, inner.dst)
                    result.remove(inner)
                    again = True
                    break
            if again:
                break
    return sorted(result, key=lambda x: -abs(x.dst))


def _widened(loops: Sequence[Loop], rest: Sequence[Item], src: int, dst: int, run: Loop, width: int) -> int:
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


def _numbers(item: Item) -> list[int]:
    if isinstance(item, Loop):
        return [item.src, item.dst]
    if isinstance(item, Table):
        return [*item.src, *item.dst]
    return [n for level in item.levels for n in _numbers(level.move)]


def _tile(rows: Loop, cols: Loop, width: int, volume: int, machine: Machine) -> Tile:
    per_lane = _LANE // width
    lanes = machine.vector // _LANE
    while lanes > 1 and per_lane * lanes > rows.count:
        lanes //= 2
    high = min(per_lane * lanes, rows.count)
    wide = min(per_lane, cols.count)
    line = max(64 // width, wide)
    cuts: list[Cut] = []
    if cols.count > line:
        cuts.append(Cut("cols", line))
    cuts += [Cut("rows", high), Cut("cols", wide)]
    return Tile(width, Axis(rows.count, rows.src), Axis(cols.count, cols.dst), tuple(cuts))


def _finish(items: tuple[Item, ...], src: int, dst: int, kernel: Copy | Tile | Elements | Fill) -> Step:
    """The loop that threads share: the outermost with enough rounds for an even split, else the longest."""
    counts = [0 if isinstance(x, Ragged) else rounds((x,)) for x in items]
    counts.append(_kernel_rounds(kernel))
    split = next(
        (k for k, n in enumerate(counts) if n >= 16), max(range(len(counts)), key=lambda k: counts[k])
    )
    return Step(items, src, dst, kernel, split)


def _kernel_rounds(kernel: Copy | Tile | Elements | Fill) -> int:
    if isinstance(kernel, Tile):
        first = kernel.cuts[0]
        return -(-(kernel.rows if first.axis == "rows" else kernel.cols).count // first.size)
    if isinstance(kernel, Elements) or kernel.inner.count > 1:
        return kernel.inner.count
    return -(-kernel.run // 256)
