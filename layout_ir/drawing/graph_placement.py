"""Where the nodes and edges of a graph are drawn: layers from top to bottom, so that values flow downwards.

Sugiyama's method (layers, few crossings, straight long edges) comes from the package fast-sugiyama (extra `draw`),
which takes a tenth of a second for a network of 2,000 nodes. It ends the process on graphs with cycles, and its time
grows with the layers that edges cross and with their width: what it is given is made acyclic and affordable here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from layout_ir.drawing.drawn_graph import DrawnGraph
from layout_ir.errors import LayoutError

NODE_WIDTH, NODE_HEIGHT = 172.0, 38.0
_COLUMN, _ROW = NODE_WIDTH + 22, NODE_HEIGHT + 30
_EDGE_SHARE = 0.12
"""Width of an edge that passes a layer, in columns."""
_MARGIN = 24.0

CROSSINGS = 40_000
"""Layers that edges cross in all, which is what takes time: 40,000 take two to four seconds. Longer edges of a graph
with more are drawn, but nodes do not make way for them."""

WIDE = 16
"""Nodes per layer beyond which no shortest edges are looked for: among 4,000 random edges of 2,000 nodes, 66 per layer,
that took 30 seconds, and the rest one. Networks have two to four nodes per layer, and are the better for it."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Placement:
    """The centre of each node, the points that each edge passes, in pixels from the left upper corner, and the size."""

    nodes: tuple[Point, ...]
    edges: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def check_installed() -> None:
    """Raises LayoutError where fast-sugiyama is not installed."""
    try:
        import_module("fast_sugiyama")
    except ImportError as error:
        raise LayoutError(
            f"drawing graphs needs the extra 'draw': pip install 'layout-ir[draw]' ({error})"
        ) from None


def place(graph: DrawnGraph) -> Placement:
    """Where the parts of `graph` are drawn. Raises LayoutError where fast-sugiyama is not installed."""
    pairs = _affordable(_downwards(len(graph.nodes), graph.ends))
    components = [*_layered(pairs), *_single(len(graph.nodes), pairs)]
    centres, routes, width, height = _packed(components)
    order = tuple(centres[number] for number in range(len(graph.nodes)))
    return Placement(order, _paths(graph.ends, order, routes), width, height)


