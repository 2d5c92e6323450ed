"""Transposes in registers, for elements of 1, 2, 4 and 8 bytes and registers of any number of 16-byte lanes.

A lane holds K = 16 / width elements. Register r is loaded so that its lane l holds K columns of row r + K l: 16 bytes
that lie together in the source. Inside every lane the K registers are then a K x K matrix, which log2 K rounds of
interleaving register i with register i + K/2 transpose (each round is a perfect shuffle of K*K elements and rotates
the bits of their position by one). Register j then holds column j: K elements of lane 0, K of lane 1, ... are rows
0, 1, 2, ... and lie together in the destination. Only in-lane unpacks are needed, which every vector unit has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index

from layout_ir.backends.llvm.emission.builder import Builder, Value, fenced, shuffle
from layout_ir.backends.llvm.emission.kernels.linear import Pace, Range
from layout_ir.backends.llvm.emission.kernels.network import interleaved, joined
from layout_ir.backends.llvm.machine.machine import LANE, LINE
from layout_ir.backends.llvm.planning.parallel import shared_cut
from layout_ir.dialects.kernel.plan import Tile
from layout_ir.symbolic.symint import SymInt


def emit_tile(
    b: Builder,
    kernel: Tile,
    src: str,
    dst: str,
    vector: int,
    range_: Range,
    streaming: bool,
    pace: Pace | None = None,
) -> None:
    """Emits the schedule of `kernel` around its tile; tile k asks for the k-th share of the next source.

    Registers have `vector` bytes.
    """
    last = {cut.axis: k for k, cut in enumerate(kernel.schedule)}
    axes = {"rows": kernel.rows, "cols": kernel.cols}
    sizes = {axis: index(kernel.schedule[k].size) for axis, k in last.items()}
    rows, cols = sizes["rows"], sizes["cols"]
    low: dict[str, Value] = {"rows": 0, "cols": 0}
    high: dict[str, Value] = {axis: value.count for axis, value in axes.items()}
    shared = shared_cut(kernel)
    fold = kernel.cols.fold
    table = b.table([kernel.cols.offset(k) for k in range(kernel.cols.count)]) if fold else ""

    # Four lanes of columns and more of narrow elements are hundreds of shuffles, most of the time of a compilation: a
    # loop over the lanes runs as fast. (Two lanes one after the other are a tenth faster than a loop.)
    per_lane = LANE // kernel.width
    looped = per_lane >= 8 and cols >= 4 * per_lane and cols % per_lane == 0 and not kernel.square
    lanes = cols // per_lane if looped else 1
    # Streamed lines are written whole; squares are as high as they are wide.
    parts = 1 if streaming or kernel.valid or kernel.square else row_parts(rows, vector)

    def tile(position: Value) -> None:
        s = b.at(src, b.add(b.mul(low["rows"], kernel.rows.stride), b.mul(low["cols"], kernel.width)))
        d = b.at(dst, b.mul(low["rows"], kernel.width))
        entries = b.at(table, b.mul(low["cols"], 8)) if fold else ""
        d = d if fold else b.at(d, b.mul(low["cols"], kernel.cols.stride))
        here = cols // lanes
        with b.loop(0, lanes) as lane:
            first = b.mul(lane, here)
            behind = b.add(position, b.mul(first, rows * kernel.width))
            if fold:
                row = b.at(entries, b.mul(first, 8))
                places, to = [b.entry(row, j) for j in range(here)], d
            else:
                places = [j * kernel.cols.stride for j in range(here)]
                to = b.at(d, b.mul(first, kernel.cols.stride))
            from_ = b.at(s, b.mul(first, kernel.width))
            high = rows // parts
            for part in range(parts):
                columns = _columns(
                    b, kernel, b.at(from_, part * high * kernel.rows.stride), vector, high, here
                )
                at = b.add(behind, part * high * here * kernel.width)
                write(columns, high, b.at(to, part * high * kernel.width), places, at)

    def write(columns: Iterator[str], high: int, d: str, places: Sequence[Value], position: Value) -> None:
        done = object()
        asked = iter(() if pace is None else pace.lines(b, position, high * len(places) * kernel.width))
        element, size = f"i{8 * kernel.width}", min(high, vector // kernel.width)
        for column, place in zip(columns, places, strict=True):
            for first in range(0, high, size):
                rows_here = list(range(first, min(first + size, high)))
                part = shuffle(b, element, column, "poison", high, rows_here)
                here, n = b.add(place, first * kernel.width), len(rows_here)
                b.store(f"<{n} x {element}>", part, d, here, streaming=n * kernel.width * streaming)
            if next(asked, done) is not done:
                b.order()  # one at a time: a burst does not fit into the queue
        for _ in asked:
            pass

    def schedule(depth: int, position: Value) -> None:
        if depth == len(kernel.schedule):
            tile(position)
            return
        cut = kernel.schedule[depth]
        axis, size = cut.axis, cut.size
        start, stop, count = low[axis], high[axis], axes[axis].count
        number = b.ceil(b.sub(stop, start), size)
        bounds: tuple[Value, Value] = (0, number)
        if depth == shared:
            bounds = range_(number)
        with b.loop(*bounds) as i:
            begin = b.add(start, b.mul(i, size))
            exact = isinstance(stop, int) and isinstance(start, int) and (stop - start) % size == 0
            if last[axis] == depth:
                low[axis] = begin if exact else b.min(begin, count - size)
            else:
                low[axis] = begin
                high[axis] = b.add(begin, size) if exact else b.min(b.add(begin, size), stop)
            behind: Value = 0
            if pace is not None:
                other = "cols" if axis == "rows" else "rows"
                extent = sizes[other] if last[other] < depth else b.sub(high[other], low[other])
                across = b.mul(extent, kernel.width)
                behind = b.mul(b.mul(i, size), across)
            schedule(depth + 1, b.add(position, behind))
        low[axis], high[axis] = start, stop

    schedule(0, 0)


def row_parts(rows: int, vector: int, registers: int = 16) -> int:
    """In how many parts a tile of `rows`, of each of which it holds 16 bytes, goes through so many registers.

    Processors with registers of 32 bytes have 16 of them: 64 rows of u8 at once keep half of theirs in memory (45 GB/s
    instead of 62). Parts have an even number of rows, for two of 4 bits share a byte.
    """
    return 2 if vector == 32 and 16 * rows > registers * vector and rows % 4 == 0 else 1


def _columns(b: Builder, kernel: Tile, src: str, vector: int, rows: int, cols: int) -> Iterator[str]:
    """Registers of `rows` elements, one per column of the tile at `src`, a lane of columns at a time."""
    if kernel.square and rows * kernel.width <= max(vector, LANE):
        yield from _square(b, kernel, src, rows, asks=bool(kernel.prefetch_distance))
        return
    if kernel.square:
        # Registers hold half a row: two squares, one below the other, write whole runs.
        half, element = rows // 2, f"i{8 * kernel.width}"
        for first, asks in (0, bool(kernel.prefetch_distance)), (half, False):
            upper, lower = (
                _square(
                    b, kernel, b.at(src, row * kernel.rows.stride + first * kernel.width), half, asks=asks
                )
                for row in (0, half)
            )
            for above, below in zip(upper, lower, strict=True):
                yield joined(b, element, above, below, half)
        return
    per_lane = LANE // kernel.width
    for first in range(0, cols, per_lane):
        here = min(per_lane, cols - first)
        yield from transposed(b, kernel, b.at(src, first * kernel.width), rows, here)


def transposed(b: Builder, kernel: Tile, src: str, rows: int, cols: int) -> list[str]:
    """Registers of `rows` elements, one per column, of the tile at `src`."""
    width = kernel.width
    element = f"i{8 * width}"
    per_lane = LANE // width
    lanes = 1
    while lanes * per_lane < rows:
        lanes *= 2
    size = lanes * per_lane
    registers = [_gathered(b, kernel, src, r, lanes, rows, cols) for r in range(per_lane)]
    registers = interleaved(b, element, registers, lanes)
    if rows == size:
        return registers[:cols]
    return [shuffle(b, element, r, "poison", size, list(range(rows))) for r in registers[:cols]]


def _square(b: Builder, kernel: Tile, src: str, size: int, *, asks: bool = False) -> list[str]:
    """The columns of a square of `size` rows that fill a register each; `asks`: for what lies `reach` ahead of them.

    First the lanes as above, K rows at a time; then 16-byte lanes trade places by halves, like the elements of a
    matrix of lanes.
    """
    element, per_lane = f"i{8 * kernel.width}", LANE // kernel.width
    lanes = size // per_lane
    groups: list[list[str]] = []
    low = [
        lane * per_lane + k // 2 + (size if k % 2 else 0) for lane in range(lanes) for k in range(per_lane)
    ]
    high = [k + per_lane // 2 for k in low]
    for first in range(0, size, per_lane):
        at = [(first + r) * kernel.rows.stride for r in range(per_lane)]
        group = [b.load(f"<{size} x {element}>", src, row) for row in at]
        if asks:
            for row in at:
                b.prefetch(b.at(src, row + kernel.prefetch_distance + LINE - 1))
        for turn in range(per_lane.bit_length() - 1):
            group = fenced(b, element, group, size) if turn else group
            pairs = [(group[i], group[i + per_lane // 2]) for i in range(per_lane // 2)]
            group = [shuffle(b, element, *pair, size, mask) for pair in pairs for mask in (low, high)]
        groups.append(group)
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


def _gathered(b: Builder, kernel: Tile, src: str, first: int, lanes: int, rows: int, cols: int) -> str:
    """The register whose lane l holds `cols` columns of row first + K l."""
    element, per_lane = f"i{8 * kernel.width}", LANE // kernel.width
    parts: list[str] = []
    for lane in range(lanes):
        row = first + per_lane * lane
        if row >= rows:
            parts.append("poison")
            continue
        if not isinstance(kernel.valid, SymInt) and kernel.valid and row >= kernel.valid:
            parts.append(f"splat ({element} {kernel.pad})")
            continue
        place = b.at(src, row * kernel.rows.stride)
        if isinstance(kernel.valid, SymInt) and row:
            # Row 0 there always is; where there is no other, a constant is read instead.
            there = b.put(f"icmp slt i64 {row}, {b.operand(kernel.valid)}")
            place = b.put(f"select i1 {there}, ptr {place}, ptr {b.pads(kernel.width, kernel.pad)}")
        value = b.load(f"<{cols} x {element}>", place)
        if cols < per_lane:
            value = shuffle(b, element, value, "poison", cols, _widened(cols, per_lane))
        parts.append(value)
    size = per_lane
    while len(parts) > 1:
        parts = [joined(b, element, parts[k], parts[k + 1], size) for k in range(0, len(parts), 2)]
        size *= 2
    return parts[0]


def _widened(cols: int, per_lane: int) -> Sequence[int | None]:
    return [k if k < cols else None for k in range(per_lane)]
