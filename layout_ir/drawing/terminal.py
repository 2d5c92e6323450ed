"""The memory view in a terminal: one line per row, what all its elements share on the left.

    address  n c h w
          0  0 . 0 .  | 0,0 1,0 2,0 3,0 ...        the dots are what the cells say: here c,w

Colours are the reader's wish; without them pads are still pads.
"""

from __future__ import annotations

from dataclasses import dataclass

from layout_ir.algebra.layout import Hole, Layout, Pad
from layout_ir.drawing.captions import colour_dim, gap_text, held_by_pads, index_of, remarks, summary
from layout_ir.drawing.grid import grid_of
from layout_ir.drawing.memory_view import Gap, MemoryView, Row, check_rows, memory_view

_WIDTHS = (64, 48, 40, 32, 24, 20, 16, 12, 8, 6, 4, 2, 1)
_BACKGROUNDS = (153, 151, 223, 217, 183, 159, 229, 187, 111, 114, 216, 210, 141, 80, 185, 180)
"""256-colour numbers of light backgrounds, in the order of the colours of the pictures."""


@dataclass(frozen=True, slots=True)
class Charset:
    """What stands for things in a terminal: `pad` fills a cell, `bar` and `rule` are lines."""

    pad: str
    hole: str
    bar: str
    rule: str


UNICODE = Charset("░", " ", "│", "─")
ASCII = Charset("#", " ", "|", "-")


def to_terminal(
    layout: Layout, name: str | None = None, *, width: int = 100, rows: int = 40, colours: bool = False,
    charset: Charset = UNICODE,
) -> str:  # fmt: skip
    """The memory of `layout`, in lines of at most `width` characters where a cell fits; ends in a newline.

    Raises LayoutError for more rows than a picture has.
    """
    check_rows(rows)
    view, shown = _fitting(layout, width, rows)
    writer = _Writer(layout, view, shown, colours, charset)
    lines = [*([name] if name else []), str(layout.format), summary(layout), *remarks(view)]
    if view.rows:
        legend = [f"cells: {writer.cell_names()}"]
        if layout.is_padded:
            legend.append(f"{charset.pad * writer.width} is a pad and holds {held_by_pads(layout)}")
        lines += [", ".join(legend), "", *writer.memory()]
        lines += writer.plane(width)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _varying(layout: Layout, view: MemoryView) -> tuple[int, ...]:
    """Dims that change inside some row."""
    result: set[int] = set()
    for row in view.rows:
        indices = [index for cell in row.cells if (index := index_of(layout, cell)) is not None]
        result |= {d for d in range(layout.rank) if len({index[d] for index in indices}) > 1}
    return tuple(sorted(result))


def _cell_width(layout: Layout, dims: tuple[int, ...]) -> int:
    return max(sum(len(str(max(layout.shape[d] - 1, 0))) + 1 for d in dims) - 1, 2)


def _fitting(layout: Layout, width: int, rows: int) -> tuple[MemoryView, tuple[int, ...]]:
    """The view with the longest rows that fit, and the dims that its cells must name."""
    view = memory_view(layout, columns=1, rows=rows)
    for columns in _WIDTHS:
        view = memory_view(layout, columns=columns, rows=rows)
        dims = _varying(layout, view)
        writer = _Writer(layout, view, dims, False, ASCII)
        if writer.row_width <= width:
            return view, dims
    return view, _varying(layout, view)


def _only_chunk(layout: Layout, entry: Row | Gap) -> int | None:
    """The chunk of which `entry` is a part; None where there is none, and for chunks that are left out whole."""
    if isinstance(entry, Row):
        return entry.chunk
    if entry.chunks is None or entry.last - entry.first + 1 >= layout.chunk_size:
        return None
    return entry.chunks[0]


