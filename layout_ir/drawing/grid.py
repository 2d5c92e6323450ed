"""A plane of the index space and the walk that memory takes through it: the second view of a layout.

The two dims whose digits lie innermost in memory span the plane, all others stay at their first index. There the
character of a layout shows: rows one after the other, columns, blocks, blocks of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from layout_ir.format import MEMORY
from layout_ir.layout import Layout


@dataclass(frozen=True, slots=True)
class Place:
    """A position of the plane: `row`, `column` count from 0; `is_pad` where no index reaches it."""

    row: int
    column: int
    address: int
    is_pad: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """The plane of dims `down` and `across` of `layout` (`down` None: a single row), as far as it is shown.

    `places` run in address order. Row and column k stand for position k of the padded box, which is index k - lo.
    """

    layout: Layout
    down: int | None
    across: int
    rows: int
    columns: int
    places: tuple[Place, ...]

    @property
    def full(self) -> tuple[int, int]:
        """Rows and columns of the whole plane."""
        box = self.layout.padded_shape
        return (1 if self.down is None else box[self.down]), box[self.across]

    @property
    def is_cut(self) -> bool:
        return (self.rows, self.columns) != self.full

    def fixed(self) -> str:
        """What holds for the whole plane, such as "n = 0, h = 0"; may be empty."""
        plane = (self.down, self.across)
        return ", ".join(f"{name} = 0" for dim, name in enumerate(self.layout.names) if dim not in plane)


def grid_of(layout: Layout, *, rows: int = 16, columns: int = 32) -> Grid | None:
    """The plane of `layout` that shows most, cut to `rows` x `columns`; None where there is no plane to show."""
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
    tall, wide = min(1 if down is None else box[down], rows), min(box[across], columns)
    places: list[Place] = []
    for row in range(tall):
        for column in range(wide):
            position = list(layout.lo)
            position[across] = column
            if down is not None:
                position[down] = row
            is_pad = any(not 0 <= y - low < x for y, low, x in zip(position, layout.lo, layout.shape, strict=True))
            places.append(Place(row, column, layout.position_address(position), is_pad))
    places.sort(key=lambda place: place.address)
    return Grid(layout, down, across, tall, wide, tuple(places))
