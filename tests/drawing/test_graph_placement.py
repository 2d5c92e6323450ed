"""Where nodes and edges of a graph are drawn: laws that hold for every graph."""

from __future__ import annotations

import sys
from itertools import combinations, pairwise
from random import Random
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layout_ir.drawing import graph_placement
from layout_ir.drawing.drawn_graph import DrawnEdge, DrawnGraph, DrawnNode
from layout_ir.drawing.graph_placement import NODE_HEIGHT, NODE_WIDTH, Placement, place
from layout_ir.errors import LayoutError
from tests.drawing.graphs import SMALL, network

fast_sugiyama = pytest.importorskip("fast_sugiyama", reason="needs the extra 'draw'")


def graph(count: int, edges: list[tuple[int, int]]) -> DrawnGraph:
    nodes = tuple(DrawnNode(str(number), "op") for number in range(count))
    return DrawnGraph(nodes, tuple(DrawnEdge(str(source), str(target)) for source, target in edges))


@st.composite
def graphs(draw: st.DrawFn) -> DrawnGraph:
    """Any graph: with loops, cycles, edges that stand twice, parts that do not hang together."""
    count = draw(st.integers(1, 25))
    end = st.integers(0, count - 1)
    return graph(count, draw(st.lists(st.tuples(end, end), max_size=50)))


def check(drawn: DrawnGraph, placed: Placement) -> None:
    """Nodes do not touch, everything is inside, and edges lead from border to border."""
    assert len(placed.nodes) == len(drawn.nodes) and len(placed.edges) == len(drawn.edges)
    for (x, y), (u, v) in combinations(placed.nodes, 2):
        assert abs(x - u) > NODE_WIDTH or abs(y - v) > NODE_HEIGHT
    for x, y in (*placed.nodes, *(point for edge in placed.edges for point in edge)):
        assert 0 <= x <= placed.width and 0 <= y <= placed.height
    for (source, target), points in zip(drawn.ends, placed.edges, strict=True):
        for node, (x, y) in ((source, points[0]), (target, points[-1])):
            centre_x, centre_y = placed.nodes[node]
            across, along = abs(x - centre_x), abs(y - centre_y)
            assert (across <= NODE_WIDTH / 2 and along == NODE_HEIGHT / 2) or source == target


@settings(max_examples=200)
@given(graphs())
def test_nodes_do_not_touch_and_edges_end_at_their_nodes(drawn: DrawnGraph):
    check(drawn, place(drawn))


@settings(max_examples=100)
@given(graphs())
def test_without_cycles_every_value_flows_downwards(drawn: DrawnGraph):
    pairs = [(source, target) for source, target in drawn.ends if source < target]
    placed = place(graph(len(drawn.nodes), pairs))
    for (source, target), points in zip(pairs, placed.edges, strict=True):
        assert placed.nodes[source][1] < placed.nodes[target][1]
        heights = [y for _, y in points]
        assert heights == sorted(heights)


@settings(max_examples=100)
@given(graphs())
def test_edges_go_around_nodes(drawn: DrawnGraph):
    pairs = [(source, target) for source, target in drawn.ends if source < target]
    placed = place(graph(len(drawn.nodes), pairs))
    for points in placed.edges:
        inner = points[1:-1]
        # Each point, and the vertical lines between two.
        pieces = [*zip(inner, inner, strict=True), *((p, q) for p, q in pairwise(inner) if p[0] == q[0])]
        for (x, top), (_, bottom) in pieces:
            for centre_x, centre_y in placed.nodes:
                beside = abs(x - centre_x) > NODE_WIDTH / 2
                assert beside or centre_y + NODE_HEIGHT / 2 < top or centre_y - NODE_HEIGHT / 2 > bottom


def misplaced(monkeypatch: pytest.MonkeyPatch, positions: list[tuple[int, tuple[float, float]]]) -> Placement:
    """Two nodes above a third, where fast-sugiyama answers `positions`: what it finds in some graphs, now and then."""
    pairs = [(0, 2), (1, 2)]
    monkeypatch.setattr(fast_sugiyama, "from_edges", Mock(return_value=[(positions, 388.0, 100.0, pairs)]))
    drawn = graph(3, pairs)
    placed = place(drawn)
    check(drawn, placed)
    return placed