class _Writer:
    """Writes rows whose cells name the dims `shown`."""

    def __init__(
        self, layout: Layout, view: MemoryView, shown: tuple[int, ...], colours: bool, charset: Charset
    ):
        self.layout, self.view, self.shown = layout, view, shown
        self.charset = charset
        self.width = _cell_width(layout, shown)
        self.dim = colour_dim(layout) if colours else None
        self.colours = colours
        self.columns = [
            max(len(name), len(str(x))) for name, x in zip(layout.names, layout.shape, strict=True)
        ]
        self.address_width = max(len(str(row.start)) for row in view.rows) if view.rows else 1
        self.address_width = max(self.address_width, len("address"))

    @property
    def row_width(self) -> int:
        """Characters of the longest row."""
        left = self.address_width + 1 + sum(width + 1 for width in self.columns) + 2
        return left + sum(len(self._space(column)) + self.width for column in range(self.view.columns))

    def _space(self, column: int) -> str:
        """What stands before a cell: more where a group begins."""
        return "  " if column and any(column % group == 0 for group in self.view.groups) else " "

    def cell_names(self) -> str:
        return ",".join(self.layout.names[d] for d in self.shown) or "one element each"

    def memory(self) -> list[str]:
        names = " ".join(name.rjust(w) for name, w in zip(self.layout.names, self.columns, strict=True))
        lines = [f"{'address'.rjust(self.address_width)}  {names}"]
        chunk: int | None = None
        for entry in self.view.entries:
            inside = _only_chunk(self.layout, entry)
            if inside is not None and inside != chunk:
                chunk = inside
                lines.append(f"{self.charset.rule * 2} chunk {chunk} {self.charset.rule * 24}")
            if isinstance(entry, Gap):
                lines.append(f"{' ' * self.address_width}  ... {gap_text(entry)}")
            else:
                lines.append(self._row(entry))
        return lines

    def _row(self, row: Row) -> str:
        fixed = [index_of(self.layout, cell) for cell in row.cells]
        first = next((index for index in fixed if index is not None), None)
        parts: list[str] = []
        for dim, width in enumerate(self.columns):
            text = "." if first is None or dim in self.shown else str(first[dim])
            parts.append(text.rjust(width))
        cells = ""
        for column, (cell, index) in enumerate(zip(row.cells, fixed, strict=True)):
            cells += self._space(column) + self._cell(cell.what, index)
        return f"{str(row.start).rjust(self.address_width)}  {' '.join(parts)} {self.charset.bar}{cells}"

    def _cell(self, what: object, index: tuple[int, ...] | None) -> str:
        if isinstance(what, Hole) or index is None:
            return self.charset.hole * self.width
        if isinstance(what, Pad):
            pad = self.charset.pad * self.width
            return f"\x1b[2m{pad}\x1b[0m" if self.colours else pad
        text = (",".join(str(index[d]) for d in self.shown) or "x").rjust(self.width)
        if self.dim is None:
            return text
        return f"\x1b[30;48;5;{_BACKGROUNDS[index[self.dim] % len(_BACKGROUNDS)]}m{text}\x1b[0m"

    def plane(self, width: int) -> list[str]:
        """Addresses of the plane of the two innermost dims."""
        digits = len(str(self.layout.extent))
        grid = grid_of(self.layout, rows=12, columns=max((width - 8) // (digits + 1), 2))
        if grid is None:
            return []
        names = self.layout.names
        title = f"addresses: {names[grid.across]} across"
        title += "" if grid.down is None else f", {names[grid.down]} down"
        title += f"; {grid.fixed()}" if grid.fixed() else ""
        title += (
            ""
            if not grid.is_sampled
            else (f"; {len(grid.rows)}x{len(grid.columns)} of {grid.full[0]}x{grid.full[1]} are shown")
        )
        table = [[""] * len(grid.columns) for _ in grid.rows]
        for place in grid.places:
            text = str(place.address).rjust(digits)
            if self.colours and place.is_pad:
                text = f"\x1b[2m{text}\x1b[0m"
            table[place.row][place.column] = text
        low = self.layout.lo[grid.across]
        head = [str(position - low).rjust(digits) for position in grid.columns]
        lines: list[str] = []
        for position, line in zip(grid.rows, table, strict=True):
            name = "" if grid.down is None else str(position - self.layout.lo[grid.down])
            lines.append(f"{name.rjust(4)} {self.charset.bar} {' '.join(line)}")
        return ["", title, f"     {self.charset.bar} {' '.join(head)}", *lines]
