"""A report as one page of HTML that needs no network: a graph before and after, and the copies that remain.

    page = graph_page("resnet50 for avx2", after, before=before, pictures={"nChw16c": svg}, notes=["proven optimal"])

The page is made of graph_page.html, its style sheet and its script, which are files beside this one. Its security
policy admits that script alone, by its hash, and forbids every request: names in the graphs come from strangers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from layout_ir.drawing.drawn_graph import DrawnGraph, DrawnNode, bytes_text, printable
from layout_ir.drawing.graph_placement import Placement, place
from layout_ir.drawing.graph_svg import Palette, elements, graph_css

ROWS = 5_000
"""Copies that the table lists at most."""


def graph_page(
    title: str,
    after: DrawnGraph,
    *,
    before: DrawnGraph | None = None,
    pictures: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The page that shows `after`, beside it `before` if given, and the copies of `after` by their bytes.

    `pictures` has an SVG document for each layout of an edge that has a picture; `notes` are sentences for its head.
    Where there is none before, nothing is said of what went. Raises LayoutError where fast-sugiyama is not installed.
    """
    graphs = {"after": after} if before is None else {"before": before, "after": after}
    palette = Palette.of(graphs.values())
    placed = {name: (graph, place(graph)) for name, graph in graphs.items()}
    style = f"{graph_css()}\n{_template('graph_page.css')}"
    script = _template("graph_page.js")
    remaining = after.copies
    total = sum(node.nbytes or 0 for node in remaining)
    remains = "" if before is None else "What remains: "
    parts = {
        "title": _text(title),
        "notes": "".join(f"<p>{_text(note)}</p>" for note in notes),
        "figures": _figures(graphs if before is not None else {"graph": after}),
        "legend": "\n".join(_legend(palette)),
        "graphs": "\n".join(
            _pane(name, graph, place, palette, len(placed) > 1) for name, (graph, place) in placed.items()
        ),
        "remaining-title": f"{remains}{_copies(len(remaining))}, {bytes_text(total)}",
        "remaining": _table(after, remaining[:ROWS], len(remaining)),
        "data": _data(placed, palette, pictures or {}),
        "style": style,
        "script": script,
        "style-hash": _hash(style),
        "script-hash": _hash(script),
    }
    return re.sub(r"\{\{([a-z-]+)\}\}", lambda match: parts[match[1]], _template("graph_page.html"))


@cache
def _template(name: str) -> str:
    return files("layout_ir.drawing").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The hash by which a security policy admits an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _text(text: str) -> str:
    return escape(printable(text))


def _copies(count: int) -> str:
    return "1 copy" if count == 1 else f"{count} copies"


def _figures(graphs: Mapping[str, DrawnGraph]) -> str:
    """A table of what each graph has: nodes, copies, bytes that they move."""
    rows = "".join(
        f'<tr><th scope="row">{name}</th><td>{len(graph.nodes)}</td><td>{len(graph.copies)}</td>'
        f"<td>{bytes_text(sum(node.nbytes or 0 for node in graph.copies))}</td></tr>"
        for name, graph in graphs.items()
    )
    head = "<thead><tr><td></td><th>nodes</th><th>copies</th><th>moved</th></tr></thead>"
    return f'<table class="figures">{head}<tbody>{rows}</tbody></table>'


def _legend(palette: Palette) -> Iterator[str]:
    """A button for each Format, and the mark of copies."""
    for number, layout in enumerate(palette.numbers):
        line = f'<g class="e {palette.style(layout)}"><path d="M1 6h30"/></g>'
        yield (
            f'<button type="button" data-layout="{number}" title="{_text(layout)}" aria-pressed="false">'
            f'<svg class="graph" width="32" height="12" aria-hidden="true">{line}</svg>'
            f"<span>{_text(layout)}</span></button>"
        )
    mark = '<g class="copy"><path class="box" d="M2 6l4-4h18l4 4l-4 4h-18z"/></g>'
    yield f'<span class="copies"><svg class="graph" width="32" height="12" aria-hidden="true">{mark}</svg>copy</span>'


