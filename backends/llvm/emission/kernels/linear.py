"""Runs: copies, fills and single elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import index

from layout_ir.backends.llvm.emission.builder import Builder, Value, shuffle
from layout_ir.backends.llvm.machine.machine import LINE
from layout_ir.dialects.kernel.plan import Copy, Elements, Fill, Loop, PaddedCopy, Staged
from layout_ir.symbolic.symint import Size

Range = Callable[[Value], tuple[Value, Value]]
"""Rounds of a loop that this thread runs: [low, high) of a count."""


def share(b: Builder, *, shared: bool) -> Range:
    """The share of this thread, `%part` of `%parts`, if the loop is `shared`; all rounds if not."""

    def rounds(count: Value) -> tuple[Value, Value]:
        if not shared:
            return 0, count
        low = b.put(f"mul nuw nsw i64 {b.operand(count)}, %part")
        low = b.put(f"udiv i64 {low}, %parts")
        high = b.add("%part", 1)
        high = b.put(f"mul nuw nsw i64 {b.operand(count)}, {high}")
        return low, b.put(f"udiv i64 {high}, %parts")

    return rounds


class Pace:
    """Where in the source of the next round the prefetches of this one have got to."""

    def __init__(self, base: str, position: Value = 0) -> None:
        self.base = base
        self.position = position

    def behind(self, b: Builder, offset: Value) -> Pace:
        """The same walk, `offset` bytes further."""
        return Pace(self.base, b.add(self.position, offset))

    def ask(self, b: Builder, offset: Value, size: Size) -> None:
        """Asks for the lines of `size` bytes from `offset` on. Past the end of the source nothing happens."""
        for _ in self.lines(b, offset, size):
            pass

    def lines(self, b: Builder, offset: Value, size: Size) -> Iterator[None]:
        """The same, a line with each value."""
        at = b.at(self.base, b.add(self.position, offset))
        for line in range(0, size, LINE):
            yield b.prefetch(b.at(at, line))


# A body of about this many bytes hides the cost of its loop.
_BODY = 256


def pieces(size: int, vector: int) -> Iterator[tuple[int, int]]:
    """(offset, bytes) of moves that cover `size` bytes, each a power of two; the last may overlap earlier ones."""
    at = 0
    while at < size:
        rest = size - at
        over = 1 << (rest - 1).bit_length()
        if over <= min(vector, size):
            yield size - over, over
            return
        piece = min(vector, 1 << (rest.bit_length() - 1))
        yield at, piece
        at += piece


def _type(size: int) -> str:
    return f"i{8 * size}" if size <= 8 else f"<{size // 4} x i32>"


def move_piece(b: Builder, src: str, dst: str, size: int, vector: int, streaming: bool = False) -> None:
    parts = list(pieces(size, vector))
    for first in range(0, len(parts), 8):
        group = parts[first : first + 8]
        values = [b.load(_type(n), src, at) for at, n in group]
        for (at, n), value in zip(group, values, strict=True):
            b.store(_type(n), value, dst, at, streaming=n if streaming and n >= 16 else 0)


def _rounds(
    b: Builder,
    inner: Loop,
    unroll: Size,
    range_: Range,
    body: Callable[[Value], None],
    pace: Pace | None = None,
    size: Size = 0,
) -> None:
    """`body` for every round of `inner`, which reads `size` bytes, `unroll` of them together."""
    whole, rest = divmod(inner.count, unroll)
    if whole:
        low, high = range_(whole)
        with b.loop(low, high) as i:
            if pace is not None:
                pace.ask(b, b.mul(i, unroll * size), unroll * size)
            for k in range(unroll):
                body(b.add(b.mul(i, unroll), k))
    if rest:
        low, high = range_(rest)
        with b.loop(low, high) as i:
            body(b.add(i, whole * unroll))


def emit_copy(
    b: Builder,
    kernel: Copy,
    src: str,
    dst: str,
    vector: int,
    range_: Range,
    streaming: bool,
    pace: Pace | None = None,
) -> None:
    inner, run = kernel.inner, index(kernel.run)

    def block(s: str, d: str) -> Callable[[Value], None]:
        return lambda at: move_piece(b, b.at(s, at), b.at(d, at), _BODY, vector, streaming)

    def body(i: Value) -> None:
        s, d = b.at(src, b.mul(i, inner.src)), b.at(dst, b.mul(i, inner.dst))
        if run <= 2 * _BODY:
            move_piece(b, s, d, run, vector, streaming)
        else:
            _long(
                b,
                run,
                (0, -(-run // _BODY)),
                block(s, d),
            )

    if inner.count > 1:
        _rounds(b, inner, max(1, min(inner.count, _BODY // run, 16)), range_, body, pace, run)
    elif run <= 2 * _BODY:
        low, high = range_(1)
        with b.loop(low, high):
            if pace is not None:
                pace.ask(b, 0, run)
            body(0)
    else:
        _long(
            b,
            run,
            range_(-(-run // _BODY)),
            block(src, dst),
        )


def _long(b: Builder, run: int, bounds: tuple[Value, Value], body: Callable[[Value], None]) -> None:
    """Blocks of a run; the last is moved back to end where the run does."""
    with b.loop(*bounds) as i:
        at = b.mul(i, _BODY)
        body(b.min(at, run - _BODY) if run % _BODY else at)


def emit_elements(
    b: Builder, kernel: Elements, src: str, dst: str, range_: Range, pace: Pace | None = None
) -> None:
    type_ = _type(kernel.width)

    def body(i: Value) -> None:
        value = b.load(type_, src, b.mul(i, kernel.inner.src))
        b.store(type_, value, dst, b.mul(i, kernel.inner.dst))

    _rounds(b, kernel.inner, min(kernel.inner.count, 16), range_, body, pace, kernel.width)


def emit_padded(
    b: Builder,
    kernel: PaddedCopy,
    src: str,
    dst: str,
    range_: Range,
    streaming: bool,
    pace: Pace | None = None,
) -> None:
    """Runs of a power of two bytes: one store of what is loaded in pieces into a register of pads."""
    run = index(kernel.run)
    element, lanes = f"i{8 * kernel.width}", run // kernel.width
    number = index(kernel.valid // kernel.width)
    stream = run if streaming and run >= 16 else 0

    def body(i: Value) -> None:
        s, d = b.at(src, b.mul(i, kernel.inner.src)), b.at(dst, b.mul(i, kernel.inner.dst))
        value = f"splat ({element} {kernel.value})"
        at = 0
        while at < number:
            piece = 1 << ((number - at).bit_length() - 1)
            part = b.load(f"<{piece} x {element}>", s, at * kernel.width)
            spread = [k - at if at <= k < at + piece else None for k in range(lanes)]
            part = shuffle(b, element, part, "poison", piece, spread)
            chosen = [lanes + k if at <= k < at + piece else k for k in range(lanes)]
            value = shuffle(b, element, value, part, lanes, chosen)
            at += piece
        b.store(f"<{lanes} x {element}>", value, d, streaming=stream)

    _rounds(b, kernel.inner, min(kernel.inner.count, 8), range_, body, pace, kernel.valid)


def fill_piece(b: Builder, kernel: Fill, dst: str, size: int, vector: int) -> None:
    """Fills `size` bytes; pieces start at multiples of the element: sizes and overlaps are multiples of it."""
    width = kernel.width

    def constant(size: int) -> str:
        if size <= 8:
            return str(int.from_bytes(kernel.value.to_bytes(width, "little") * (size // width), "little"))
        word = kernel.value.to_bytes(width, "little") * (8 // width)
        words = [int.from_bytes(word[k : k + 4], "little") for k in (0, 4)]
        return "<" + ", ".join(f"i32 {words[k % 2]}" for k in range(size // 4)) + ">"

    for at, n in pieces(size, vector):
        b.store(_type(n), constant(n), dst, at)


def emit_fill(b: Builder, kernel: Fill, dst: str, vector: int, range_: Range) -> None:
    inner, run = kernel.inner, index(kernel.run)

    def fill(d: str, size: int) -> None:
        fill_piece(b, kernel, d, size, vector)

    def body(i: Value) -> None:
        d = b.at(dst, b.mul(i, inner.dst))
        if run <= 2 * _BODY:
            fill(d, run)
        else:
            _long(b, run, (0, -(-run // _BODY)), lambda at: fill(b.at(d, at), _BODY))

    if inner.count > 1:
        _rounds(b, inner, max(1, min(inner.count, _BODY // run, 16)), range_, body)
    elif run <= 2 * _BODY:
        low, high = range_(1)
        with b.loop(low, high):
            body(0)
    else:
        _long(b, run, range_(-(-run // _BODY)), lambda at: fill(b.at(dst, at), _BODY))


def emit_flush(b: Builder, buffer: str, dst: str, phase: str, size: Size) -> None:
    """Streams `size` bytes (at least a line) that lie in their lines as `phase` says, on both sides."""
    ragged = b.put(f"icmp ne i64 {phase}, 0") if size % 64 == 0 else "true"
    with b.either(ragged) as otherwise:
        # The first and last line are shared with others.
        for at in (0, size - 64):
            b.store(_type(64), b.load(_type(64), buffer, at), dst, at)
        otherwise()
    first = b.put(f"and i64 {b.sub(64, phase)}, 63")
    lines = b.put(f"lshr i64 {b.sub(size, first)}, 6")
    from_, to = b.at(buffer, first), b.at(dst, first)
    groups = b.put(f"lshr i64 {lines}, 2")
    with b.loop(0, groups) as i:
        at = b.mul(i, 256)
        s, d = b.at(from_, at), b.at(to, at)
        values = [b.load(_type(64), s, 64 * k) for k in range(4)]
        for k, value in enumerate(values):
            b.store(_type(64), value, d, 64 * k, streaming=64)
    with b.loop(b.mul(groups, 4), lines) as i:
        at = b.mul(i, 64)
        b.store(_type(64), b.load(_type(64), b.at(from_, at)), b.at(to, at), streaming=64)


def emit_strips(b: Builder, kernel: Staged, buffer: str, dst: str, turn: Value, *, masks: bool) -> None:
    """Streams the whole lines of every run of round number `turn`.

    A begun line is the first one of the next round, and the last round's is stored as far as it goes; so is the first
    line from where the run begins in it. `masks`: some bytes of a line can be stored at once.
    """
    size = kernel.size
    with b.loop(0, kernel.rows) as k:
        s, d = b.at(buffer, b.mul(k, kernel.row_stride)), b.at(dst, b.mul(k, kernel.dst_stride))
        phase = b.put(f"and i64 {b.put(f'ptrtoint ptr {d} to i64')}, 63")
        s, d = b.at(s, b.sub(0, phase)), b.at(d, b.sub(0, phase))
        stop = b.add(phase, size)
        lines: Value = size // LINE if size % LINE == 0 else b.put(f"lshr i64 {stop}, 6")
        left = b.put(f"and i64 {stop}, 63")
        begun = b.put(f"icmp ne i64 {phase}, 0")
        if kernel.iterations > 1:
            begun = b.put(f"and i1 {begun}, {b.put(f'icmp eq i64 {turn}, 0')}")
        first = b.put(f"zext i1 {begun} to i64")
        with b.either(begun) as otherwise:
            _store_some(b, s, d, phase, LINE, masks=masks)
            otherwise()
        groups = b.put(f"lshr i64 {b.sub(lines, first)}, 2")
        with b.loop(0, groups) as i:
            at = b.mul(b.add(b.mul(i, 4), first), LINE)
            x, y = b.at(s, at), b.at(d, at)
            values = [b.load(_type(LINE), x, LINE * j) for j in range(4)]
            for j, value in enumerate(values):
                b.store(_type(LINE), value, y, LINE * j, streaming=LINE)
        with b.loop(b.add(b.mul(groups, 4), first), lines) as i:
            at = b.mul(i, LINE)
            b.store(_type(LINE), b.load(_type(LINE), b.at(s, at)), b.at(d, at), streaming=LINE)
        at = b.mul(lines, LINE)
        if kernel.iterations > 1:
            b.store(_type(LINE), b.load(_type(LINE), b.at(s, at)), s)
        ends = b.put(f"icmp ne i64 {left}, 0")
        if kernel.iterations > 1:
            ends = b.put(f"and i1 {ends}, {b.put(f'icmp eq i64 {turn}, {kernel.iterations - 1}')}")
        with b.either(ends) as otherwise:
            _store_some(b, b.at(s, at), b.at(d, at), 0, left, masks=masks)
            otherwise()


def _store_some(b: Builder, src: str, dst: str, begin: Value, end: Value, *, masks: bool) -> None:
    """Copies bytes [begin, end) of a line, one of which is the line's first or last."""
    if not masks:
        with b.loop(begin, end) as i:
            b.store("i8", b.load("i8", b.at(src, i)), b.at(dst, i))
        return
    if end == LINE:
        mask = b.put(f"shl i64 -1, {begin}")
    else:
        mask = b.put(f"sub i64 {b.put(f'shl i64 1, {end}')}, 1")
    bits = b.put(f"bitcast i64 {mask} to <64 x i1>")
    value = b.load("<64 x i8>", src)
    b.do(f"call void @llvm.masked.store.v64i8.p0(<64 x i8> {value}, ptr align 64 {dst}, <64 x i1> {bits})")
