"""Micro-kernels that convert: load lanes, convert, shuffle, store.

They are generic in both element types. Lanes are loaded as integers (`numbers.lane`), converted by `Numbers`, and
shuffled at the narrower width: before the conversion where the source is narrower, after it where the destination is.
How lanes lie in memory and which numbers go with them is the business of `lanes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import index

from layout_ir.backends.llvm.emission.builder import Builder, Value, fenced, shuffle
from layout_ir.backends.llvm.emission.kernels.lanes import Channels, Side
from layout_ir.backends.llvm.emission.kernels.linear import Range, pieces
from layout_ir.backends.llvm.emission.kernels.network import interleaved, joined
from layout_ir.backends.llvm.emission.kernels.numbers import Numbers, lane
from layout_ir.backends.llvm.emission.kernels.packs import packs
from layout_ir.backends.llvm.emission.kernels.tile import row_parts
from layout_ir.backends.llvm.emission.kernels.weave import chosen
from layout_ir.backends.llvm.machine.machine import LANE, LINE, Machine
from layout_ir.backends.llvm.planning.conversion import Widths, converts_late, exactly_once
from layout_ir.backends.llvm.planning.parallel import shared_cut
from layout_ir.dialects.kernel.plan import Axis, Copy, Interleave, Tile
from layout_ir.elements.element_types import element_type
from layout_ir.elements.quantization import Conversion
from layout_ir.symbolic.symint import Size

UNROLL = 4
"""Registers of the wider side that the body of a long run moves."""


class Converter:
    """Emits the kernels of one conversion."""

    def __init__(
        self, b: Builder, machine: Machine, conversion: Conversion, pointers: Mapping[str, str]
    ) -> None:
        self.b = b
        self.machine = machine
        self.conversion = conversion
        self.channels = Channels(b, conversion, pointers)
        self.src, self.dst = Side(b, conversion.src), Side(b, conversion.dst)
        self.widths = Widths.of(conversion)

    def convert(self, value: str, channel: Value, offsets: Sequence[Size], old: str = "") -> str:
        """Lanes of the source as lanes of the destination; `old` points at what those hold."""
        size = len(offsets)
        held = self.dst.load(old, size) if self.conversion.beta is not None else None
        parameters = self.channels.lanes(channel, offsets)
        return Numbers(self.b, self.machine, size).converted(value, self.conversion, parameters, held)

    # Runs -------------------------------------------------------------------------------------------------------

    def run(
        self,
        kernel: Copy,
        src: str,
        dst: str,
        channel: Value,
        range_: Range,
        *,
        streaming: bool,
        even: bool,
    ) -> None:
        """`even`: whether the run begins at whole bytes."""
        b, inner, count = self.b, kernel.inner, kernel.run
        size = self.run_size(streaming=streaming, even=even)
        body = size * UNROLL

        def block(s: str, d: str, channel: Value, count: Size) -> None:
            self.moved(
                [(at, n) for at, n in self.parts(count, size)],
                s,
                d,
                channel,
                kernel.channel,
                streaming=streaming,
            )

        def offset(at: Value, s: str, d: str, channel: Value) -> tuple[str, str, Value]:
            moved = b.at(s, b.mul(at, self.src.width)), b.at(d, b.mul(at, self.dst.width))
            return *moved, b.add(channel, b.mul(at, kernel.channel))

        def whole(s: str, d: str, channel: Value, range_: Range) -> None:
            blocks, rest = divmod(count, body)
            moves_back = rest and not exactly_once(self.conversion)
            with b.loop(*range_(blocks + bool(moves_back))) as i:
                at = b.mul(i, body)
                block(*offset(b.min(at, count - body) if moves_back else at, s, d, channel), body)
            if rest and not moves_back:
                with b.loop(*range_(1)):
                    block(*offset(blocks * body, s, d, channel), rest)

        if inner.count == 1 and count > 2 * body:
            whole(src, dst, channel, range_)
            return

        def round_(i: Value) -> None:
            s, d = b.at(src, b.mul(i, inner.src)), b.at(dst, b.mul(i, inner.dst))
            c = b.add(channel, b.mul(i, inner.channel))
            if count > 2 * body:
                whole(s, d, c, lambda n: (0, n))
            else:
                block(s, d, c, count)

        together = max(1, min(inner.count, body // count, 16))
        rounds, rest = divmod(inner.count, together)
        with b.loop(*range_(rounds)) as i:
            for k in range(together):
                round_(b.add(b.mul(i, together), k))
        if rest:
            with b.loop(*range_(rest)) as i:
                round_(b.add(i, rounds * together))

    def run_size(self, *, streaming: bool, even: bool) -> int:
        """Elements of a run that are converted in one piece."""
        if not even and (self.widths.src_packed or self.widths.dst_packed):
            return 1
        size = max(self.machine.vector // max(self.src.width, self.dst.width), 2)
        if self.conversion.dst == "bf16":
            size *= 2  # the upper halves of two registers are one
        elif self.by_packs():
            size = self.machine.vector
        return max(size, LINE // self.dst.width) if streaming else size

    def by_packs(self) -> bool:
        """Whether bytes are made by packs, a register of them at a time."""
        conversion = self.conversion
        computed = element_type(conversion.src).is_float or bool(conversion.parameters)
        vector = self.machine.vector
        return computed and conversion.computes == "f32" and packs(self.machine, conversion.dst, vector)

    def parts(self, count: Size, size: int) -> Iterator[tuple[int, int]]:
        """(first, number) of moves that cover `count` elements."""
        count = index(count)
        if not exactly_once(self.conversion):
            yield from pieces(count, size)
            return
        at = 0
        while at < count:
            number = min(size, 1 << ((count - at).bit_length() - 1))
            yield at, number
            at += number

    def moved(
        self, parts: Sequence[tuple[int, int]], s: str, d: str, channel: Value, step: Size, *, streaming: bool
    ) -> None:
        """Moves that may overlap with the same values; loads before stores, some at a time."""
        b = self.b
        for first in range(0, len(parts), UNROLL):
            group = parts[first : first + UNROLL]
            loaded = [self.src.load(b.at(s, at * self.src.width), n) for at, n in group]
            made: list[tuple[str, str, int]] = []
            for (at, n), value in zip(group, loaded, strict=True):
                place = b.at(d, at * self.dst.width)
                offsets = [step * k for k in range(n)]
                made.append((self.convert(value, b.add(channel, step * at), offsets, place), place, n))
            for value, place, n in made:
                self.dst.store(value, place, n, streaming=streaming and n * self.dst.width >= 16)

    # Tiles ------------------------------------------------------------------------------------------------------

    def tile(
        self, kernel: Tile, src: str, dst: str, channel: Value, range_: Range, *, streaming: bool
    ) -> None:
        b = self.b

        def tile(row: Value, col: Value, rows: int, cols: int) -> None:
            s = b.at(src, b.add(b.mul(row, kernel.rows.stride), b.mul(col, self.src.width)))
            d = b.at(dst, b.add(b.mul(row, self.dst.width), b.mul(col, kernel.cols.stride)))
            c = b.add(channel, b.add(b.mul(row, kernel.rows.channel), b.mul(col, kernel.cols.channel)))
            # The numbers of the conversion take some of the registers.
            parts = 1 if streaming else row_parts(rows, self.machine.vector, 8)
            high = rows // parts
            for first in range(0, rows, high):
                s_, d_ = b.at(s, first * kernel.rows.stride), b.at(d, first * self.dst.width)
                self.transpose(
                    kernel, s_, d_, b.add(c, first * kernel.rows.channel), high, cols, streaming=streaming
                )

        _schedule(b, kernel, range_, tile)

    def transpose(
        self,
        kernel: Tile,
        src: str,
        dst: str,
        channel: Value,
        rows: int,
        cols: int,
        *,
        streaming: bool,
    ) -> None:
        """One tile: register r holds, in lane l, K columns of row r + K l (see `kernels.network`)."""
        b, late = self.b, converts_late(self.conversion)
        width = self.src.width if late else self.dst.width
        per_lane = LANE // width
        lanes = 1
        while lanes * per_lane < rows:
            lanes *= 2
        groups = [[r + per_lane * k for k in range(lanes)] for r in range(per_lane)]
        if not late:
            # Whole rows are loaded and converted, and only then cut into lanes of columns.
            found = [self.converted(kernel, src, channel, held, rows, cols, per_lane) for held in groups]
            for k, registers in enumerate(zip(*found, strict=True)):
                first = k * per_lane
                place = b.at(dst, first * kernel.cols.stride)
                here = min(per_lane, cols - first)
                self.columns(kernel, list(registers), place, 0, rows, here, streaming=streaming)
            return
        turns, rest = divmod(cols, per_lane)
        asked = -(-rows // (turns + bool(rest))) if kernel.prefetch_distance else 0

        def part(turn: Value, here: int) -> None:
            first = b.mul(turn, per_lane)
            s, d = b.at(src, b.mul(first, width)), b.at(dst, b.mul(first, kernel.cols.stride))
            c = b.add(channel, b.mul(first, kernel.cols.channel))
            # Every row of the tile is asked for once, an equal share of them in each turn.
            ahead = b.at(src, b.add(b.mul(b.mul(turn, asked), kernel.rows.stride), kernel.prefetch_distance))
            registers: list[str] = []
            for r, held in enumerate(groups):
                registers.append(self.gathered(kernel, s, held, rows, here, per_lane))
                for k in range(r * asked // per_lane, (r + 1) * asked // per_lane):
                    b.prefetch(b.at(ahead, k * kernel.rows.stride))
            self.columns(kernel, registers, d, c, rows, here, streaming=streaming)

        if turns:
            with b.loop(0, turns) as i:
                part(i, per_lane)
        if rest:
            part(turns, rest)

    def columns(
        self, kernel: Tile, registers: list[str], dst: str, channel: Value, rows: int, cols: int, *,
        streaming: bool,
    ) -> None:  # fmt: skip
        """Transposes the registers of a lane of columns and stores them, converted if they are not yet."""
        b, late = self.b, converts_late(self.conversion)
        element, per_lane = lane(self.conversion.src if late else self.conversion.dst), len(registers)
        lanes = 1
        while lanes * per_lane < rows:
            lanes *= 2
        for j, column in enumerate(interleaved(b, element, registers, lanes)[:cols]):
            size = lanes * per_lane
            if rows != size:
                column = shuffle(b, element, column, "poison", size, list(range(rows)))
            place = b.at(dst, j * kernel.cols.stride)
            if late:
                offsets = [k * kernel.rows.channel for k in range(rows)]
                column = self.convert(column, b.add(channel, j * kernel.cols.channel), offsets, place)
            self.dst.store(column, place, rows, streaming=streaming)

    def gathered(
        self, kernel: Tile, src: str, held: Sequence[int], rows: int, cols: int, per_lane: int, *,
        asks: bool = False,
    ) -> str:  # fmt: skip
        """`cols` columns of the rows `held` one behind the other, each in whole lanes; "poison" where none is there."""
        b, element = self.b, lane(self.conversion.src)
        parts: list[str] = []
        size = -(-cols // per_lane) * per_lane
        for row in held:
            if row >= rows:
                parts.append("poison")
                continue
            part = self.src.load(b.at(src, row * kernel.rows.stride), cols)
            if asks:
                for line in range(0, cols * self.src.width, LINE):
                    b.prefetch(b.at(src, row * kernel.rows.stride + kernel.prefetch_distance + line))
            if cols < size:
                mask: list[int | None] = [k if k < cols else None for k in range(size)]
                part = shuffle(b, element, part, "poison", cols, mask)
            parts.append(part)
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [joined(b, element, low, high, size) for low, high in pairs]
            size *= 2
        return parts[0]

    def converted(
        self, kernel: Tile, src: str, channel: Value, held: Sequence[int], rows: int, cols: int, per_lane: int
    ) -> list[str]:  # fmt: skip
        """Per lane of columns, the register that holds those of the rows `held`, converted."""
        size = -(-cols // per_lane) * per_lane
        value = self.gathered(kernel, src, held, rows, cols, per_lane, asks=bool(kernel.prefetch_distance))
        if value == "poison":
            return ["poison"] * (size // per_lane)
        # Rows and columns that are not there read the channels of some that are.
        r, c = kernel.rows.channel, kernel.cols.channel
        offsets = [min(row, rows - 1) * r + min(k, cols - 1) * c for row in held for k in range(size)]
        value, element = self.convert(value, channel, offsets), lane(self.conversion.dst)
        if size > per_lane:
            [value] = fenced(self.b, element, [value], len(offsets))
        masks = [
            [at + k for at in range(first, len(offsets), size) for k in range(per_lane)]
            for first in range(0, size, per_lane)
        ]
        return [shuffle(self.b, element, value, "poison", len(offsets), mask) for mask in masks]

    # Weaves -----------------------------------------------------------------------------------------------------

    def weave(
        self, kernel: Interleave, src: str, dst: str, channel: Value, range_: Range, *, streaming: bool
    ) -> None:
        """Blocks of every strand; the last is moved back to end where the strands do."""
        b, n, size = self.b, kernel.ways, kernel.block
        sw, dw, step = self.src.width, self.dst.width, kernel.channel
        channels = bool(step)
        early = not kernel.inverse if channels else dw <= sw
        element = lane(self.conversion.dst if early else self.conversion.src)

        def convert(value: str, strand: int) -> str:
            return self.convert(value, b.add(channel, strand * step), [0] * size)

        with b.loop(*range_(-(-kernel.count // size))) as i:
            at = b.mul(i, size)
            at = b.min(at, kernel.count - size) if kernel.count % size else at
            if kernel.inverse:
                s, d = b.at(src, b.mul(at, n * sw)), b.at(dst, b.mul(at, dw))
                loaded = [self.src.load(b.at(s, k * size * sw), size) for k in range(n)]
                places = [[divmod(k * n + strand, size) for k in range(size)] for strand in range(n)]
            else:
                s, d = b.at(src, b.mul(at, sw)), b.at(dst, b.mul(at, n * dw))
                loaded = [self.src.load(b.at(s, k * kernel.stride), size) for k in range(n)]
                places = [[(e % n, e // n) for e in range(v * size, (v + 1) * size)] for v in range(n)]
            if early:
                loaded = [convert(value, strand) for strand, value in enumerate(loaded)]
            for v, lanes in enumerate(places):
                offset = v * kernel.stride if kernel.inverse else v * size * dw
                value = chosen(b, element, loaded, lanes)
                value = value if early else convert(value, v)
                self.dst.store(value, b.at(d, offset), size, streaming=streaming)


def _schedule(
    b: Builder, kernel: Tile, range_: Range, tile: Callable[[Value, Value, int, int], None]
) -> None:
    """The loops of the cuts around `tile`; one that would reach over the end of its axis is moved back."""
    last = {cut.axis: k for k, cut in enumerate(kernel.schedule)}
    shared = shared_cut(kernel)
    axes: dict[str, Axis] = {"rows": kernel.rows, "cols": kernel.cols}
    low: dict[str, Value] = {"rows": 0, "cols": 0}
    high: dict[str, Value] = {axis: value.count for axis, value in axes.items()}

    def loops(depth: int) -> None:
        if depth == len(kernel.schedule):
            sizes = [index(kernel.schedule[last[axis]].size) for axis in ("rows", "cols")]
            tile(low["rows"], low["cols"], *sizes)
            return
        axis, size = kernel.schedule[depth].axis, kernel.schedule[depth].size
        start, stop = low[axis], high[axis]
        number = b.ceil(b.sub(stop, start), size)
        exact = isinstance(start, int) and isinstance(stop, int) and (stop - start) % size == 0
        with b.loop(*(range_(number) if depth == shared else (0, number))) as i:
            begin = b.add(start, b.mul(i, size))
            if last[axis] == depth:
                low[axis] = begin if exact else b.min(begin, axes[axis].count - size)
            else:
                low[axis] = begin
                high[axis] = b.add(begin, size) if exact else b.min(b.add(begin, size), stop)
            loops(depth + 1)
        low[axis], high[axis] = start, stop

    loops(0)
