"""A plane of the index space and the walk that memory takes through it: the second view of a layout.

The two dims whose digits lie innermost in memory span the plane, all others stay at their first index. There the
character of a layout shows: rows one after the other, columns, blocks, blocks of blocks. Of a long dim those indices
are kept that show something new: the first ones, those on either side of a block border, those where padding begins.
"""

from __future__ import annotations

from dataclasses import dataclass

from layout_ir.algebra.canonical import address_of_position
from layout_ir.algebra.factors import MEMORY
from layout_ir.algebra.layout import Layout

_COUNTED = 1 << 14
"""Cells of a plane that are visited to number them; of larger planes only the cells that are shown are numbered."""


@dataclass(frozen=True, slots=True)
class Place:
    """A cell of the plane: `row` and `column` count the lines that are shown; `is_pad` where no index reaches it.

    `order` numbers the cells of the whole plane as memory visits them, those included that are not shown.
    """

    row: int
    column: int
    address: int
    is_pad: bool
    order: int


@dataclass(frozen=True, slots=True)
class Grid:
    """The plane of dims `down` and `across` of `layout` (`down` None: a single row).

    `rows` and `columns` are the positions of the padded box that are shown, ascending; position y is index y - lo.
    `places` run in address order.
    """

    layout: Layout
    down: int | None
    across: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    places: tuple[Place, ...]

    @property
    def full(self) -> tuple[int, int]:
        """Rows and columns of the whole plane."""
        box = self.layout.padded_shape
        return (1 if self.down is None else box[self.down]), box[self.across]

    @property
    def is_sampled(self) -> bool:
        """Whether rows or columns of the plane are left out."""
        return (len(self.rows), len(self.columns)) != self.full

    def fixed(self) -> str:
        """What holds for the whole plane, such as "n = 0, h = 0"; may be empty."""
        plane = (self.down, self.across)
        return ", ".join(f"{name} = 0" for dim, name in enumerate(self.layout.names) if dim not in plane)

    def index(self, place: Place) -> tuple[int, ...]:
        """The logical index of `place`; outside the shape for pads."""
        index = [0] * self.layout.rank
        index[self.across] = self.columns[place.column] - self.layout.lo[self.across]
        if self.down is not None:
            index[self.down] = self.rows[place.row] - self.layout.lo[self.down]
        return tuple(index)


def grid_of(layout: Layout, *, rows: int = 16, columns: int = 32) -> Grid | None:
    """The plane of `layout` that shows most, of at most `rows` x `columns` cells; None where there is none to show."""
    if 0 in layout.padded_shape or not layout.rank:
        return None
    inner = [f for f in layout.factors if f.axis == MEMORY and f.count > 1 and f.stride]
    dims = list(dict.fromkeys(f.dim for f in sorted(inner, key=lambda f: abs(f.stride))))[:2]
    if not dims:
        return None
    box = layout.padded_shape
    if len(dims) == 1:
        down, across = None, dims[0]
    else:
        down, across = sorted(dims)
        # The later dim runs across, as in a printed matrix, unless that makes a tower of it.
        if box[down] > 12 and box[down] > box[across]:
            down, across = across, down
    tall = (0,) if down is None else _positions(layout, down, rows)
    wide = _positions(layout, across, columns)
    shown = {(y, x): _position(layout, down, across, y, x) for y in tall for x in wide}
    visited = sorted(address_of_position(layout, position) for position in shown.values())
    lines = 1 if down is None else box[down]
    if lines * box[across] <= _COUNTED:
        everything = (_position(layout, down, across, y, x) for y in range(lines) for x in range(box[across]))
        visited = sorted(address_of_position(layout, position) for position in everything)
    order = {address: k for k, address in enumerate(visited)}
    places: list[Place] = []
    for row, y in enumerate(tall):
        for column, x in enumerate(wide):
            position = shown[y, x]
            inside = all(
                0 <= p - low < n for p, low, n in zip(position, layout.lo, layout.shape, strict=True)
            )
            address = address_of_position(layout, position)
            places.append(Place(row, column, address, not inside, order[address]))
    places.sort(key=lambda place: place.address)
    return Grid(layout, down, across, tall, wide, tuple(places))


def _position(layout: Layout, down: int | None, across: int, y: int, x: int) -> list[int]:
    position = list(layout.lo)
    position[across] = x
    if down is not None:
        position[down] = y
    return position


def _positions(layout: Layout, dim: int, budget: int) -> tuple[int, ...]:
    """At most `budget` positions of `dim`, ascending."""
    box = layout.padded_shape[dim]
    if box <= budget:
        return tuple(range(box))
    low, end = layout.lo[dim], layout.lo[dim] + layout.shape[dim]
    wanted = [0, box - 1, 1, 2, low, end - 1, end, low - 1]
    for digit in layout.digits[dim]:
        wanted += [digit.unit - 1, digit.unit, digit.unit + 1]
    kept: set[int] = set()
    for position in (*wanted, *range(budget)):
        if 0 <= position < box and len(kept) < budget:
            kept.add(position)
    return tuple(sorted(kept))
