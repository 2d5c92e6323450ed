"""A graph as SVG: values in the colour of their Format, copies as hexagons with their bytes.

A colour is always beside another mark: Formats differ by line style once the hues are used up, copies by their outline
and text. The hues were chosen by search so that readers without red, green or blue cones tell them apart as well, for a
light ground and a dark one: a CIELAB distance of at least 18 (12 without blue), and a contrast of 3 to the ground.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

from layout_ir.drawing.drawn_graph import DrawnEdge, DrawnGraph, DrawnNode, bytes_text, printable
from layout_ir.drawing.graph_placement import NODE_HEIGHT, NODE_WIDTH, Placement, Point, place

HUES = (
    ("#0853cf", "#6797fb"), ("#da7e00", "#f48900"), ("#00a656", "#41d89a"), ("#e0599d", "#c26da6"),
    ("#4d95ef", "#c8f0ff"), ("#486d14", "#fbf485"), ("#5e2e89", "#6e4dff"),
)  # fmt: skip
"""Colours of Formats on a light and on a dark ground."""
COPY = ("#dd1924", "#e04a43")
GROUND = ("#ffffff", "#14171c")
_DASHES = ("", "8 4", "2 4")
"""Line styles; with the hues they mark 21 Formats. Those beyond share a grey line, and say by text what they are."""

_LABEL, _NAME = 23, 27
"""Characters of 11 and 9.5 pixels that fit a node."""
_KEY = 60
"""Characters of a Format in the legend."""
_BAND = 1200.0
"""Height of the groups that a page shows or hides as a whole, in pixels."""
_LEGEND_ROW = 20.0


@dataclass(frozen=True)
class Palette:
    """The line style of each Format, by number; the most frequent come first."""

    numbers: Mapping[str, int]

    @staticmethod
    def of(graphs: Iterable[DrawnGraph]) -> Palette:
        """Styles for the Formats of all edges of `graphs`, so that a Format looks alike in each of them."""
        counts = Counter(edge.layout for graph in graphs for edge in graph.edges if edge.layout)
        layouts = sorted(counts, key=lambda layout: (-counts[layout], layout))
        return Palette({layout: number for number, layout in enumerate(layouts)})

    def style(self, layout: str) -> str:
        """The class of lines in this Format; "none" where it is not known."""
        number = self.numbers.get(layout)
        return "none" if number is None else f"f{min(number, len(HUES) * len(_DASHES))}"


def graph_css() -> str:
    """The style sheet of graphs, for light and dark grounds."""
    return "\n".join((_BASE_CSS, _theme(0), "@media (prefers-color-scheme: dark) {", _theme(1), "}"))


_BASE_CSS = """\
.graph text { font: 9.5px "DejaVu Sans", "Segoe UI", system-ui, sans-serif; text-anchor: middle }
.graph text.label { font-size: 11px; font-weight: 600 }
.graph text.key { font-size: 11px; text-anchor: start }
.graph .e path { fill: none; stroke-width: 2.6 }
.graph .e path.head { stroke: none }
.graph .none path { stroke-width: 1.2 }
.graph .view .box { stroke-dasharray: 5 3 }
.graph .opaque .box { stroke-dasharray: 1.5 2.5; stroke-width: 2 }
.graph .copy .box { stroke-width: 2.2 }"""


def _theme(dark: int) -> str:
    """Rules of one ground: fills, outlines, texts, lines."""
    ink, faint, fill, line, end, constant, copy = (
        ("#1b1f24", "#5a6370", "#f7f8fa", "#8a93a0", "#e4edf7", "#ececec", "#ffe9e6"),
        ("#e8ebef", "#9aa4b1", "#222831", "#6b7684", "#23344a", "#2d2d2d", "#4a1f1d"),
    )[dark]
    rules = [
        f".graph .ground {{ fill: {GROUND[dark]} }}",
        f".graph text {{ fill: {faint} }} .graph text.label, .graph text.key {{ fill: {ink} }}",
        f".graph .box {{ fill: {fill}; stroke: {line} }}",
        f".graph .input .box, .graph .output .box {{ fill: {end} }}",
        f".graph .constant .box {{ fill: {constant} }}",
        f".graph .copy .box {{ fill: {copy}; stroke: {COPY[dark]} }} .graph .copy text {{ fill: {ink} }}",
        f".graph .none path {{ stroke: {line} }} .graph .none .head {{ fill: {line} }}",
    ]
    for number in range(len(HUES) * len(_DASHES) + 1):
        beyond = number == len(HUES) * len(_DASHES)
        colour = line if beyond else HUES[number % len(HUES)][dark]
        dash = "12 3 2 3" if beyond else _DASHES[number // len(HUES)]
        dashed = f"; stroke-dasharray: {dash}" if dash and not dark else ""
        rules.append(
            f".graph .f{number} path {{ stroke: {colour}{dashed} }} .graph .f{number} .head {{ fill: {colour} }}"
        )
    return "\n".join(rules)


def graph_svg(graph: DrawnGraph) -> str:
    """The SVG document of `graph`, with a legend and, on hover, what is known of each node and edge.

    Raises LayoutError where fast-sugiyama is not installed.
    """
    palette, placement = Palette.of([graph]), place(graph)
    longest = max((len(layout) for layout in palette.numbers), default=0)
    step = 56 + 6.8 * min(max(longest, 12), _KEY)
    columns = max(1, int((placement.width - 24) // step))
    keys = list(_legend(palette, columns, step))
    top = 12 + _LEGEND_ROW * -(-len(keys) // columns)
    width, height = max(placement.width, 24 + step), placement.height + top
    size = f'width="{_number(width)}" height="{_number(height)}" viewBox="0 0 {_number(width)} {_number(height)}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" {size} role="img">',
            f"<style>{graph_css()}</style>",
            '<rect class="ground" width="100%" height="100%"/>',
            *keys,
            f'<g transform="translate(0 {_number(top)})">',
            *elements(graph, placement, palette, titles=True),
            "</g>",
            "</svg>",
            "",
        )
    )


def _legend(palette: Palette, columns: int, step: float) -> Iterator[str]:
    """An entry for the copies, and one for each Format, in columns that are `step` pixels wide."""
    entries = [("", "copy")] + [(palette.style(layout), layout) for layout in palette.numbers]
    for number, (style, text) in enumerate(entries):
        x, y = 24 + step * (number % columns), 16 + _LEGEND_ROW * (number // columns)
        if style:
            mark = f'<g class="e {style}"><path d="M{_number(x)} {_number(y)}h28"/></g>'
        else:
            mark = f'<g class="copy"><path class="box" d="{_hexagon(x + 14, y, 28, 12)}"/></g>'
        label = escape(printable(_short(text, _KEY)))
        yield f'{mark}<text class="key" x="{_number(x + 34)}" y="{_number(y + 4)}">{label}</text>'


def elements(
    graph: DrawnGraph, placement: Placement, palette: Palette, *, titles: bool = False
) -> Iterator[str]:
    """The SVG elements of a placed graph: edges, then nodes, in groups (`band`) that cover a range of y.

    Each carries its place in `graph` as `data-n` or `data-e`; with `titles`, also a text that browsers show on hover.
    """
    bands: dict[tuple[int, int], list[str]] = {}
    for number, (edge, points) in enumerate(zip(graph.edges, placement.edges, strict=True)):
        ys = [y for _, y in points]
        text = _edge(number, edge, points, palette, _title(edge_text(edge)) if titles else "")
        bands.setdefault((int(min(ys) // _BAND), int(max(ys) // _BAND)), []).append(text)
    yield from _bands(bands)
    bands = {}
    for number, (node, (x, y)) in enumerate(zip(graph.nodes, placement.nodes, strict=True)):
        top, bottom = int((y - NODE_HEIGHT) // _BAND), int((y + NODE_HEIGHT) // _BAND)
        text = _node(number, node, x, y, _title(node_text(node)) if titles else "")
        bands.setdefault((top, bottom), []).append(text)
    yield from _bands(bands)


def _bands(bands: Mapping[tuple[int, int], list[str]]) -> Iterator[str]:
    for (first, last), texts in sorted(bands.items()):
        top, bottom = _number(first * _BAND), _number((last + 1) * _BAND)
        yield f'<g class="band" data-top="{top}" data-bottom="{bottom}">'
        yield from texts
        yield "</g>"


def node_text(node: DrawnNode) -> str:
    """What is known of a node, in lines."""
    moved = f"moves {bytes_text(node.nbytes)}" if node.kind == "copy" else ""
    return "\n".join(filter(None, (f"{node.label} {node.name}".strip(), moved, node.reason, node.detail)))


def edge_text(edge: DrawnEdge) -> str:
    """What is known of a value, in one line."""
    return "  ".join(filter(None, (edge.value, edge.shape, edge.element_type, edge.layout)))


def _title(text: str) -> str:
    return f"<title>{escape(printable(text))}</title>"


def _node(number: int, node: DrawnNode, x: float, y: float, title: str) -> str:
    left, top = _number(x - NODE_WIDTH / 2), _number(y - NODE_HEIGHT / 2)
    if node.kind == "copy":
        box = f'<path class="box" d="{_hexagon(x, y, NODE_WIDTH, NODE_HEIGHT)}"/>'
        label, name = bytes_text(node.nbytes), node.label
    else:
        radius = {"input": NODE_HEIGHT / 2, "output": NODE_HEIGHT / 2, "constant": 0, "opaque": 0}
        size = f'width="{_number(NODE_WIDTH)}" height="{_number(NODE_HEIGHT)}"'
        corner = _number(radius.get(node.kind, 5))
        box = f'<rect class="box" x="{left}" y="{top}" {size} rx="{corner}"/>'
        label, name = node.label, node.name
    texts = _text(x, y - 3 if name else y + 4, _short(label, _LABEL), "label")
    if name:
        texts += _text(x, y + 11, _short(name, _NAME))
    return f'<g class="n {node.kind}" data-n="{number}">{title}{box}{texts}</g>'


def _text(x: float, y: float, text: str, style: str = "") -> str:
    style = f' class="{style}"' if style else ""
    return f'<text{style} x="{_number(x)}" y="{_number(y)}">{escape(printable(text))}</text>'


def _hexagon(x: float, y: float, width: float, height: float) -> str:
    corner = height / 2.6
    left, top, side = _number(x - width / 2), _number(y), _number(width - 2 * corner)
    dx, dy = _number(corner), _number(height / 2)
    return f"M{left} {top}l{dx} -{dy}h{side}l{dx} {dy}l-{dx} {dy}h-{side}z"


def _edge(number: int, edge: DrawnEdge, points: tuple[Point, ...], palette: Palette, title: str) -> str:
    """Curves that are vertical at every point, so that they leave and enter nodes upright."""
    (x0, y0), *rest = points
    d = f"M{_number(x0)} {_number(y0)}"
    upwards = rest[-1][1] < y0
    tip = -5.0 if not upwards else 5.0
    for k, (x, y) in enumerate(rest):
        end = y + tip if k == len(rest) - 1 else y
        if x == x0:
            d += f"V{_number(end)}"
        else:
            middle = _number((y0 + y) / 2)
            d += f"C{_number(x0)} {middle} {_number(x)} {middle} {_number(x)} {_number(end)}"
        x0, y0 = x, y
    head = f"M{_number(x0)} {_number(y0)}l-3.6 {_number(1.4 * tip)}h7.2z"
    style = palette.style(edge.layout)
    return f'<g class="e {style}" data-e="{number}">{title}<path d="{d}"/><path class="head" d="{head}"/></g>'


def _short(text: str, most: int) -> str:
    """`text` in one line and at most as wide as `most` letters; of a longer one its end, which tells names apart."""
    text = " ".join(text[-4 * most :].split()) if len(text) > 4 * most else " ".join(text.split())
    widths = [2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text]
    if sum(widths) <= most:
        return text
    kept, room = 0, most - 1
    while room >= widths[-1 - kept]:
        room -= widths[-1 - kept]
        kept += 1
    return "…" + text[len(text) - kept :]


def _number(value: float) -> str:
    """At most one decimal, and none that says nothing."""
    return f"{value:.1f}".removesuffix(".0")
