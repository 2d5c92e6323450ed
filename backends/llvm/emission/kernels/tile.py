"""Transposes in registers, for elements of 1, 2, 4 and 8 bytes and registers of any number of 16-byte lanes.

A lane holds K = 16 / width elements. Register r is loaded so that its lane l holds K columns of row r + K l: 16 bytes
that lie together in the source. Inside every lane the K registers are then a K x K matrix, which the shuffle network
transposes: register j then holds column j, whose elements in lane 0, lane 1, ... are rows 0, 1, 2, ... and lie together
in the destination. Only in-lane unpacks are needed, which every vector unit has.

Elements that are converted are shuffled at the narrower width: columns are converted when they are whole, or, where
the destination is narrower, rows are as they come in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import index

from layout_ir.backends.llvm.emission.iteration import Partition, Pointers
from layout_ir.backends.llvm.emission.kernels.converter import Converter
from layout_ir.backends.llvm.emission.kernels.rare_lanes import RareLanes, emit_conversions
from layout_ir.backends.llvm.emission.kernels.shuffle_network import joined, transposed
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, fenced, shuffle
from layout_ir.backends.llvm.machine.machine import LANE, LINE
from layout_ir.backends.llvm.planning.parallel import parallel_blocking
from layout_ir.dialects.kernel.plan import Tile
from layout_ir.symbolic.symint import SymInt


def emit_tile(
    converter: Converter, kernel: Tile, pointers: Pointers, partition: Partition, *, streaming: bool
) -> None:
    """Emits the schedule of `kernel` around its tile."""
    b, fold = converter.b, kernel.cols.fold
    table = b.table([kernel.cols.offset(k) for k in range(kernel.cols.count)]) if fold else ""
    tile = _Tile(converter, kernel, table, streaming=streaming)
    _emit_schedule(b, kernel, pointers, partition, tile.emit)


def row_parts(rows: int, vector: int, registers: int = 16) -> int:
    """In how many parts a tile of `rows`, of each of which it holds 16 bytes, goes through so many registers.

    Processors with registers of 32 bytes have 16 of them: 64 rows of u8 at once keep half of theirs in memory (45 GB/s
    instead of 62). Parts have an even number of rows, for two of 4 bits share a byte.
    """
    return 2 if vector == 32 and 16 * rows > registers * vector and rows % 4 == 0 else 1


def _emit_schedule(
    b: Builder,
    kernel: Tile,
    pointers: Pointers,
    partition: Partition,
    emit: Callable[[Pointers, Value, Value], None],
) -> None:
    """`emit(pointers, row, col)` in the loops of the schedule; a tile is moved back where its axis would end inside it.

    The cursor has advanced by what the tiles before it have read, in the order in which they are run.
    """
    last = {blocking.axis: k for k, blocking in enumerate(kernel.schedule)}
    axes = {"rows": kernel.rows, "cols": kernel.cols}
    sizes = {axis: index(kernel.schedule[k].size) for axis, k in last.items()}
    low: dict[str, Value] = {"rows": 0, "cols": 0}
    high: dict[str, Value] = {axis: value.count for axis, value in axes.items()}
    parallel = parallel_blocking(kernel)

    def loops(depth: int, pointers: Pointers) -> None:
        if depth == len(kernel.schedule):
            emit(pointers, low["rows"], low["cols"])
            return
        axis, size = kernel.schedule[depth].axis, kernel.schedule[depth].size
        start, stop, count = low[axis], high[axis], axes[axis].count
        number = b.ceil(b.sub(stop, start), size)
        exact = isinstance(stop, int) and isinstance(start, int) and (stop - start) % size == 0
        with b.loop(*(partition(number) if depth == parallel else (0, number))) as i:
            begin = b.add(start, b.mul(i, size))
            if last[axis] == depth:
                low[axis] = begin if exact else b.min(begin, count - size)
            else:
                low[axis] = begin
                high[axis] = b.add(begin, size) if exact else b.min(b.add(begin, size), stop)
            here = pointers
            if pointers.cursor is not None:
                other = "cols" if axis == "rows" else "rows"
                extent = sizes[other] if last[other] < depth else b.sub(high[other], low[other])
                across = b.mul(extent, kernel.width)
                here = pointers.ahead(b, b.mul(b.mul(i, size), across))
            loops(depth + 1, here)
        low[axis], high[axis] = start, stop

    loops(0, pointers)


class _Tile:
    """The code of one tile."""

    def __init__(self, converter: Converter, kernel: Tile, table: str, *, streaming: bool) -> None:
        self.b = converter.b
        self.converter = converter
        self.kernel = kernel
        self.table = table
        """Where every column begins in the destination, if the columns are folded."""
        self.streaming = streaming
        self.moves = converter.conversion is None
        self.vector = converter.machine.vector
        self.rows, self.cols = (index(kernel.block(axis)) for axis in ("rows", "cols"))
        self.shuffled = converter.src if converter.pair.transposes_first else converter.dst
        """The elements that go through the shuffle network."""
        self.per_lane = LANE // self.shuffled.width
        # Streamed lines are written whole; squares are as high as they are wide. Parameters take some registers.
        whole = streaming or kernel.valid or kernel.square
        self.parts = 1 if whole else row_parts(self.rows, self.vector, 16 if self.moves else 8)

    def emit(self, pointers: Pointers, row: Value, col: Value) -> None:
        """The tile that begins at `row` and `col` of the kernel."""
        b, kernel, src, dst = self.b, self.kernel, self.converter.src, self.converter.dst
        from_ = b.add(b.mul(row, kernel.rows.stride), b.mul(col, src.width))
        pointers = pointers.advanced(b, col, 0, 0, kernel.cols.channel).moved(b, from_, 0)
        pointers = pointers.advanced(b, row, 0, dst.width, kernel.rows.channel)
        entries = b.at(self.table, b.mul(col, 8)) if self.table else ""
        if not self.table:
            pointers = pointers.advanced(b, col, 0, kernel.cols.stride)
        first = 0
        for times, cols in self._blocks():
            with b.loop(0, times) as k:
                self._emit_columns(pointers, entries, b.add(first, b.mul(k, cols)), cols)
            first += times * cols

    def _blocks(self) -> list[tuple[int, int]]:
        """Loops over columns as (iterations, columns of each).

        Four lanes of columns and more of narrow elements are hundreds of shuffles, most of the time of a compilation: a
        loop over the lanes runs as fast. (Two lanes one after the other are a tenth faster than a loop.)
        """
        cols, per_lane = self.cols, self.per_lane
        lanes, rest = divmod(cols, per_lane)
        if not self.converter.pair.transposes_first or self.kernel.square:
            return [(1, cols)]
        if not self.moves:
            return [(times, wide) for times, wide in ((lanes, per_lane), (1, rest)) if times and wide]
        return [(lanes, per_lane)] if per_lane >= 8 and lanes >= 4 and not rest else [(1, cols)]

    def _emit_columns(self, pointers: Pointers, entries: str, first: Value, cols: int) -> None:
        """Columns [first, first + cols) of the tile at `pointers`; `entries`: its part of the table."""
        b, kernel, src, dst = self.b, self.kernel, self.converter.src, self.converter.dst
        if pointers.cursor is not None:
            pointers = pointers.ahead(b, b.mul(first, self.rows * src.width))
        places: list[Value]
        if entries:
            row = b.at(entries, b.mul(first, 8))
            places = [b.entry(row, k) for k in range(cols)]
        else:
            places = [k * kernel.cols.stride for k in range(cols)]
            pointers = pointers.advanced(b, first, 0, kernel.cols.stride)
        here = pointers.advanced(b, first, src.width, 0, kernel.cols.channel)
        rows = self.rows // self.parts
        for part in range(self.parts):
            row = part * rows
            at = here.moved(b, row * kernel.rows.stride, row * dst.width, row * kernel.rows.channel)
            if pointers.cursor is not None:
                at = at.ahead(b, row * cols * src.width)
            ahead = ""
            if kernel.prefetch_distance and not kernel.square and self.converter.pair.transposes_first:
                ahead = self._prefetched(pointers.moved(b, row * kernel.rows.stride, 0), first, rows)
            convert = partial(self._convert, at, places, rows, cols, ahead)
            emit_conversions(b, convert, exactly_once=self.converter.pair.exactly_once)

    def _convert(
        self,
        pointers: Pointers,
        places: Sequence[Value],
        rows: int,
        cols: int,
        ahead: str,
        rare: RareLanes | None,
    ) -> None:
        """Stores the columns of the tile at `pointers` at their `places`."""
        self._store(self._columns(pointers, rows, cols, ahead, rare), pointers, places, rows, rare)

    def _columns(
        self, pointers: Pointers, rows: int, cols: int, ahead: str, rare: RareLanes | None
    ) -> Iterator[str]:
        """Registers of `rows` elements, one per column of the tile at `pointers`."""
        if self.kernel.square:
            yield from self._square_columns(pointers.src, rows)
            return
        per_lane, element = self.per_lane, self.shuffled.lane
        lanes = 1
        while lanes * per_lane < rows:
            lanes *= 2
        groups = [[r + per_lane * k for k in range(lanes)] for r in range(per_lane)]
        if self.converter.pair.transposes_first:
            matrices = self._loaded(pointers, groups, rows, cols, ahead)
        else:
            found = [self._converted(pointers, group, rows, cols, rare) for group in groups]
            matrices = map(list, zip(*found, strict=True))
        size = lanes * per_lane
        for k, registers in enumerate(matrices):
            for column in transposed(self.b, element, registers, lanes)[: cols - k * per_lane]:
                if rows == size:
                    yield column
                else:
                    yield shuffle(self.b, element, column, "poison", size, list(range(rows)))

    def _store(
        self, columns: Iterator[str], pointers: Pointers, places: Sequence[Value], rows: int,
        rare: RareLanes | None,
    ) -> None:  # fmt: skip
        """Stores the columns at their `places`, each prefetching an equal part of what the cursor has come to."""
        b, dst, kernel = self.b, self.converter.dst, self.kernel
        # What is moved is stored by registers; what is converted is in several of them anyway.
        size = min(rows, self.vector // dst.width) if self.moves else rows
        done = object()
        volume = rows * len(places) * self.converter.src.width
        prefetches = iter(() if pointers.cursor is None else pointers.cursor.lines(b, 0, volume))
        for k, (column, to) in enumerate(zip(columns, places, strict=True)):
            pointer = b.at(pointers.dst, to)
            if self.converter.pair.transposes_first:
                channels = [row * kernel.rows.channel for row in range(rows)]
                channel = b.add(pointers.channel, k * kernel.cols.channel)
                column = self.converter.convert(column, channel, channels, pointer, rare)
            for first in range(0, rows, size):
                here = list(range(first, min(first + size, rows)))
                part = shuffle(b, dst.lane, column, "poison", rows, here)
                dst.store(part, b.at(pointer, first * dst.width), len(here), streaming=self.streaming)
            if next(prefetches, done) is not done:
                b.order()  # one at a time: a burst does not fit into the queue
        for _ in prefetches:
            pass

    # Rows ----------------------------------------------------------------------------------------------------------

    def _loaded(
        self, pointers: Pointers, groups: Sequence[Sequence[int]], rows: int, cols: int, ahead: str
    ) -> Iterator[list[str]]:
        """Per lane of columns, the registers that hold those of each group of rows."""
        b, per_lane = self.b, self.per_lane
        prefetched = self._rows_prefetched(rows)
        for first in range(0, cols, per_lane):
            src = b.at(pointers.src, first * self.converter.src.width)
            registers: list[str] = []
            for r, group in enumerate(groups):
                registers.append(self._gathered(src, group, rows, min(per_lane, cols - first)))
                if ahead:
                    for k in range(r * prefetched // per_lane, (r + 1) * prefetched // per_lane):
                        b.prefetch(b.at(ahead, k * self.kernel.rows.stride))
            yield registers

    def _rows_prefetched(self, rows: int) -> int:
        """Rows that each lane of columns prefetches, an equal part of all `rows`."""
        return -(-rows // -(-self.cols // self.per_lane))

    def _prefetched(self, pointers: Pointers, first: Value, rows: int) -> str:
        """Where the prefetches of the lane of columns that begins at `first` begin.

        They ask for the last byte of a line's length: where rows begin within lines, what is read now has the first.
        """
        b, kernel = self.b, self.kernel
        row = b.mul(b.div(first, self.per_lane), self._rows_prefetched(rows))
        ahead = b.add(kernel.prefetch_distance, LINE - 1)
        return b.at(pointers.src, b.add(b.mul(row, kernel.rows.stride), ahead))

    def _gathered(
        self, src: str, group: Sequence[int], rows: int, cols: int, *, prefetch: bool = False
    ) -> str:
        """`cols` columns, in whole lanes, of each row of the group one behind the other; "poison" for rows beyond.

        Rows that the source does not have are pads.
        """
        b, kernel, access, per_lane = self.b, self.kernel, self.converter.src, self.per_lane
        parts: list[str] = []
        size = -(-cols // per_lane) * per_lane
        for row in group:
            if row >= rows:
                parts.append("poison")
                continue
            if not isinstance(kernel.valid, SymInt) and kernel.valid and row >= kernel.valid:
                parts.append(f"splat ({access.lane} {kernel.pad})")
                continue
            pointer = b.at(src, row * kernel.rows.stride)
            if isinstance(kernel.valid, SymInt) and row:
                # Row 0 there always is; where there is no other, a constant is read instead.
                there = b.put(f"icmp slt i64 {row}, {b.operand(kernel.valid)}")
                pointer = b.put(f"select i1 {there}, ptr {pointer}, ptr {b.pads(kernel.width, kernel.pad)}")
            part = access.load(pointer, cols)
            if prefetch:
                for line in range(0, cols * access.width, LINE):
                    b.prefetch(b.at(src, row * kernel.rows.stride + kernel.prefetch_distance + line))
            if cols < size:
                mask: list[int | None] = [k if k < cols else None for k in range(size)]
                part = shuffle(b, access.lane, part, "poison", cols, mask)
            parts.append(part)
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [joined(b, access.lane, low, high, size) for low, high in pairs]
            size *= 2
        return parts[0]

    def _converted(
        self, pointers: Pointers, group: Sequence[int], rows: int, cols: int, rare: RareLanes | None
    ) -> list[str]:
        """Per lane of columns, the register that holds those of the rows of `group`, converted."""
        b, kernel, per_lane = self.b, self.kernel, self.per_lane
        size = -(-cols // per_lane) * per_lane
        value = self._gathered(pointers.src, group, rows, cols, prefetch=bool(kernel.prefetch_distance))
        if value == "poison":
            return ["poison"] * (size // per_lane)
        # Rows and columns that are not there read the channels of some that are.
        r, c = kernel.rows.channel, kernel.cols.channel
        channels = [min(row, rows - 1) * r + min(k, cols - 1) * c for row in group for k in range(size)]
        value = self.converter.convert(value, pointers.channel, channels, rare=rare)
        element = self.shuffled.lane
        if size > per_lane:
            [value] = fenced(b, element, [value], len(channels))
        masks = [
            [at + k for at in range(first, len(channels), size) for k in range(per_lane)]
            for first in range(0, size, per_lane)
        ]
        return [shuffle(b, element, value, "poison", len(channels), mask) for mask in masks]

    # Squares -------------------------------------------------------------------------------------------------------

    def _square_columns(self, src: str, rows: int) -> Iterator[str]:
        """The columns of a square tile, whose rows are loaded in whole registers."""
        b, kernel = self.b, self.kernel
        prefetch = bool(kernel.prefetch_distance)
        if rows * kernel.width <= max(self.vector, LANE):
            yield from self._square(src, rows, prefetch=prefetch)
            return
        # Registers hold half a row: two squares, one below the other, write whole runs.
        half = rows // 2
        for first, prefetch_here in (0, prefetch), (half, False):
            upper, lower = (
                self._square(
                    b.at(src, row * kernel.rows.stride + first * kernel.width), half, prefetch=prefetch_here
                )
                for row in (0, half)
            )
            for above, below in zip(upper, lower, strict=True):
                yield joined(b, self.shuffled.lane, above, below, half)

    def _square(self, src: str, size: int, *, prefetch: bool) -> list[str]:
        """The columns of a square of `size` rows that fill a register each.

        First the lanes as above, K rows at a time; then 16-byte lanes trade places by halves, like the elements of a
        matrix of lanes. `prefetch`: the lines that lie `prefetch_distance` ahead of what is loaded.
        """
        b, kernel, element, per_lane = self.b, self.kernel, self.shuffled.lane, self.per_lane
        lanes = size // per_lane
        groups: list[list[str]] = []
        for first in range(0, size, per_lane):
            rows = [(first + r) * kernel.rows.stride for r in range(per_lane)]
            group = [b.load(f"<{size} x {element}>", src, row) for row in rows]
            if prefetch:
                for row in rows:
                    b.prefetch(b.at(src, row + kernel.prefetch_distance + LINE - 1))
            groups.append(transposed(b, element, group, lanes))
        # groups[g][j], lane l: rows K g .. of column K l + j. Wanted: columns[K l + j], lane g.
        columns = [""] * size
        for j in range(per_lane):
            matrix = [group[j] for group in groups]
            for _ in range(lanes.bit_length() - 1):
                # The same perfect shuffle as for elements: interleave register i with i + L/2, a lane at a time.
                matrix = fenced(b, element, matrix, size)
                half = lanes // 2
                masks = [
                    [
                        (x // 2 + base) * per_lane + k + (size if x % 2 else 0)
                        for x in range(lanes)
                        for k in range(per_lane)
                    ]
                    for base in (0, half)
                ]
                pairs = [(matrix[i], matrix[i + half]) for i in range(half)]
                matrix = [shuffle(b, element, *pair, size, mask) for pair in pairs for mask in masks]
            for lane in range(lanes):
                columns[lane * per_lane + j] = matrix[lane]
        return columns
