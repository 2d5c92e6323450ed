"""A Picture as SVG text, written by hand: four kinds of elements need no library.

Boxes and lines of one style share a path, texts of one style share a group, which makes the file a third of its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from layout_ir.drawing.picture import Box, Dot, Item, Line, Picture, Text, arrow_head

FONTS = "DejaVu Sans Mono, Menlo, Consolas, monospace"
HATCH = "#a8a8a8"


def to_svg(picture: Picture) -> str:
    """The SVG document of `picture`."""
    width, height = _number(picture.width), _number(picture.height)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONTS}" role="img">',
        f"<title>{escape(picture.title)}</title>",
        f"<desc>{escape(picture.description)}</desc>",
        '<defs><pattern id="pad" width="6" height="6" patternUnits="userSpaceOnUse">',
        f'<path d="M-1 1l2-2M0 6l6-6M5 7l2-2" stroke="{HATCH}" stroke-width="1"/></pattern></defs>',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for layer in picture.layers():
        lines.extend(_elements(layer))
    return "\n".join((*lines, "</svg>", ""))


def _elements(items: Sequence[Item]) -> Iterator[str]:
    """The elements of `items`, which are all of one style."""
    match items[0]:
        case Box() as box:
            outline = "".join(_rectangle(item) for item in items if isinstance(item, Box))
            stroke = f' stroke="{box.stroke}" stroke-width="{_number(box.line_width)}"' if box.stroke else ""
            yield f'<path fill="{box.fill or "none"}"{stroke} d="{outline}"/>'
            if box.hatched:
                yield f'<path fill="url(#pad)" d="{outline}"/>'
        case Line() as line:
            strokes = "".join(_stroke(item) for item in items if isinstance(item, Line))
            dashes = ' stroke-dasharray="3 2"' if line.dashed else ""
            yield (
                f'<path fill="none" stroke="{line.colour}" stroke-width="{_number(line.width)}" '
                f'stroke-linejoin="round"{dashes} d="{strokes}"/>'
            )
            for item in items:
                if isinstance(item, Line) and item.arrow:
                    corners = " ".join(f"{_number(x)},{_number(y)}" for x, y in arrow_head(item))
                    yield f'<polygon fill="{item.colour}" points="{corners}"/>'
        case Dot() as dot:
            yield f'<g fill="{dot.colour}">'
            for item in items:
                if isinstance(item, Dot):
                    x, y, r = map(_number, (item.x, item.y, item.radius))
                    yield f'<circle cx="{x}" cy="{y}" r="{r}"/>'
            yield "</g>"
        case Text() as text:
            anchor = "" if text.anchor == "start" else f' text-anchor="{text.anchor}"'
            yield f'<g font-size="{_number(text.size)}" fill="{text.colour}"{anchor} xml:space="preserve">'
            for item in items:
                if isinstance(item, Text):
                    yield f'<text x="{_number(item.x)}" y="{_number(item.y)}">{escape(item.text)}</text>'
            yield "</g>"


def _rectangle(box: Box) -> str:
    x, y, width, height = map(_number, (box.x, box.y, box.width, box.height))
    return f"M{x} {y}h{width}v{height}h-{width}z"


def _stroke(line: Line) -> str:
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in line.points)


def _number(value: float) -> str:
    """At most two decimals, and none that say nothing."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
