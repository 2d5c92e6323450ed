"""A picture: boxes, lines and texts in pixels.

The writers know nothing of layouts, and what composes pictures knows nothing of file formats. y grows downwards.
Pictures are painted in layers, so that no text is ever covered: filled boxes, lines, dots, outlines, texts; inside a
layer by style, in the order in which styles first occur.
"""

from __future__ import annotations

from dataclasses import dataclass, field

CHARACTER = 0.61
"""Width of a character by font size: that of the common monospaced fonts, more than most proportional digits take."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle; colours are #rrggbb or None. A hatched one has diagonal lines over its fill."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None
    hatched: bool = False
    line_width: float = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """A polyline through `points`, dashed or not; with `arrow` its end has a head."""

    points: tuple[tuple[float, float], ...]
    colour: str
    width: float = 1.0
    dashed: bool = False
    arrow: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    radius: float
    colour: str


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text whose baseline is at y; `anchor` start, middle or end says what of it is at x."""

    x: float
    y: float
    text: str
    size: float = 10.0
    anchor: str = "start"
    colour: str = "#222222"

    @property
    def width(self) -> float:
        """How wide it is at most."""
        return text_width(self.text, self.size)

    @property
    def left(self) -> float:
        """x of its left end, in pixels, if it is as wide as `width`."""
        return self.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor] * self.width


Item = Box | Line | Dot | Text


@dataclass(slots=True)
class Picture:
    """Items on a white sheet of `width` x `height`; `title` and `description` are for readers who cannot see it."""

    title: str
    description: str
    width: float = 0.0
    height: float = 0.0
    items: list[Item] = field(default_factory=list[Item])

    def add(self, *items: Item) -> None:
        """Puts `items` on the sheet; `layers` decides what covers what."""
        self.items.extend(items)

    def layers(self) -> list[list[Item]]:
        """The items in painting order, those of one style together."""
        styles: dict[tuple[int, tuple[object, ...]], list[Item]] = {}
        for item in self.items:
            styles.setdefault(_style(item), []).append(item)
        return [styles[style] for style in sorted(styles, key=lambda style: style[0])]


def _style(item: Item) -> tuple[int, tuple[object, ...]]:
    """The layer of an item, and what it has in common with others of its style."""
    match item:
        case Box():
            return 0 if item.fill else 3, (item.fill, item.stroke, item.hatched, item.line_width)
        case Line():
            return 1, (item.colour, item.width, item.dashed)
        case Dot():
            return 2, (item.colour,)
        case Text():
            return 4, (item.size, item.anchor, item.colour)


def arrow_head(line: Line) -> tuple[tuple[float, float], ...]:
    """The three corners of the head at the end of `line`."""
    (x0, y0), (x1, y1) = line.points[-2:]
    length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-9)
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    tip, back, half = 4.0, 5.0, 3.4
    base = (x1 - back * dx, y1 - back * dy)
    return (
        (x1 + tip * dx, y1 + tip * dy),
        (base[0] - half * dy, base[1] + half * dx),
        (base[0] + half * dy, base[1] - half * dx),
    )


def text_width(text: str, size: float) -> float:
    """Pixels that `text` takes at most."""
    return len(text) * size * CHARACTER
