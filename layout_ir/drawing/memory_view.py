"""What lies in memory, in rows of addresses: the first view of a layout.

Rows end where the layout does: their length is a stride of the layout (or a multiple that divides the next one), so
that whole blocks stand below each other. Of a large layout the rows are kept that show something new: the first,
those on either side of the place where a factor takes its first step, those where padding begins, the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from layout_ir.algebra.canonical import address_of_position
from layout_ir.algebra.factors import MEMORY
from layout_ir.algebra.layout import Hole, Index, Layout, Pad
from layout_ir.errors import LayoutError

MOST_ROWS = 256
"""Rows of a picture: as PNG they are some 8,192 pixels high, which is as much as viewers show as one image."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One address (elements) and what lies there."""

    address: int
    what: Index | Pad | Hole


@dataclass(frozen=True, slots=True)
class Row:
    """Neighbouring addresses; never empty. `chunk` is the chunk that holds them, None where memory has none."""

    cells: tuple[Cell, ...]
    chunk: int | None

    @property
    def start(self) -> int:
        """The first address, in elements."""
        return self.cells[0].address


@dataclass(frozen=True, slots=True)
class Gap:
    """`rows` rows that are left out: addresses first to last, both included, of which chunks if memory has any."""

    first: int
    last: int
    rows: int
    chunks: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class MemoryView:
    """Rows of the memory of `layout`, in address order, with a Gap wherever rows are left out.

    `columns` is the length of a full row. `groups` are the strides that divide it, ascending: at each multiple of
    one of them, counted from the start of the row, something begins.
    """

    layout: Layout
    entries: tuple[Row | Gap, ...]
    columns: int
    groups: tuple[int, ...]
    total_rows: int

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows that are shown, without the gaps."""
        return tuple(entry for entry in self.entries if isinstance(entry, Row))

    @property
    def is_sampled(self) -> bool:
        """Whether rows are left out."""
        return any(isinstance(entry, Gap) for entry in self.entries)


@dataclass(frozen=True, slots=True)
class _Ruling:
    """How addresses [low, end) are cut into rows: runs of `run` addresses from `base` on, cut into rows of `width`.

    `base` may lie in front of `low`; row 0 is the one that holds `low`.
    """

    base: int
    low: int
    end: int
    run: int
    width: int

    @property
    def rows_per_run(self) -> int:
        return -(-self.run // self.width)

    @property
    def count(self) -> int:
        """How many rows there are."""
        runs, rest = divmod(self.end - self.base, self.run)
        return runs * self.rows_per_run + -(-rest // self.width) - self._from_base(self.low)

    def row_of(self, address: int) -> int:
        """The number of the row that holds `address`."""
        return self._from_base(address) - self._from_base(self.low)

    def _from_base(self, address: int) -> int:
        """Rows from `base` on in front of the one that holds `address`."""
        run, rest = divmod(address - self.base, self.run)
        return run * self.rows_per_run + rest // self.width

    def addresses(self, row: int) -> range:
        """The addresses in row number `row`; never empty for rows below `count`."""
        run, part = divmod(row + self._from_base(self.low), self.rows_per_run)
        start = self.base + run * self.run + part * self.width
        return range(
            max(start, self.low), min(start + self.width, self.base + (run + 1) * self.run, self.end)
        )


def check_rows(rows: int) -> None:
    """Raises LayoutError for more rows than a picture has."""
    if rows > MOST_ROWS:
        raise LayoutError(f"a picture shows at most {MOST_ROWS} rows of memory, not {rows}")


def memory_view(layout: Layout, *, columns: int = 32, rows: int = 48) -> MemoryView:
    """The memory of `layout` in rows of at most `columns` addresses; about `rows` of them, if there are more."""
    ruling = _ruling(layout, columns)
    shown = _sample(layout, ruling, rows) if ruling.count > rows else list(range(ruling.count))
    inside = [s for s in _steps(layout) if 1 < s < ruling.width and ruling.width % s == 0]
    entries: list[Row | Gap] = []
    before = -1
    for number in (*shown, ruling.count):
        if number - before > 1:
            entries.extend(_gaps(layout, ruling, before + 1, number - 1))
        if number < ruling.count:
            addresses = ruling.addresses(number)
            cells = tuple(Cell(address, layout.inverse(address)) for address in addresses)
            entries.append(Row(cells, _chunk_of(layout, addresses.start)))
        before = number
    return MemoryView(layout, tuple(entries), ruling.width, tuple(inside), ruling.count)


def _gaps(layout: Layout, ruling: _Ruling, first: int, last: int) -> Iterator[Gap]:
    """The rows first to last, both included; where they begin or end inside a chunk, that part is a gap of its own."""
    size, low, high = layout.chunk_size, ruling.addresses(first).start, ruling.addresses(last).stop
    cuts = {first, last + 1}
    if size and low // size != (high - 1) // size:
        # Rows never straddle chunks: a chunk begins with the row of its first address.
        if low % size:
            cuts.add(ruling.row_of((low // size + 1) * size))
        if high % size and high != ruling.end:
            cuts.add(ruling.row_of((high - 1) // size * size))
    for start, stop in pairwise(sorted(cuts)):
        low, high = ruling.addresses(start).start, ruling.addresses(stop - 1).stop - 1
        yield Gap(low, high, stop - start, (low // size, high // size) if size else None)


def _chunk_of(layout: Layout, address: int) -> int | None:
    return address // layout.chunk_size if layout.chunk_size else None


def _steps(layout: Layout) -> list[int]:
    """Distances at which something begins: the strides of the layout, and its chunk size. Ascending."""
    steps = {abs(f.stride) for f in layout.factors if f.axis == MEMORY and f.count > 1 and f.stride}
    return sorted(steps | ({layout.chunk_size} if layout.chunk_size else set()))


def _ruling(layout: Layout, columns: int) -> _Ruling:
    base, end = (min(0, layout.first_address), layout.extent) if layout.span else (0, layout.extent)
    if layout.chunk_size:
        columns = min(columns, layout.chunk_size)
    extent = max(end - base, 1)
    steps = [s for s in _steps(layout) if s < extent] + [extent]
    whole = max((s for s in steps if s <= columns), default=1)
    above = min((s for s in steps if s > columns), default=whole)
    # As many whole blocks as fit, if that number divides what lies further out.
    times = above // whole if above % whole == 0 else 1
    fitting = max(k for k in range(1, columns // whole + 1) if times % k == 0)
    if above == whole or whole * fitting * 2 > columns:
        run = width = whole * fitting
    else:
        # Nothing that fits divides the run: its last row is shorter.
        blocks = -(-above // whole)
        run, width = above, whole * -(-blocks // -(-blocks * whole // columns))
    # Chunks begin at multiples of their size, in front of address 0 too.
    start = base // run * run if layout.chunk_size else base
    return _Ruling(start, base, max(end, base), run, width)


def _sample(layout: Layout, ruling: _Ruling, budget: int) -> list[int]:
    """About `budget` row numbers, ascending: those that show something new."""
    kept: set[int] = set()
    for number in _interesting(layout, ruling):
        if len(kept) >= budget:
            break
        if 0 <= number < ruling.count:
            kept.add(number)
    for number in range(ruling.count):
        if len(kept) >= budget // 2:
            break
        kept.add(number)
    # A single row takes no more room than the note that it is left out.
    return sorted(kept | {k + 1 for k in kept if k + 2 in kept})


def _interesting(layout: Layout, ruling: _Ruling) -> Iterator[int]:
    """Row numbers by falling importance, with repetitions, perhaps outside the range."""
    yield from (0, ruling.count - 1, 1)
    if 0 in layout.padded_shape:
        return
    origin = list(layout.lo)
    places = [address_of_position(layout, origin)]
    places.append(
        address_of_position(layout, [y + x - 1 for y, x in zip(layout.lo, layout.shape, strict=True)])
    )
    # Padding begins behind the last index of a dim ...
    for dim in layout.padded_dims():
        if layout.lo[dim] + layout.shape[dim] < layout.padded_shape[dim]:
            places.append(address_of_position(layout, _moved(origin, dim, layout.shape[dim])))
    # ... and each factor takes its first step somewhere, the innermost first.
    for unit, dim in sorted(
        (abs(d.stride), dim) for dim, ds in enumerate(layout.digits) for d in ds if d.count > 1
    ):
        for digit in layout.digits[dim]:
            if abs(digit.stride) == unit and digit.axis == MEMORY:
                places.append(address_of_position(layout, _moved([0] * layout.rank, dim, digit.unit)))
    for place in places:
        yield ruling.row_of(place)
        yield ruling.row_of(place) - 1
    yield ruling.count - 2


def _moved(position: list[int], dim: int, by: int) -> list[int]:
    return [y + by if d == dim else y for d, y in enumerate(position)]
