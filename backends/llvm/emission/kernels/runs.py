"""Runs: elements that lie together on both sides are moved, converted or filled in pieces, the longest first.

A piece is what is loaded, and then stored, together. Long runs are loops over bodies of several pieces, iterations over
short ones are unrolled until they make up a body. The last body of a run is moved back to end where the run does, so
that some elements are written twice; where they must not be, smaller pieces do what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import gcd
from operator import index

from layout_ir.backends.llvm.emission.iteration import Partition, Pointers, all_iterations
from layout_ir.backends.llvm.emission.kernels.converter import Converter
from layout_ir.backends.llvm.emission.kernels.rare_lanes import RareLanes, emit_conversions
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, shuffle
from layout_ir.backends.llvm.machine.machine import LANE, LINE
from layout_ir.dialects.kernel.plan import Copy, Elements, Fill, Loop, PaddedCopy
from layout_ir.symbolic.symint import Size, SymInt

_BODY = 256
"""Bytes of a body of moves or fills, which hides the cost of its loop."""

_CONVERTED_TOGETHER = 4
"""Pieces of a body that converts: registers of the wider side."""

_MOVED_TOGETHER = 8
"""Pieces of a body that moves: registers that are loaded before the first of them is stored."""

_UNROLLED = 16
"""Most iterations over short runs that become one."""


@dataclass(frozen=True, slots=True)
class Runs:
    """`count` elements that lie together, in every iteration of `inner`; neighbours are `channel` channels apart.

    `widths` are the distances of neighbours in source and destination. `emit(pointers, n)` emits a body of n elements.
    `sizes` are those of bodies, largest first; the smaller ones are for counts that only the run time knows.
    """

    count: Size
    inner: Loop
    widths: tuple[int, int]
    sizes: tuple[int, ...]
    emit: Callable[[Pointers, int], None]
    channel: Size = 0
    overlap: bool = True
    """Whether an element may be written twice."""


def emit_runs(b: Builder, runs: Runs, pointers: Pointers, partition: Partition) -> None:
    """Emits the loops of `runs`; threads divide the inner loop, or else the bodies of a single run."""
    if isinstance(runs.count, SymInt):
        _emit_dynamic_runs(b, runs, pointers, partition)
        return
    count, inner, body = runs.count, runs.inner, runs.sizes[0]

    def bodies(pointers: Pointers, partition: Partition) -> None:
        whole, rest = divmod(count, body)
        moved_back = rest and runs.overlap
        with b.loop(*partition(whole + bool(moved_back))) as i:
            at = b.mul(i, body)
            runs.emit(_inside(b, runs, pointers, b.min(at, count - body) if moved_back else at), body)
        if rest and not moved_back:
            with b.loop(*partition(1)):
                runs.emit(_inside(b, runs, pointers, whole * body), rest)

    if inner.count == 1 and count > 2 * body:
        bodies(pointers, partition)
        return

    def iteration(i: Value) -> None:
        here = pointers.advanced(b, i, inner.src, inner.dst, inner.channel)
        if count > 2 * body:
            bodies(here, all_iterations)
        else:
            runs.emit(here, count)

    together = max(1, min(inner.count, body // count, _UNROLLED))
    _emit_unrolled(b, inner.count, together, pointers, partition, iteration, count * runs.widths[0])


def _inside(b: Builder, runs: Runs, pointers: Pointers, at: Value) -> Pointers:
    """The pointers to element `at` of a run."""
    return pointers.advanced(b, at, *runs.widths, runs.channel)


def _emit_unrolled(
    b: Builder, count: Size, together: Size, pointers: Pointers, partition: Partition, emit: Callable[[Value], None],
    size: Size,
) -> None:  # fmt: skip
    """`emit` for each of `count` iterations, which read `size` bytes each, `together` of them in one."""
    whole, rest = divmod(count, together)
    if whole:
        with b.loop(*partition(whole)) as i:
            if pointers.cursor is not None:
                pointers.cursor.prefetch(b, b.mul(i, together * size), together * size)
            for k in range(together):
                emit(b.add(b.mul(i, together), k))
    if rest:
        with b.loop(*partition(rest)) as i:
            emit(b.add(i, whole * together))


def _emit_dynamic_runs(b: Builder, runs: Runs, pointers: Pointers, partition: Partition) -> None:
    """Runs whose length only the run time knows.

    Where elements may be written twice, the largest body that fits does a whole run, the last one moved back. Where
    they may not, each does what the larger ones leave.
    """
    count, inner = runs.count, runs.inner

    def largest(sizes: tuple[int, ...], pointers: Pointers, partition: Partition) -> None:
        size, *smaller = sizes
        if not smaller:
            fitting(size, pointers, partition)
            return
        with b.either(b.put(f"icmp sge i64 {b.operand(count)}, {size}")) as otherwise:
            fitting(size, pointers, partition)
            otherwise()
            largest(tuple(smaller), pointers, partition)

    def fitting(size: int, pointers: Pointers, partition: Partition) -> None:
        with b.loop(*partition(b.ceil(count, size))) as i:
            at = i if size == 1 else b.min(b.mul(i, size), b.sub(count, size))
            runs.emit(_inside(b, runs, pointers, at), size)

    def one_after_the_other(pointers: Pointers, partition: Partition) -> None:
        start: Value = 0
        for size in runs.sizes:
            bodies = b.div(b.sub(count, start), size)
            if bodies == 0:
                continue  # a rest that is known to be shorter
            with b.loop(*partition(bodies)) as i:
                runs.emit(_inside(b, runs, pointers, b.add(start, b.mul(i, size))), size)
            start = b.add(start, b.mul(bodies, size))

    def run(pointers: Pointers, partition: Partition) -> None:
        if runs.overlap:
            largest(runs.sizes, pointers, partition)
        else:
            one_after_the_other(pointers, partition)

    if inner.count == 1:
        run(pointers, partition)
        return
    with b.loop(*partition(inner.count)) as i:
        here = pointers.advanced(b, i, inner.src, inner.dst, inner.channel)
        run(here, all_iterations)


def pieces(size: int, most: int) -> Iterator[tuple[int, int]]:
    """(first, number) of pieces that cover `size`, each a power of two up to `most`; the last may overlap others."""
    at = 0
    while at < size:
        rest = size - at
        over = 1 << (rest - 1).bit_length()
        if over <= min(most, size):
            yield size - over, over
            return
        piece = min(most, 1 << (rest.bit_length() - 1))
        yield at, piece
        at += piece


def _disjoint_pieces(size: int, most: int) -> Iterator[tuple[int, int]]:
    """Like `pieces`, without overlaps."""
    at = 0
    while at < size:
        piece = min(most, 1 << ((size - at).bit_length() - 1))
        yield at, piece
        at += piece


# Moves and fills -----------------------------------------------------------------------------------------------------


def _integer(size: int) -> str:
    """The type in which `size` bytes are moved."""
    return f"i{8 * size}" if size <= 8 else f"<{size // 4} x i32>"


def emit_copy(
    b: Builder, kernel: Copy, pointers: Pointers, vector: int, partition: Partition, *, streaming: bool
) -> None:
    """Copies bytes, in registers of `vector` bytes."""

    def move(pointers: Pointers, size: int) -> None:
        # Of a run that only the run time knows, only whole bodies are aligned.
        stream = streaming and (size == _BODY or not isinstance(kernel.run, SymInt))
        parts = list(pieces(size, vector))
        for first in range(0, len(parts), _MOVED_TOGETHER):
            group = parts[first : first + _MOVED_TOGETHER]
            values = [b.load(_integer(n), pointers.src, at) for at, n in group]
            for (at, n), value in zip(group, values, strict=True):
                b.store(_integer(n), value, pointers.dst, at, streaming=n if stream and n >= LANE else 0)

    sizes = (_BODY,)
    if isinstance(kernel.run, SymInt):
        # All terms of the length are multiples of the smallest piece.
        sizes = (_BODY, LANE, gcd(8, *(factor for _, factor in kernel.run.terms)))
    emit_runs(b, Runs(kernel.run, kernel.inner, (1, 1), sizes, move), pointers, partition)


def emit_elements(b: Builder, kernel: Elements, pointers: Pointers, partition: Partition) -> None:
    """Moves elements one by one."""
    type_ = _integer(kernel.width)

    def move(i: Value) -> None:
        value = b.load(type_, pointers.src, b.mul(i, kernel.inner.src))
        b.store(type_, value, pointers.dst, b.mul(i, kernel.inner.dst))

    count = kernel.inner.count
    _emit_unrolled(b, count, min(count, _UNROLLED), pointers, partition, move, kernel.width)


def emit_padded(
    b: Builder, kernel: PaddedCopy, pointers: Pointers, partition: Partition, *, streaming: bool
) -> None:
    """Runs of a power of two bytes: one store of what is loaded in pieces into a register of pads."""
    run = index(kernel.run)
    element, lanes = f"i{8 * kernel.width}", run // kernel.width
    number, inner = index(kernel.valid // kernel.width), kernel.inner
    stream = run if streaming and run >= LANE else 0

    def move(i: Value) -> None:
        here = pointers.advanced(b, i, inner.src, inner.dst)
        value = f"splat ({element} {kernel.value})"
        at = 0
        while at < number:
            piece = 1 << ((number - at).bit_length() - 1)
            part = b.load(f"<{piece} x {element}>", here.src, at * kernel.width)
            spread = [k - at if at <= k < at + piece else None for k in range(lanes)]
            part = shuffle(b, element, part, "poison", piece, spread)
            chosen = [lanes + k if at <= k < at + piece else k for k in range(lanes)]
            value = shuffle(b, element, value, part, lanes, chosen)
            at += piece
        b.store(f"<{lanes} x {element}>", value, here.dst, streaming=stream)

    _emit_unrolled(b, inner.count, min(inner.count, 8), pointers, partition, move, kernel.valid)


def emit_fill(b: Builder, kernel: Fill, pointers: Pointers, vector: int, partition: Partition) -> None:
    """Fills bytes; pieces begin at multiples of the element, for sizes and overlaps are multiples of it."""
    width = kernel.width

    def constant(size: int) -> str:
        if size <= 8:
            return str(int.from_bytes(kernel.value.to_bytes(width, "little") * (size // width), "little"))
        word = kernel.value.to_bytes(width, "little") * (8 // width)
        words = [int.from_bytes(word[k : k + 4], "little") for k in (0, 4)]
        return "<" + ", ".join(f"i32 {words[k % 2]}" for k in range(size // 4)) + ">"

    def fill(pointers: Pointers, size: int) -> None:
        for at, n in pieces(size, vector):
            b.store(_integer(n), constant(n), pointers.dst, at)

    sizes = (_BODY, LANE, width) if isinstance(kernel.run, SymInt) else (_BODY,)
    emit_runs(
        b, Runs(kernel.run, kernel.inner, (0, 1), sizes, fill), replace(pointers, cursor=None), partition
    )


# Conversions ---------------------------------------------------------------------------------------------------------


def emit_conversion(
    converter: Converter,
    kernel: Copy,
    pointers: Pointers,
    partition: Partition,
    *,
    streaming: bool,
    aligned: bool,
) -> None:
    """Converts runs; `aligned`: whether all of them begin at whole bytes."""
    b, src, dst = converter.b, converter.src, converter.dst
    size = _converted_in_one_piece(converter, streaming=streaming, aligned=aligned)

    def convert(pointers: Pointers, count: int) -> None:
        # Pieces may overlap with the same values.
        parts = list((_disjoint_pieces if converter.pair.exactly_once else pieces)(count, size))
        for first in range(0, len(parts), _CONVERTED_TOGETHER):
            group = parts[first : first + _CONVERTED_TOGETHER]
            emit_conversions(
                b, partial(convert_group, pointers, group), exactly_once=converter.pair.exactly_once
            )

    def convert_group(pointers: Pointers, group: Sequence[tuple[int, int]], rare: RareLanes | None) -> None:
        # All loads come before the stores.
        loaded = [src.load(b.at(pointers.src, at * src.width), n) for at, n in group]
        made: list[tuple[str, str, int]] = []
        for (at, n), value in zip(group, loaded, strict=True):
            to = b.at(pointers.dst, at * dst.width)
            channel = b.add(pointers.channel, kernel.channel * at)
            channels = [kernel.channel * k for k in range(n)]
            made.append((converter.convert(value, channel, channels, to, rare), to, n))
        for value, to, n in made:
            dst.store(value, to, n, streaming=streaming and n * dst.width >= LANE)

    sizes = tuple(sorted({size * _CONVERTED_TOGETHER, size, 1}, reverse=True))
    widths, overlap = (src.width, dst.width), not converter.pair.exactly_once
    runs = Runs(kernel.run, kernel.inner, widths, sizes, convert, kernel.channel, overlap)
    emit_runs(b, runs, pointers, partition)


def _converted_in_one_piece(converter: Converter, *, streaming: bool, aligned: bool) -> int:
    """Elements of a run that are converted in one piece: a register of the wider side."""
    if not aligned and converter.pair.packed:
        return 1
    vector = converter.machine.vector
    size = max(vector // max(converter.src.width, converter.dst.width), 2)
    if converter.conversion is not None and converter.conversion.dst == "bf16":
        size *= 2  # the upper halves of two registers are one
    elif converter.packed_together:
        size = converter.packed_together
    return max(size, LINE // converter.dst.width) if streaming else size


def emit_packed_fill(converter: Converter, kernel: Fill, pointers: Pointers, partition: Partition) -> None:
    """Fills pads of 4 bits one by one: there are few."""
    b, access = converter.b, converter.dst

    def fill(pointers: Pointers, count: int) -> None:
        for k in range(count):
            access.store(f"splat (i8 {kernel.value})", b.at(pointers.dst, k), 1)

    emit_runs(b, Runs(kernel.run, kernel.inner, (0, 1), (1,), fill, overlap=False), pointers, partition)