def test_nodes_that_overlap_are_moved_apart(monkeypatch: pytest.MonkeyPatch):
    placed = misplaced(monkeypatch, [(0, (0.0, 0.0)), (1, (97.12, 0.0)), (2, (97.0, 100.0))])
    assert placed.nodes[0][0] < placed.nodes[1][0]
    assert placed.nodes[0][1] == placed.nodes[1][1] < placed.nodes[2][1]


def test_nodes_in_a_wrong_layer_go_where_values_flow_downwards(monkeypatch: pytest.MonkeyPatch):
    for y in (0.0, 100.0):  # beside a source, or above it
        placed = misplaced(monkeypatch, [(0, (0.0, y)), (1, (388.0, 200.0)), (2, (194.0, 100.0))])
        assert placed.nodes[0][1] == placed.nodes[1][1] < placed.nodes[2][1]


def test_edges_of_a_node_do_not_meet_at_one_point():
    placed = place(graph(4, [(0, 3), (1, 3), (2, 3), (0, 1), (0, 1)]))
    assert len({points[-1] for points in placed.edges[:3]}) == 3
    assert placed.edges[3] != placed.edges[4]


def test_a_cycle_is_drawn_with_one_edge_upwards():
    placed = place(graph(3, [(0, 1), (1, 2), (2, 0)]))
    upwards = [points[0][1] > points[-1][1] for points in placed.edges]
    assert upwards == [False, False, True]


def test_nodes_need_not_come_in_the_order_of_values():
    placed = place(graph(3, [(2, 1), (1, 0)]))
    assert placed.nodes[2][1] < placed.nodes[1][1] < placed.nodes[0][1]


def test_a_graph_without_edges_and_one_without_nodes():
    check(graph(5, []), place(graph(5, [])))
    assert place(DrawnGraph(())).nodes == ()


def test_edges_beyond_what_is_affordable_are_drawn_all_the_same(monkeypatch: pytest.MonkeyPatch):
    drawn = graph(12, [*((k, k + 1) for k in range(11)), (0, 11), (1, 10)])
    whole = place(drawn)
    monkeypatch.setattr(graph_placement, "CROSSINGS", 11)
    placed = place(drawn)
    check(drawn, placed)
    # Without room for the long edges the chain stands in one column.
    assert len(placed.edges[-1]) == 2 < len(whole.edges[-1])
    assert len({x for x, _ in placed.nodes}) == 1


def test_what_crosses_too_many_layers_is_left_out_before_it_takes_long():
    # A value that all of 600 ops read crosses 180,000 layers.
    drawn = graph(600, [*((k, k + 1) for k in range(599)), *((0, k) for k in range(2, 600))])
    placed = place(drawn)
    assert all(placed.nodes[k][1] < placed.nodes[k + 1][1] for k in range(599))


def test_a_graph_of_wide_layers_is_drawn_too():
    random = Random(1)
    pairs = [tuple(sorted(random.sample(range(300), 2))) for _ in range(400)]
    drawn = graph(300, [(source, target) for source, target in pairs])
    placed = place(drawn)
    check(drawn, placed)
    assert all(placed.nodes[source][1] < placed.nodes[target][1] for source, target in drawn.ends)


def test_a_long_chain_of_blocks_does_not_drift_sideways():
    # Each block has a side chain on the same side: constants that are moved in front of it.
    pairs: list[tuple[int, int]] = []
    for block in range(60):
        spine, side = 4 * block, 4 * block + 1
        pairs += [(side, side + 1), (side + 1, spine + 3), (spine, spine + 3), (spine + 3, spine + 4)]
    drawn = graph(241, pairs)
    placed = place(drawn)
    check(drawn, placed)
    assert placed.width < 10 * NODE_WIDTH


def test_a_large_network_is_not_wide():
    placed = place(network(2000))
    assert placed.width < 12 * NODE_WIDTH


def test_negative_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "fast_sugiyama", None)
    with pytest.raises(
        LayoutError, match=r"drawing graphs needs the extra 'draw': pip install 'layout-ir\[draw\]'"
    ):
        place(SMALL)
