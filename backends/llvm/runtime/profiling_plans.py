"""What is timed for the profile of a machine: plans that each have one fact of its memory in them."""

from __future__ import annotations

from dataclasses import replace

from layout_ir.backends.llvm.machine.machine import LINE, PAGE, Machine
from layout_ir.backends.llvm.planning.staging import copied_tiles
from layout_ir.backends.llvm.planning.streamed_tiles import streamed_orders
from layout_ir.backends.llvm.planning.tiles import move_tile
from layout_ir.dialects.kernel.plan import Axis, Blocking, Copy, Kernel, Loop, Plan, Staged, Step, Tile
from layout_ir.elements.quantization import Conversion

_ROW = 3 * PAGE + 4 * LINE
"""Bytes of rows that begin in other sets of the caches than their neighbours."""


def copy_of(size: int, *, streaming: bool) -> Plan:
    """A copy of `size` bytes, rounded down to pages."""
    pages = size // PAGE
    return _plan(pages * PAGE, Step((), 0, 0, Copy(PAGE, Loop(pages, PAGE, PAGE), streaming)))


def scattered_lines(size: int, stride: int, number: int, *, streaming: bool = False) -> Plan:
    """Copies of lines from one end of the source to the other, to `number` places `stride` bytes apart by turns."""
    group = number * stride
    inner = stride // LINE
    groups = max(size // group, 1)
    loops = tuple(x for x in (Loop(groups, group, group), Loop(inner, number * LINE, LINE)) if x.count > 1)
    return _plan(groups * group, Step(loops, 0, 0, Copy(LINE, Loop(number, LINE, stride), streaming)))


def copy_in_pieces(size: int, way: int, *, over_buffer: bool, streaming: bool) -> Plan:
    """A copy in pieces of eight lines from one end of the source to the other, to 32 places by turns, as blocks of a
    transposition write them (`planning/staging.py`), which begin in other sets of L1 than their neighbours."""
    piece, number = 8 * LINE, 32
    stride, row = way + piece, piece + LINE  # an odd number of lines
    group = number * stride
    groups = max(size // group, 1)
    loops = Loop(groups, group, group), Loop(stride // piece, number * piece, piece)
    kernel: Kernel = Copy(piece, Loop(number, piece, stride), streaming)
    if over_buffer:
        filled = Step((), 0, 0, Copy(piece, Loop(number, piece, row)), -1)
        kernel = Staged(piece, (filled,), streaming, number, stride, row)
    return _plan(groups * group, Step(loops, 0, 0, kernel))


def transpositions(size: int, machine: Machine) -> list[Plan]:
    """A matrix of f32 transposed in tiles, by columns and by rows, and from a buffer to which lines are copied.

    Rows of both sides are an odd number of lines, so that neighbours begin in other sets. None where there is no such
    buffer.
    """
    (way, _), _ = machine.ways
    rows = (way + LINE) // 4
    lines = max(size // (way + LINE) // LINE // 2 * 2 - 1, 5)
    cols = lines * LINE // 4
    tile = move_tile(Loop(rows, 4 * cols, 4), Axis(cols, 4 * rows), 4, machine)
    step = Step((), 0, 0, tile)
    turned = replace(step, kernel=replace(tile, schedule=tile.schedule[::-1]))
    plan = replace(_plan(4 * rows * cols, step), width=4)
    copied = list(copied_tiles(step, machine))[-1:]
    return [replace(plan, steps=tuple(steps)) for steps in ([step], [turned], *copied)] if copied else []


def lines_by_turns(size: int, number: int) -> Plan:
    """A copy of lines by turns from so many sequences, which begin in sets of their own."""
    lines = size // number // LINE
    apart = -(-lines * LINE // PAGE) * PAGE + 3 * LINE
    turns = Loop(lines, LINE, number * LINE)
    return _plan(number * apart, Step((turns,), 0, 0, Copy(LINE, Loop(number, apart, LINE))))


def narrowed_rows(size: int, number: int) -> Plan:
    """Lines of `number` rows of f32 by turns, prefetched, narrowed to i8 and streamed in order."""
    columns = _ROW // 4
    schedule = Blocking("cols", LINE // 4), Blocking("rows", number)
    tile = Tile(1, Axis(number, _ROW), Axis(columns, number), schedule, streaming=True, prefetch_distance=256)
    image = Loop(-(-size // (number * _ROW)), number * _ROW, number * columns)
    step = Step((image,), 0, 0, tile)
    return Plan(1, image.count * image.src, image.count * image.dst, (step,), Conversion("f32", "i8"))


def rows_over_buffer(size: int, number: int, machine: Machine) -> Plan | None:
    """Lines of `number` rows of f32 by turns, transposed into a buffer that is streamed from end to end; None where L1
    has no room for one."""
    tile = move_tile(Loop(number, _ROW, 4), Axis(_ROW // 4, 4 * number), 4, machine)
    images = max(size // (number * _ROW), 1)
    step = Step((Loop(images, number * _ROW, number * _ROW),), 0, 0, replace(tile, streaming=True))
    for steps in streamed_orders(step, machine):
        if all(isinstance(part.kernel, Staged) for part in steps):
            return Plan(4, images * number * _ROW, images * number * _ROW, tuple(steps))
    return None


def _plan(size: int, step: Step) -> Plan:
    return Plan(1, size, size, (step,))
