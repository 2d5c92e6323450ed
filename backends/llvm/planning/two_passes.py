"""Two passes over a staging buffer, for layouts that group a few elements of one dim innermost.

Kernels for 8 and 16 bits take 4 or 2 weights of a channel side by side, then those of the next channel: oihw becomes
ABcd2b8a4b or AcdB64a2b. No two loops then make a tile worth its registers: of one, a group of elements lies together in
the destination; of the other, in the source, few more. So some blocks at a time are first written to a buffer that the
caches hold, in one of two orders:

* Where groups lie side by side in lines of 16 bytes and more (32 of groups of four), line by line: what lies together
  in the source is transposed as one matrix, and the second pass interleaves the lines of a group.
* Elsewhere, with the grouped dim innermost: there a group is one element of 4 bytes, and the second pass moves such
  elements, in tiles as those of any other move.

Conversions are part of the first pass; where they are all that it has to do, since the groups lie together in the
source as well, they go through longer runs in it.

    abcd 64x64x3x3 to ABcd2b8a4b, bytes     first pass      8 (a) x 64 (b) x 9 (cd) to 9 x 8 x 64
                                            second pass     elements of 4 bytes, 9 times (cd) 8 (a) x 16 (b)
    abcd 64x64x3x3 to AcdB64a4b, bytes      first pass      64 (a) x 144 (bcd) to 144 x 64
                                            second pass     36 times four lines of 64, interleaved

Measured on Zen 4, one thread, GB/s in one pass and in two: the first of these 5 and 17, with 512 channels 6 and 29; f32
to bf16 as ABcd8b16a2b 13 and 28. With the grouped dim innermost and by lines, on one without AVX-512: bf16 256x256x3x3
to AcdB64a2b 18 and 33, to ABcd8b16a2b 22 and 34, to ABcd4b8a2b 22 and 30; bytes of 512x512x3x3 to ABcd4b64a4b 16 and
20, to ABcd4b16a4b 19 and 17.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from operator import index

from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.index_splitting import Domain
from layout_ir.backends.llvm.planning.parallel import finished
from layout_ir.backends.llvm.planning.tiles import in_cache
from layout_ir.dialects.kernel.plan import LINE, AnyLoop, Loop, Staged, Step
from layout_ir.symbolic.symint import SymInt

_GROUPS = (2, 4, 8)
"""Bytes of a group of elements that one element of the second pass may be."""

_LEAST = 16
"""Elements of the grouped dim that lie together in the buffer at least: what a tile of the first pass writes."""

WAYS = 4
"""Runs that are interleaved into one, or one into them, at most."""

_BYTES_PER_WAY = 8
"""Bytes of such a line at least, for each that takes part: two of 16, four of 32."""

Planned = Callable[[Domain, ElementPair, Machine], list[Step] | None]
"""The steps for a domain, as `schedule.element_steps` finds them."""


def two_passes(
    at: Step, others: Sequence[AnyLoop], loops: Sequence[Loop], group: Loop, cols: Loop | None, pair: ElementPair,
    machine: Machine, planned: Planned,
) -> Step | None:  # fmt: skip
    """The step of `loops`, `cols` and `group` inside of `others`, from where `at` begins, in two passes.

    The elements of `group` lie together in the destination. Those of `cols` do so in the source; None where those of
    `group` do. No step is found where `group` is not as many bytes as an element may have, or where too little of what
    follows it in the source fits the buffer.
    """
    known = not any(
        isinstance(x, SymInt)
        for loop in (*loops, group, *(() if cols is None else (cols,)))
        for x in (loop.count, loop.src, loop.dst)
    )
    if pair.exactly_once or not known or group.count * pair.dst not in _GROUPS:
        return None
    chosen = _chosen(loops, group, cols, pair, machine)
    if chosen is None:
        return None
    inside, outside = chosen
    # Where the iterations of each lie in the buffer: without gaps, the last one innermost.
    strides = [pair.dst * prod(index(x.count) for x in inside[k + 1 :]) for k in range(len(inside))]
    size = index(inside[0].count) * strides[0]
    into = [replace(x, dst=stride) for x, stride in zip(inside, strides, strict=True)]
    out_of = [Loop(x.count, stride, x.dst) for x, stride in zip(inside, strides, strict=True)]
    steps = planned(Domain(0, 0, tuple(into)), pair, machine)
    then = planned(Domain(0, 0, tuple(out_of)), ElementPair(pair.dst, pair.dst), machine)
    if steps is None or then is None or size < LINE:
        return None
    steps, then = ([replace(in_cache(x, machine), parallel=-1) for x in part] for part in (steps, then))
    return finished(at, (*others, *outside), Staged(size, tuple(steps), then=tuple(then)))


def _chosen(
    loops: Sequence[Loop], group: Loop, cols: Loop | None, pair: ElementPair, machine: Machine
) -> tuple[list[Loop], list[Loop]] | None:
    """The loops that a buffer holds, as they follow each other in it, and those around it."""
    beside = next((x for x in loops if x.dst == group.count * group.dst), None)
    if cols is None and beside is None:
        return None
    left = [x for x in loops if x is not beside]
    if cols is not None and beside is not None and _joins_lines(beside, group, cols, pair):
        size = prod(index(x.count) for x in (beside, cols, group)) * pair.dst
        if size <= machine.l1 // 2:
            around = list(left)
            inside = _part(_taken_chain(around, group), machine.l1 // 2 // size, around)
            return [*inside, group, cols, beside], sorted(around, key=lambda x: -abs(x.dst))
    held = [] if beside is None else [beside]
    if cols is not None:
        lines = -(-LINE // index(cols.count * pair.src))
        held = [*_part(_taken_chain(left, cols), lines, left), cols, *held]
    size = index(group.count) * pair.dst * prod(index(x.count) for x in held)
    chain = _taken_chain(left, group)
    # The first cache holds what is filled; where that is too little, the second does, which is several times as large.
    for most in (machine.l1 // 2, 4 * machine.l1):
        around = list(left)
        inside = _part(chain, most // size, around)
        if prod(index(x.count) for x in inside) * group.count >= _LEAST:
            return [*held, *inside, group], sorted(around, key=lambda x: -abs(x.dst))
    return None


def _joins_lines(beside: Loop, group: Loop, cols: Loop, pair: ElementPair) -> bool:
    """Whether groups are best made of whole lines: all that lies together in the source is a row of one matrix, which
    is transposed as such, and two to four lines of the buffer are interleaved."""
    return (
        index(group.count) <= WAYS
        and index(group.src) == index(cols.count) * index(cols.src)
        and index(beside.count) * pair.dst >= _BYTES_PER_WAY * index(group.count)
        and not (cols.channel or group.channel)
    )


def _taken_chain(loops: list[Loop], first: Loop) -> list[Loop]:
    """The loops that go on in the source where `first`, and then one another, end; `loops` has them no longer."""
    chain = [first]
    while (at := next((x for x in loops if x.src == chain[-1].count * chain[-1].src), None)) is not None:
        loops.remove(at)
        chain.append(at)
    return chain[1:]


def _part(chain: Sequence[Loop], most: int, rest: list[Loop]) -> list[Loop]:
    """At most so many iterations of `chain`, the loop that follows the others first; `rest` gets what is left."""
    found: list[Loop] = []
    for loop in chain:
        count = index(loop.count)
        size = next((k for k in range(min(count, most), 0, -1) if count % k == 0), 1)
        if size > 1:
            found.insert(0, replace(loop, count=size))
        if size < count:
            steps = size * loop.src, size * loop.dst
            rest.append(Loop(count // size, *steps, channel=size * loop.channel))
        most = most // size if size == count else 0  # the next one would not go on where this one ended
    return found
