"""The loops and the kernel of one domain.

Loops are turned so that the destination is walked forwards, merged where two are one, and ordered by falling
destination stride. What is left of runs decides the kernel: a run on both sides is copied or converted, a run on each
side of different loops is transposed in registers, anything else goes element by element. Moves and conversions differ
in what a kernel can do: moves have pads written along, take several elements for one, and fold columns; conversions
count elements where moves count bytes, and may have to leave no element to be written twice (`tiles`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import index

from layout_ir.backends.llvm.machine.machine import LANE, Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.index_splitting import Domain
from layout_ir.backends.llvm.planning.parallel import finished
from layout_ir.backends.llvm.planning.tiles import begins_at_bytes, conversion_tiles, folded, move_tile
from layout_ir.backends.llvm.planning.two_passes import WAYS, two_passes
from layout_ir.dialects.kernel.plan import (
    ONCE,
    AnyLoop,
    Axis,
    Copy,
    Elements,
    Fill,
    Interleave,
    Loop,
    PaddedCopy,
    Step,
    TableLoop,
)
from layout_ir.symbolic.guarding import size_oblivious, unguarded
from layout_ir.symbolic.symint import Size

_LEAST_TILE = 16
"""Elements below which converting a transposition in registers is not worth its code."""


def element_steps(
    domain: Domain, pair: ElementPair, machine: Machine, pad: int = 0, *, stages: bool = True
) -> list[Step] | None:
    """The steps for the elements of `domain`; None where one of its loops has pads that no kernel writes.

    There are several steps only where no element may be written twice. `stages`: whether there may be a staging buffer.
    """
    domain, loops, others = _normal(domain, pair)
    moves = pair.conversion is None
    at = Step((), domain.src, domain.dst, Copy(1), channel=domain.channel)
    run = next((x for x in loops if (x.src, x.dst) == (pair.src, pair.dst)), None)
    padded = next((x for x in loops if x.valid), None)
    if moves and run is not None and run.count * pair.src < LANE and padded is None:
        wide = _widened(loops, others, at, run, pair.src)
        if wide != pair.src:
            loops.remove(run)
            loops = merged([*loops, Loop(run.count * pair.src // wide, wide, wide)])
            pair = ElementPair(wide, wide)
            run = next((x for x in loops if x.src == x.dst == wide), None)
    one_pass = partial(element_steps, stages=False)
    # A copy counts bytes, a conversion elements.
    unit = pair.src if moves else 1
    if run is not None:
        if padded is not None and padded is not run:
            return None
        loops.remove(run)
        if not begins_at_bytes(at, (*others, *loops), pair):
            return [finished(at, (*others, *loops), Copy(1, run))]
        staged = None
        if stages and not moves and padded is None:
            staged = two_passes(at, others, loops, run, None, pair, machine, one_pass)
        if staged is not None:
            return [staged]
        inner = loops.pop() if loops else ONCE
        size = run.count * unit
        copy = Copy(size, inner, channel=run.channel)
        kernel = PaddedCopy(pair.src, pad, run.valid * unit, size, inner) if run.valid else copy
        return [finished(at, (*others, *loops), kernel)]
    rows = next((x for x in loops if x.dst == pair.dst), None)
    cols = next((x for x in loops if x.src == pair.src and x is not rows), None)
    if rows is not None and cols is not None and (moves or rows.count * cols.count >= _LEAST_TILE):
        outer = [x for x in loops if x is not rows and x is not cols]
        if padded is not None:
            tile = move_tile(rows, Axis(cols.count, cols.dst), pair.src, machine)
            fits = padded is rows and tile.block("rows") == rows.count
            tile = replace(tile, valid=rows.valid, pad=pad)
            return [finished(at, (*others, *outer), tile)] if fits else None
        interleaved = _interleave(rows, cols, pair, machine)
        if interleaved is not None:
            return [finished(at, (*others, *outer), interleaved)]
        staged = two_passes(at, others, outer, rows, cols, pair, machine, one_pass) if stages else None
        if staged is not None:
            return [staged]
        if moves:
            outer, axis = folded(outer, cols, pair.src)
            return [finished(at, (*others, *outer), move_tile(rows, axis, pair.src, machine))]
        if begins_at_bytes(at, (*others, *outer, replace(rows, dst=0), replace(cols, src=0)), pair):
            return list(conversion_tiles(at, (*others, *outer), rows, cols, pair, machine))
    if padded is not None:
        return None
    if not loops:
        return [finished(at, tuple(others), Copy(unit))]
    inner = rows or cols or loops[-1]
    loops.remove(inner)
    return [finished(at, (*others, *loops), Elements(pair.src, inner) if moves else Copy(1, inner))]


def fill_step(domain: Domain, width: int, value: int) -> Step:
    """The step that writes the pads of `domain`, `width` apart, with the bits `value`."""
    domain, loops, others = _normal(domain, ElementPair(width, width))
    run = next((x for x in loops if x.dst == width), None)
    if run is not None:
        loops.remove(run)
    size = run.count * width if run is not None else width
    inner = loops.pop() if loops else ONCE
    return finished(Step((), 0, domain.dst, Copy(1)), (*others, *loops), Fill(width, value, size, inner))


@size_oblivious
def _normal(domain: Domain, pair: ElementPair) -> tuple[Domain, list[Loop], list[AnyLoop]]:
    """Loops by falling destination stride, the others by theirs; and the domain, which begins where they now do."""
    loops: list[Loop] = []
    others: list[AnyLoop] = []
    for loop in domain.loops:
        if not isinstance(loop, Loop):
            others.append(loop)
        elif loop.count != 1:
            # A loop with pads runs forwards in the destination already.
            row_of_source = abs(loop.src) == pair.src and abs(loop.dst) != pair.dst
            if loop.src < 0 if row_of_source else loop.dst < 0:
                last = loop.count - 1
                domain = domain.shifted(last * loop.src, last * loop.dst, last * loop.channel)
                loop = Loop(loop.count, -loop.src, -loop.dst, channel=-loop.channel)
            loops.append(loop)
    others.sort(key=_destination_stride, reverse=True)
    return domain, merged(loops), others


def _destination_stride(loop: AnyLoop) -> Size:
    """What orders tables and loops with variable bounds among themselves."""
    if isinstance(loop, Loop):
        return abs(loop.dst)
    if isinstance(loop, TableLoop):
        return max(loop.dst) - min(loop.dst)
    return max(_destination_stride(level.loop) for level in loop.levels)


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
                    and not (inner.valid or outer.valid)
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
def _widened(loops: Sequence[Loop], others: Sequence[AnyLoop], at: Step, run: Loop, width: int) -> int:
    """The largest element, of at most 8 bytes, of which the run and every other stride are whole multiples."""
    strides = [at.src, at.dst, run.count * width]
    for x in loops:
        if x is not run:
            strides += [x.src, x.dst]
    for loop in others:
        strides += _strides(loop)
    wide = 8
    while wide > width and any(stride % wide for stride in strides):
        wide //= 2
    return wide


def _strides(loop: AnyLoop) -> list[Size]:
    if isinstance(loop, Loop):
        return [loop.src, loop.dst]
    if isinstance(loop, TableLoop):
        return [*loop.src, *loop.dst]
    return [stride for level in loop.levels for stride in _strides(level.loop)]


def _interleave(rows: Loop, cols: Loop, pair: ElementPair, machine: Machine) -> Interleave | None:
    """Two to four ways, where the run has no gaps, the ways no channels along them, and a register's worth of each."""
    if pair.exactly_once:
        return None
    # The order of the questions matters where counts are symbolic: the one that makes a guard comes last.
    if cols.dst == rows.count * pair.dst and not cols.channel and rows.count <= WAYS:
        few, many, stride, inverse = rows, cols.count, rows.src, False
    elif rows.src == cols.count * pair.src and not rows.channel and cols.count <= WAYS:
        few, many, stride, inverse = cols, rows.count, cols.dst, True
    else:
        return None
    width = pair.narrower
    ways = index(few.count)
    block = max(machine.vector, 2 * LANE) // width
    while block > many:
        block //= 2
    if block * width < LANE:
        return None
    return Interleave(width, ways, many, stride, inverse, block, channel=few.channel)
