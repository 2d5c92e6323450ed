"""Nodes of three kinds: never impossible where an integer program finds a choice, never worse than a beam of 64."""

from __future__ import annotations

import ast
import random
import runpy
from pathlib import Path

import pytest

from examples.three_kinds import Alike, AnyIn, Fixed, stated
from layout_ir.selection import Infeasible
from tests.examples.beam import Comparison, Graph, beam, compare, drawn_graph, random_graph

SOURCE = Path(__file__).parents[2] / "examples" / "three_kinds.py"


def test_the_propagation_takes_forty_lines():
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    propagation = [
        node for node in tree.body if isinstance(node, ast.ClassDef) or getattr(node, "name", "") == "stated"
    ]
    assert len(propagation) == 5
    assert sum((node.end_lineno or 0) - node.lineno + 1 for node in propagation) <= 40


def test_choices_are_proven_and_never_worse_than_those_of_a_beam():
    """Of the first graphs; docs/selection.md shows what `beam.py` finds for 500 of them, and is run."""
    found = [compare(drawn_graph(0, number)) for number in range(25)]
    for one in found:
        one.check()
    possible = [one for one in found if one.optimum is not None]
    equal = sum(one.optimum == one.beam for one in possible)
    assert 5 < equal < len(possible) - 5, "a beam is either always or never enough"
    assert len(possible) < len(found), "no graph was impossible"


@pytest.mark.parametrize(
    ("optimum", "proven", "beam", "greedy"),
    [(5, False, 5, 5), (5, True, 4, None), (5, True, None, 4), (None, True, 7, None)],
)
def test_negative_an_optimum_that_is_none_is_seen(
    optimum: int | None, proven: bool, beam: int | None, greedy: int | None
):
    Comparison(6, 5, True, 5, None).check()
    Comparison(6, None, True, None, None).check()
    with pytest.raises(AssertionError):
        Comparison(6, optimum, proven, beam, greedy).check()


def test_small_graphs_have_the_optimum_of_an_integer_program_or_none():
    rng = random.Random(1)
    impossible = 0
    for _ in range(150):
        graph = random_graph(rng, rng.randint(3, 14))
        found, best = compare(graph), graph.least_cost()
        assert found.optimum == best
        impossible += best is None
    assert 5 < impossible < 100


def test_a_beam_that_keeps_everything_finds_the_optimum():
    """So the beam prices choices as the solver does: what it loses, it loses by forgetting."""
    rng = random.Random(2)
    for _ in range(40):
        graph = random_graph(rng, rng.randint(3, 9))
        assert beam(graph, 1 << 30) == compare(graph).optimum


def test_negative_a_graph_of_which_the_beam_forgets_the_only_choice():
    """Eight free inputs of six formats each: that all of them must be in the last one is said by the last node."""
    formats = "abcdef"
    graph = Graph(formats)
    for k in range(8):
        graph.nodes.append(Alike(f"input {k}", [], [f"x{k}"], list(formats)))
    graph.nodes.append(Fixed("store", [f"x{k}" for k in range(8)], [], ["f"] * 8))
    graph.costs = {(f"x{k}", f, g): None for k in range(8) for f in formats for g in formats}
    found = compare(graph)
    assert found.beam is None and found.optimum == 0 == graph.least_cost()


def test_what_each_kind_asks_for():
    graph = Graph("ab")
    graph.costs = {(v, f, g): 1 for v in "xyz" for f in "ab" for g in "ab"}
    graph.nodes += [
        Fixed("input", [], ["x"], ["a"]),
        Alike("add", ["x", "x"], ["y"], ["a", "b"]),
        AnyIn("gather", ["y"], ["z"], ["a"]),
    ]
    assert graph.problem().solve().cost == 0
    graph.nodes.append(Fixed("store", ["z"], [], ["b"]))
    assert graph.problem().solve().cost == 1


def test_negative_inputs_that_meet_nowhere_are_named():
    nodes = [
        Fixed("p", [], ["x"], ["a"]),
        Fixed("q", [], ["y"], ["b"]),
        Alike("add", ["x", "y"], ["z"], ["a", "b"]),
    ]
    with pytest.raises(Infeasible, match=r"op 'p' makes value 'x' in 'a'.*op 'q' makes value 'y' in 'b'"):
        stated(
            nodes, Graph("ab", costs={(v, f, g): None for v in "xyz" for f in "ab" for g in "ab"}).cost
        ).solve()


def test_the_example_runs_and_says_why_a_reorder_remains(capsys: pytest.CaptureFixture[str]):
    runpy.run_path(str(SOURCE), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.startswith("cost 64, proven: True\n")
    assert "op 'load k' makes it in the one, op 'q @ k' takes it in the other" in printed