def _downwards(count: int, ends: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The edges without loops and repetitions, those that close a cycle turned round, sorted topologically."""
    distinct = {(source, target) for source, target in ends if source != target}
    after: list[list[int]] = [[] for _ in range(count)]
    waits = [0] * count
    for source, target in sorted(distinct):
        after[source].append(target)
        waits[target] += 1
    position = [-1] * count
    ready = [number for number in range(count) if not waits[number]]
    ready.reverse()
    done = first = 0
    while done < count:
        if not ready:  # what is left has a cycle: cut it in front of the first node
            while position[first] >= 0:
                first += 1
            ready.append(first)
        number = ready.pop()
        if position[number] >= 0:
            continue
        position[number] = done
        done += 1
        for target in reversed(after[number]):
            waits[target] -= 1
            if waits[target] == 0 and position[target] < 0:
                ready.append(target)
    turned = {(s, t) if position[s] < position[t] else (t, s) for s, t in distinct}
    return sorted(turned, key=lambda pair: (position[pair[0]], position[pair[1]]))


def _affordable(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The edges, in topological order of their sources, without the longest of those that cross too many layers."""
    layer = _layers(pairs)
    total, kept = 0, set[tuple[int, int]]()
    for pair in sorted(pairs, key=lambda pair: layer[pair[1]] - layer[pair[0]]):
        total += layer[pair[1]] - layer[pair[0]]
        if total > CROSSINGS:
            break
        kept.add(pair)
    return [pair for pair in pairs if pair in kept]


def _layers(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """For each node, the edges of the longest way to it; edges come in topological order of their sources."""
    layer: dict[int, int] = {}
    for source, target in pairs:
        layer[target] = max(layer.get(target, 0), layer.setdefault(source, 0) + 1)
    return layer


@dataclass
class _Component:
    """What hangs together: centres of nodes by number, points between the ends of an edge, and its size."""

    centres: dict[int, Point]
    routes: dict[tuple[int, int], list[Point]]
    width: float
    height: float


def _layered(pairs: list[tuple[int, int]]) -> list[_Component]:
    """The components that have edges, each with its left upper corner at (0, 0)."""
    if not pairs:
        return []
    check_installed()
    from fast_sugiyama import from_edges

    # It numbers the points that edges pass from the number of nodes on, so nodes are numbered from 0 without gaps.
    nodes = sorted({number for pair in pairs for number in pair})
    dense = {number: k for k, number in enumerate(nodes)}
    edges = [(dense[source], dense[target]) for source, target in pairs]
    layers = _layers(edges)
    wide = len(nodes) > WIDE * (max(layers.values()) + 1)
    found = from_edges(
        edges,
        vertex_spacing=_COLUMN,
        dummy_vertices=True,
        dummy_size=_EDGE_SHARE,
        ranking_type="down" if wide else "minimize",
        transpose=not wide,
        check_layout=False,
    )
    answer = cast("list[tuple[list[tuple[int, Point]], float, float, list[tuple[int, int]]]]", found)
    return [
        _component(*_flowing(dict(positions), steps, edges, layers), nodes)
        for positions, _, _, steps in answer
    ]


def _flowing(
    positions: dict[int, Point],
    steps: list[tuple[int, int]],
    edges: list[tuple[int, int]],
    layers: dict[int, int],
) -> tuple[dict[int, Point], list[tuple[int, int]]]:
    """The positions and steps of edges that fast-sugiyama found, or others where its steps do not all go one way.

    fast-sugiyama 0.5.3 puts a node into a wrong layer in about four of a thousand random graphs. There, nodes keep
    their place from left to right and go to their `layers`, and `edges` become straight.
    """
    heights = [positions[target][1] - positions[source][1] for source, target in steps]
    if min(heights) > 0 or max(heights) < 0:
        return positions, steps
    nodes = {number: (x, float(layers[number])) for number, (x, _) in positions.items() if number in layers}
    return nodes, [edge for edge in edges if edge[0] in nodes]


def _component(positions: dict[int, Point], steps: list[tuple[int, int]], nodes: Sequence[int]) -> _Component:
    """One component in rows of this picture, without overlaps.

    `positions` has those of nodes, whose numbers are `nodes`, and from their count on those of points between the ends
    of edges; `steps` lead from one to the next, all up or all down.
    """
    count = len(nodes)
    following: dict[int, list[int]] = {}
    for source, target in steps:
        following.setdefault(source, []).append(target)
    sign = 1 if all(positions[source][1] < positions[target][1] for source, target in steps) else -1
    rows = {y: row for row, y in enumerate(sorted({sign * y for _, y in positions.values()}))}
    row = {number: rows[sign * y] for number, (_, y) in positions.items()}
    last = len(rows) - 1
    positions = _apart(positions, row, count)
    arriving: list[list[float]] = [[] for _ in rows]
    for targets in following.values():
        for target in targets:
            arriving[row[target]].append(positions[target][0])
    shifts = _shifts(arriving)
    left = min(x + shifts[row[number]] for number, (x, _) in positions.items())

    def point(number: int) -> Point:
        x = positions[number][0] + shifts[row[number]] - left
        return x + NODE_WIDTH / 2, row[number] * _ROW + NODE_HEIGHT / 2

    routes: dict[tuple[int, int], list[Point]] = {}
    for source in following:
        if source < count:
            for step in following[source]:
                between: list[Point] = []
                while step >= count:
                    between.append(point(step))
                    (step,) = following[step]
                routes[nodes[source], nodes[step]] = between
    centres = {nodes[number]: point(number) for number in positions if number < count}
    width = max(x for x, _ in map(point, positions)) + NODE_WIDTH / 2
    return _Component(centres, routes, width, last * _ROW + NODE_HEIGHT)


def _apart(positions: dict[int, Point], row: dict[int, int], count: int) -> dict[int, Point]:
    """The positions, of which numbers below `count` are nodes, others points of edges, with none upon its neighbour.

    fast-sugiyama 0.5.3 puts two nodes upon each other in about one of a thousand random graphs. Each row keeps its
    order from left to right; what stands too near to its left neighbour goes to the right.
    """
    apart: dict[int, Point] = {}
    before: dict[int, tuple[float, float]] = {}
    for number in sorted(positions, key=lambda number: (positions[number][0], number)):
        x, y = positions[number]
        width = _COLUMN if number < count else _EDGE_SHARE * _COLUMN
        if row[number] in before:
            neighbour, its_width = before[row[number]]
            distance = (its_width + width) / 2
            # Rounding is no reason to move: a straight edge stays straight.
            x = x if x > neighbour + distance - 1 else neighbour + distance
        before[row[number]] = x, width
        apart[number] = x, y
    return apart


def _shifts(arriving: Sequence[Sequence[float]]) -> list[float]:
    """How far each row goes sideways, so that a long graph does not drift off with every block of it.

    `arriving` has, per row, the x of the ends of edges from the row above. Where one edge leads on, or a few from afar,
    all that follows may go sideways, and comes back below the first such place.
    """
    shifts, shift = list[float](), 0.0
    start: float | None = None
    for ends in arriving:
        if 0 < len(ends) <= 4:
            x = sum(ends) / len(ends)
            start = x if start is None else start
            drift = x + shift - start
            if abs(drift) > _COLUMN * (1.2 if len(ends) == 1 else 4):
                shift -= drift
        shifts.append(shift)
    return shifts


def _single(count: int, pairs: Sequence[tuple[int, int]]) -> list[_Component]:
    """A component for each node that has no edges."""
    tied = {number for pair in pairs for number in pair}
    centre = (NODE_WIDTH / 2, NODE_HEIGHT / 2)
    return [_Component({n: centre}, {}, NODE_WIDTH, NODE_HEIGHT) for n in range(count) if n not in tied]


def _packed(
    components: list[_Component],
) -> tuple[dict[int, Point], dict[tuple[int, int], list[Point]], float, float]:
    """Components side by side, the tallest first; low ones share a column. Also the size of all."""
    centres: dict[int, Point] = {}
    routes: dict[tuple[int, int], list[Point]] = {}
    components = sorted(components, key=lambda part: (-part.height, min(part.centres)))
    tallest = components[0].height if components else 0.0
    x, y, column = _MARGIN, _MARGIN, 0.0
    for part in components:
        if y > _MARGIN and y + part.height > _MARGIN + tallest:
            x, y, column = x + column + _COLUMN - NODE_WIDTH, _MARGIN, 0.0
        for number, (px, py) in part.centres.items():
            centres[number] = (px + x, py + y)
        for pair, points in part.routes.items():
            routes[pair] = [(px + x, py + y) for px, py in points]
        column = max(column, part.width)
        y += part.height + _ROW - NODE_HEIGHT
    return centres, routes, x + column + _MARGIN, tallest + 2 * _MARGIN


def _paths(
    ends: Sequence[tuple[int, int]],
    centres: Sequence[Point],
    routes: dict[tuple[int, int], list[Point]],
) -> tuple[tuple[Point, ...], ...]:
    """The points of each edge: out of its source, around nodes, into its target, where edges enter side by side."""
    inner: list[list[Point]] = []
    upwards: list[bool] = []
    for source, target in ends:
        up = (source, target) not in routes and centres[source][1] > centres[target][1]
        route = routes.get((target, source) if up else (source, target), [])
        inner.append(list(reversed(route)) if up else list(route))
        upwards.append(up)
    ports: dict[tuple[int, bool], list[tuple[float, int]]] = {}
    for number, (source, target) in enumerate(ends):
        points = (centres[source], *inner[number], centres[target])
        for node, leaves, beside in ((source, True, points[1]), (target, False, points[-2])):
            lower = leaves != upwards[number]
            ports.setdefault((node, lower), []).append((beside[0], number if leaves else ~number))
    at: dict[int, Point] = {}
    for (node, lower), found in ports.items():
        found.sort()
        step = min(22.0, NODE_WIDTH * 0.7 / len(found))
        x, y = centres[node]
        for k, (_, number) in enumerate(found):
            offset = (k - (len(found) - 1) / 2) * step
            at[number] = (x + offset, y + (NODE_HEIGHT / 2 if lower else -NODE_HEIGHT / 2))
    paths: list[tuple[Point, ...]] = []
    for number, (source, target) in enumerate(ends):
        if source == target:
            x, y = centres[source]
            side = x + NODE_WIDTH / 2
            paths.append(((side, y - 8), (side + 14, y), (side, y + 8)))
        else:
            paths.append((at[number], *_corners(inner[number]), at[~number]))
    return tuple(paths)


def _corners(points: Sequence[Point]) -> list[Point]:
    """The points without those in the middle of a vertical line."""
    return [
        point
        for k, point in enumerate(points)
        if k in (0, len(points) - 1) or not (points[k - 1][0] == point[0] == points[k + 1][0])
    ]