def _pane(name: str, graph: DrawnGraph, placement: Placement, palette: Palette, of_two: bool) -> str:
    buttons = "".join(
        f'<button type="button" value="{value}" title="{title}">{text}</button>'
        for value, title, text in (
            ("in", "closer (+)", "+"),
            ("out", "farther (−)", "−"),
            ("fit", "all (0)", "all"),
        )
    )
    title = f"{name}: " if of_two else ""
    label = f"the graph{f' {name}' if of_two else ''}; arrow keys move it, plus and minus zoom"
    drawn = "\n".join(elements(graph, placement, palette))
    return (
        f'<section class="pane" data-graph="{name}"><h2>{title}{_copies(len(graph.copies))}</h2>'
        f'<svg class="graph" tabindex="0" role="application" aria-label="{label}"><g>\n{drawn}\n</g></svg>'
        f'<canvas aria-hidden="true" title="where the copies are"></canvas><div class="zoom">{buttons}</div></section>'
    )


def _table(graph: DrawnGraph, copies: Sequence[DrawnNode], count: int) -> str:
    """The copies: bytes, layouts, what is on both sides, and the reason."""
    if not copies:
        return "<p>No copies.</p>"
    reads: dict[int, list[int]] = {}
    writes: dict[int, list[int]] = {}
    for number, (source, target) in enumerate(graph.ends):
        writes.setdefault(source, []).append(number)
        reads.setdefault(target, []).append(number)

    def layouts(edges: Sequence[int]) -> str:
        found = dict.fromkeys(graph.edges[edge].layout or "?" for edge in edges)
        return ", ".join(found) or "?"

    def names(nodes: Sequence[int]) -> str:
        if not nodes:
            return "nothing"
        first = graph.nodes[nodes[0]]
        more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        return f"{first.label} {first.name}".strip() + more

    rows: list[str] = []
    for node in copies:
        number = graph.numbers[node.id]
        into, out = reads.get(number, []), writes.get(number, [])
        change = f"{layouts(into)} → {layouts(out)}"
        sides = f"{names([graph.ends[e][0] for e in into])} to {names([graph.ends[e][1] for e in out])}"
        rows.append(
            f'<tr data-n="{number}"><td>{bytes_text(node.nbytes)}</td><td>'
            f'<button type="button">{_text(change)}</button>'
            f"<small>{_text(sides)}</small><small>{_text(node.reason)}</small></td></tr>"
        )
    more = f"<p>and {count - len(copies)} more</p>" if count > len(copies) else ""
    return f"<table><tbody>{''.join(rows)}</tbody></table>{more}"


def _data(
    placed: Mapping[str, tuple[DrawnGraph, Placement]], palette: Palette, pictures: Mapping[str, str]
) -> str:
    """The texts and places that the script needs, as JSON that an element `script` can hold."""
    numbers = {layout: number for number, layout in enumerate(palette.numbers)}
    data = {
        "layouts": [
            {"text": printable(layout), "picture": printable(pictures.get(layout, ""))} for layout in numbers
        ],
        "graphs": {name: _graph_data(graph, at, numbers) for name, (graph, at) in placed.items()},
    }
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e")


def _graph_data(graph: DrawnGraph, placement: Placement, layouts: Mapping[str, int]) -> dict[str, Any]:
    return {
        "width": placement.width,
        "height": placement.height,
        "nodes": [
            {
                "id": printable(node.id),
                "label": printable(node.label),
                "kind": node.kind,
                "name": printable(node.name),
                "detail": printable(node.detail),
                "bytes": bytes_text(node.nbytes),
                "reason": printable(node.reason),
                "x": round(x, 1),
                "y": round(y, 1),
            }
            for node, (x, y) in zip(graph.nodes, placement.nodes, strict=True)
        ],
        "edges": [
            {
                "source": source,
                "target": target,
                "value": printable(edge.value),
                "shape": printable(edge.shape),
                "type": printable(edge.element_type),
                "layout": layouts.get(edge.layout),
            }
            for edge, (source, target) in zip(graph.edges, graph.ends, strict=True)
        ],
    }
