"""From a layout to a Picture: the memory view above, the logical view below.

    title, format, one line of figures, remarks, legend
    [ruler] address | cells of a row, in groups | the indices of the row
    the plane of indices with the path of memory

Cells are as wide as their longest label, so that every label fits; the rest follows from that. The path keeps to the
left and lower edge of the cells and runs between them where it jumps, so that no line crosses a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from layout_ir.algebra.layout import Hole, Layout, Pad
from layout_ir.drawing.captions import (
    colour_dim,
    gap_text,
    held_by_pads,
    index_of,
    remarks,
    row_text,
    summary,
)
from layout_ir.drawing.grid import Grid, Place, grid_of
from layout_ir.drawing.memory_view import Gap, MemoryView, Row, check_rows, memory_view
from layout_ir.drawing.picture import CHARACTER, Box, Dot, Line, Picture, Text, text_width

_WIDE, _GRID_WIDE = 1100, 1160
"""Pixels that the cells of a row take at most, above and below: with its margins a picture still fits a page."""
_MARGIN = 16.0
_LABEL, _SMALL = 9.0, 10.0
_GUTTER = 7.0
"""Room between the cells of the plane, where jumps of the path run."""
_FAINT, _NOTE, _FRAME, _PATH = "#6b6b6b", "#a03030", "#2f4858", "#1f4e9c"
_PAD_FILL, _HATCH_FILL, _HOLE_STROKE = "#ffffff", "#f4f4f4", "#d8d8d8"
_COLOURS = (
    "#cfe3f7", "#d9efcf", "#fbe6c4", "#f6d3d8", "#e2d6f3", "#cdeeea", "#f4f0b8", "#e6dcd0",
    "#a9cdf0", "#bce2aa", "#f7d294", "#efb6be", "#cdb9ea", "#a5e0d8", "#e9e285", "#d2bfa8",
)  # fmt: skip
"""Eight hues in two shades, all light enough for dark text: neighbours differ, and index 8 does not look like 0."""


def compose(layout: Layout, name: str | None = None, *, rows: int = 48) -> Picture:
    """The picture of `layout`, of about `rows` rows of memory at most; `name` is what the reader calls it.

    Raises LayoutError for more rows than a picture has.
    """
    check_rows(rows)
    picture = Picture(name or str(layout.format), f"memory of {layout}: {summary(layout)}")
    lines = _label_lines(layout)
    width = max(22.0, max(text_width(line, _LABEL) for line in lines) + 5)
    view = memory_view(layout, columns=min(40, int(_WIDE // (width + 1.5))), rows=rows)
    colours = _Colours(layout)
    y = _heading(picture, view, colours)
    y = _MemoryPainter(picture, view, colours, width, len(lines)).paint(y)
    grid = grid_of(layout, columns=_grid_columns(layout))
    if grid is not None:
        y = _GridPainter(picture, grid, colours).paint(y + 26)
    right = max((_right(item) for item in picture.items), default=0.0)
    picture.width, picture.height = round(right + _MARGIN), round(y + _MARGIN)
    return picture


def _grid_columns(layout: Layout) -> int:
    """How many cells of the plane fit side by side."""
    return int(_GRID_WIDE // (_grid_width(layout.extent) + _GUTTER))


def _grid_width(longest: int) -> float:
    """Width of a cell of the plane: the address, and room for the path on its left."""
    return max(28.0, text_width(str(longest), _LABEL) + 12)


def _right(item: Box | Line | Dot | Text) -> float:
    match item:
        case Box():
            return item.x + item.width
        case Text():
            return item.left + item.width
        case Line():
            return max(x for x, _ in item.points)
        case Dot():
            return item.x + item.radius


class _Colours:
    """The fill of an element, by its index in one dim."""

    def __init__(self, layout: Layout):
        self.dim = colour_dim(layout)
        self.name = "" if self.dim is None else layout.names[self.dim]
        self.count = 0 if self.dim is None else min(layout.shape[self.dim], len(_COLOURS))

    def of(self, index: tuple[int, ...]) -> str:
        return _COLOURS[0] if self.dim is None else _COLOURS[index[self.dim] % len(_COLOURS)]


def _label_lines(layout: Layout) -> tuple[str, ...]:
    """The longest label a cell can have."""
    return _label(tuple(max(extent - 1, 0) for extent in layout.shape))


def _label(index: tuple[int, ...]) -> tuple[str, ...]:
    """An index in lines of two or three numbers: long labels would make wide cells."""
    if not index:
        return ("()",)
    per_line = 2 if len(index) in (3, 4) else 3
    return tuple(",".join(map(str, index[k : k + per_line])) for k in range(0, len(index), per_line))


def _heading(picture: Picture, view: MemoryView, colours: _Colours) -> float:
    """Title, figures, remarks and legend; returns where they end."""
    layout, x, y = view.layout, _MARGIN, _MARGIN + 14
    picture.add(Text(x, y, picture.title, 15.0))
    if picture.title != str(layout.format):
        y += 18
        picture.add(Text(x, y, str(layout.format), 12.0))
    y += 18
    picture.add(Text(x, y, summary(layout), 11.0, colour=_FAINT))
    for remark in remarks(view):
        y += 16
        picture.add(Text(x, y, remark, 11.0, colour=_NOTE))
    y += 14
    entries: list[tuple[str, str]] = []
    if view.rows:
        entries.append(("element", f"element, labelled {','.join(layout.names) or '()'}"))
    if layout.is_padded:
        entries.append(("pad", f"pad, holds {held_by_pads(layout)}"))
    if any(isinstance(cell.what, Hole) for row in view.rows for cell in row.cells):
        entries.append(("hole", "hole, belongs to nothing"))
    for kind, caption in entries:
        _cell(picture, x, y, 16, 12, kind, _COLOURS[0])
        picture.add(Text(x + 22, y + 10, caption, _SMALL))
        x += 22 + text_width(caption, _SMALL) + 22
    if colours.count > 1:
        for shade in range(colours.count):
            picture.add(Box(x + shade * 9, y, 9, 12, _COLOURS[shade]))
        picture.add(Text(x + colours.count * 9 + 6, y + 10, _colour_caption(layout, colours), _SMALL))
    return y + 12


def _colour_caption(layout: Layout, colours: _Colours) -> str:
    extent = layout.shape[colours.dim or 0]
    if extent > len(_COLOURS):
        return f"colour: {colours.name} mod {len(_COLOURS)}"
    return f"colour: {colours.name} = 0..{extent - 1}"


def _cell(picture: Picture, x: float, y: float, width: float, height: float, kind: str, fill: str) -> None:
    if kind == "element":
        picture.add(Box(x, y, width, height, fill))
    elif kind == "pad":
        picture.add(Box(x, y, width, height, _HATCH_FILL, hatched=True))
    else:
        picture.add(Box(x, y, width, height, _PAD_FILL, _HOLE_STROKE))


class _MemoryPainter:
    """Rows of cells, their addresses and indices, frames around chunks."""

    def __init__(self, picture: Picture, view: MemoryView, colours: _Colours, width: float, lines: int):
        self.picture, self.view, self.colours = picture, view, colours
        self.width, self.height = width, 12.0 * lines + 4
        longest = max((text_width(str(row.start), _SMALL) for row in view.rows), default=0.0)
        self.left = _MARGIN + max(longest, text_width("address", _LABEL)) + 12
        self.offsets = self._offsets()
        self.right = self.left + (self.offsets[-1] + width if self.offsets else 0)
        if view.layout.chunk_size:
            captions = [text for entry in view.entries for text in self._lines_of(entry)]
            self.right = max(self.right, self.left + max(text_width(text, _SMALL) for text in captions) + 4)

    def _offsets(self) -> list[float]:
        """x of each column, from the left of the cells: groups stand apart, groups of groups more so."""
        result: list[float] = []
        x = 0.0
        for column in range(self.view.columns):
            if column:
                x += self.width + 1.5 + 3.5 * sum(column % group == 0 for group in self.view.groups[-3:])
            result.append(x)
        return result

    def paint(self, y: float) -> float:
        if not self.view.rows:
            return y
        y = self._ruler(y + 22)
        entries = self.view.entries
        open_at: float | None = None
        for at, entry in enumerate(entries):
            chunk = _chunk_before(entry)
            if chunk is not None and (at == 0 or _chunk_after(entries[at - 1]) != chunk or open_at is None):
                open_at = self._open(entry, y)
                y = open_at + 18 if open_at is not None else y
            elif at and isinstance(entry, Row):
                y += self._space_before(entry)
            y = self._gap(entry, y) if isinstance(entry, Gap) else self._row(entry, y)
            following = entries[at + 1] if at + 1 < len(entries) else None
            inside = _chunk_after(entry)
            if open_at is not None and (
                following is None or _chunk_before(following) != inside or inside is None
            ):
                y = self._close(open_at, y)
                open_at = None
        return y

    def _ruler(self, y: float) -> float:
        """Distances from the start of a row, at the start of each group."""
        step = next((g for g in self.view.groups if g * self.width > 40), 2 if self.view.columns <= 12 else 4)
        while step > 8 and step % 2 == 0:
            step //= 2
        for column in range(0, self.view.columns, step):
            x = self.left + self.offsets[column]
            self.picture.add(Text(x + 1, y - 5, f"+{column}", _LABEL, colour=_FAINT))
            self.picture.add(Line(((x, y - 3), (x, y)), _FAINT))
        self.picture.add(Text(self.left - 12, y - 5, "address", _LABEL, "end", _FAINT))
        return y + 3

    def _space_before(self, row: Row) -> float:
        """More room where a factor outside of the rows takes a step."""
        outer = {
            abs(f.stride)
            for f in self.view.layout.factors
            if f.count > 1 and abs(f.stride) > self.view.columns
        }
        return 4.0 * min(sum((row.start - self.view.layout.offset) % stride == 0 for stride in outer), 3)

    def _row(self, row: Row, y: float) -> float:
        middle = y + self.height / 2 + 3.5
        self.picture.add(Text(self.left - 12, middle, str(row.start), _SMALL, "end"))
        for cell, offset in zip(row.cells, self.offsets, strict=False):
            x = self.left + offset
            index = index_of(self.view.layout, cell)
            if index is None or isinstance(cell.what, Pad):
                _cell(self.picture, x, y, self.width, self.height, "hole" if index is None else "pad", "")
                continue
            _cell(self.picture, x, y, self.width, self.height, "element", self.colours.of(index))
            for k, line in enumerate(_label(index)):
                self.picture.add(Text(x + self.width / 2, y + 11.5 + 12 * k, line, _LABEL, "middle"))
        caption = row_text(self.view.layout, row.cells)
        self.picture.add(Text(self.right + 14, middle, caption, _LABEL, colour=_FAINT))
        return y + self.height + 3

    def _gap(self, gap: Gap, y: float) -> float:
        self.picture.add(Text(self.left + 4, y + 12, _gap_line(gap), _SMALL, colour=_FAINT))
        return y + 19

    def _open(self, entry: Row | Gap, y: float) -> float | None:
        """Begins the frame of a chunk of which a row is shown."""
        size = self.view.layout.chunk_size
        if isinstance(entry, Gap) and entry.last - entry.first + 1 >= size:
            return None
        self.picture.add(Text(self.left, y + 17, self._head(entry), _SMALL, colour=_FRAME))
        return y + 4

    def _head(self, entry: Row | Gap) -> str:
        """What stands above the chunk in which `entry` begins."""
        size = self.view.layout.chunk_size
        number = (entry.first if isinstance(entry, Gap) else entry.start) // size
        return f"chunk {number}: addresses {number * size} to {number * size + size - 1}"

    def _lines_of(self, entry: Row | Gap) -> list[str]:
        return [self._head(entry), *([_gap_line(entry)] if isinstance(entry, Gap) else [])]

    def _close(self, opened: float, y: float) -> float:
        width, height = self.right - self.left + 10, y - opened + 2
        self.picture.add(Box(self.left - 5, opened, width, height, None, _FRAME, line_width=1.6))
        return y + 5


def _gap_line(gap: Gap) -> str:
    return f"... {gap_text(gap)} ..."


def _chunk_before(entry: Row | Gap) -> int | None:
    """The chunk in which `entry` begins."""
    if isinstance(entry, Row):
        return entry.chunk
    return None if entry.chunks is None else entry.chunks[0]


def _chunk_after(entry: Row | Gap) -> int | None:
    """The chunk in which `entry` ends."""
    if isinstance(entry, Row):
        return entry.chunk
    return None if entry.chunks is None else entry.chunks[1]


class _GridPainter:
    """The plane of indices: addresses in its cells, and the path of memory between them."""

    def __init__(self, picture: Picture, grid: Grid, colours: _Colours):
        self.picture, self.grid, self.colours = picture, grid, colours
        self.width, self.height = _grid_width(grid.layout.extent), 24.0
        names = grid.layout.names
        self.down = "" if grid.down is None else names[grid.down]
        longest = max(len(str(grid.rows[-1])) + len(self.down) + 1, 3)
        self.left = _MARGIN + longest * _LABEL * CHARACTER + 16
        self.columns = _track(grid.columns, self.left, self.width + _GUTTER)
        self.rows: list[float] = []

    def paint(self, y: float) -> float:
        grid, names = self.grid, self.grid.layout.names
        caption = f"logical view: {names[grid.across]} across" + (f", {self.down} down" if self.down else "")
        if fixed := grid.fixed():
            caption += f"; {fixed}"
        self.picture.add(Text(_MARGIN, y, caption, 12.0))
        note = "each cell holds its address, the line follows memory"
        if grid.is_sampled:
            rows, columns = grid.full
            note += f"; sampled: {len(grid.rows)}x{len(grid.columns)} of {rows}x{columns} cells are shown"
        self.picture.add(Text(_MARGIN, y + 16, note, _SMALL, colour=_NOTE if grid.is_sampled else _FAINT))
        self.rows = _track(grid.rows, y + 44, self.height + _GUTTER)
        self._axes()
        for place in grid.places:
            self._place(place)
        self._path()
        return self.rows[-1] + self.height + _GUTTER

    def _axes(self) -> None:
        grid, layout = self.grid, self.grid.layout
        for k, (x, position) in enumerate(zip(self.columns, grid.columns, strict=True)):
            name = str(position - layout.lo[grid.across])
            name = f"{layout.names[grid.across]}={name}" if k == 0 else name
            self.picture.add(Text(x + self.width / 2, self.rows[0] - 9, name, _LABEL, "middle", _FAINT))
        if grid.down is None:
            return
        for k, (y, position) in enumerate(zip(self.rows, grid.rows, strict=True)):
            name = str(position - layout.lo[grid.down])
            name = f"{self.down}={name}" if k == 0 else name
            self.picture.add(Text(self.left - 12, y + 15, name, _LABEL, "end", _FAINT))

    def _place(self, place: Place) -> None:
        x, y = self.columns[place.column], self.rows[place.row]
        if place.is_pad:
            _cell(self.picture, x, y, self.width, self.height, "pad", "")
            # A plate keeps the number legible on the hatching.
            wide = text_width(str(place.address), _LABEL)
            self.picture.add(Box(x + self.width - wide - 4, y + 2, wide + 3, 11, _HATCH_FILL))
        else:
            fill = self.colours.of(self.grid.index(place))
            _cell(self.picture, x, y, self.width, self.height, "element", fill)
        self.picture.add(Text(x + self.width - 3, y + 11, str(place.address), _LABEL, "end"))

    def _dot(self, place: Place) -> tuple[float, float]:
        return self.columns[place.column] + 5, self.rows[place.row] + self.height - 5

    def _path(self) -> None:
        places = self.grid.places
        for at, (here, there) in enumerate(pairwise(places)):
            (x0, y0), (x1, y1) = self._dot(here), self._dot(there)
            last = at == len(places) - 2
            if here.address == there.address:
                continue
            if abs(here.row - there.row) + abs(here.column - there.column) == 1:
                left_out = there.order != here.order + 1 or self._is_apart(here, there)
                self.picture.add(Line(((x0, y0), (x1, y1)), _PATH, 0.9 if left_out else 1.6, left_out, last))
                continue
            # Jumps leave downwards, run below the row, come up in front of the column and enter from the left.
            below, before = y0 + 5 + _GUTTER / 2, x1 - 5 - _GUTTER / 2
            points = ((x0, y0), (x0, below), (before, below), (before, y1), (x1, y1))
            self.picture.add(Line(points, _PATH, 0.9, dashed=True, arrow=last))
        for at, place in enumerate(places):
            x, y = self._dot(place)
            self.picture.add(Dot(x, y, 3.2 if at == 0 else 1.8, _PATH))

    def _is_apart(self, here: Place, there: Place) -> bool:
        """Whether lines that are not shown lie between two neighbours of the picture."""
        rows, columns = self.grid.rows, self.grid.columns
        return abs(rows[here.row] - rows[there.row]) + abs(columns[here.column] - columns[there.column]) > 1


def _track(positions: Sequence[int], start: float, step: float) -> list[float]:
    """Where each of `positions` is drawn: neighbours `step` apart, others further."""
    result = [start]
    for before, after in pairwise(positions):
        result.append(result[-1] + step + (0 if after == before + 1 else 10))
    return result
