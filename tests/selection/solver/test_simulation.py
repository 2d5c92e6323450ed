"""The maps that are found take every choice to a choice, and values that are alike have one map."""

from __future__ import annotations

from itertools import product

import pytest

from layout_ir.selection.solver import simulation
from layout_ir.selection.solver.format_maps import without_mapped_formats
from layout_ir.selection.solver.selection_problem import Choice, Matrix, OpNode, Problem, ValueNode
from layout_ir.selection.solver.simulation import Simulation
from layout_ir.selection.solver.solve import solve_exact


def _uniform(formats: int) -> Matrix:
    return tuple(tuple(5 * (f != g) for g in range(formats)) for f in range(formats))


def _layers(count: int, formats: int = 4) -> Problem:
    """Layers of two ops that agree, beside a value that all of them use; each result is wanted in format 1."""
    agree = tuple(Choice((f, f), (f,), int(f > 0)) for f in range(formats))
    wanted = (Choice((1,), (), 0),)
    made = (Choice((), (0,), 0),)
    ops = [OpNode((), (0,), made), OpNode((), (1,), made)]
    for number in range(count):
        ops.append(OpNode((number + 1, 0), (number + 2,), agree))
        ops.append(OpNode((number + 2,), (), wanted))
    return Problem(tuple(ops), (ValueNode(_uniform(formats)),) * (count + 2))


def test_maps_take_each_choice_to_one_that_costs_no_more():
    problem = _layers(3)
    found = Simulation(problem)
    maps = found.maps()
    moved = 0
    for op in problem.ops:
        costs = {(*c.ins, *c.outs): c.cost for c in op.choices}
        own = [maps[found.classes[v]] for v in (*op.operands, *op.results)]
        for formats, cost in costs.items():
            image = tuple(phi[f] for phi, f in zip(own, formats, strict=True))
            moved += image != formats
            assert costs[image] <= cost
    assert moved


def test_a_map_is_left_as_it_is_by_itself():
    for phi in Simulation(_layers(3)).maps():
        assert all(phi[g] == g for g in phi)


def test_layers_in_the_middle_are_of_one_class_however_many_there_are():
    counts = [len(set(Simulation(_layers(count)).classes)) for count in (12, 40)]
    assert counts[0] == counts[1]


def test_negative_formats_that_cost_different_reorders_do_not_stand_for_each_other():
    """Formats 0 and 1 are near each other, 2 is far: only what keeps them apart from it is a map."""
    near = tuple(tuple((0, 1, 6)[(f != g) + (f != g and 2 in (f, g))] for g in range(3)) for f in range(3))
    agree = tuple(Choice((f,), (f,), 0) for f in range(3))
    ops = (OpNode((), (0,), tuple(Choice((), (f,), 0) for f in range(3))), OpNode((0,), (1,), agree))
    ops += (OpNode((1,), (), (Choice((0,), (), 0),)),)
    found = Simulation(Problem(ops, (ValueNode(near),) * 2))
    for value, phi in ((v, found.maps()[found.classes[v]]) for v in range(2)):
        assert all(near[phi[f]][phi[g]] <= near[f][g] for f, g in product(range(3), repeat=2)), value


@pytest.mark.parametrize("limit", ["MOST_PAIRS", "MOST_CLASSES"])
def test_negative_of_too_many_pairs_or_classes_nothing_is_asked(limit: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(simulation, limit, 2)
    assert not Simulation(_layers(2)).is_small


def test_maps_that_are_not_looked_for_to_the_end_hold_all_the_same():
    problem = _layers(3)
    reduced = without_mapped_formats(problem, deadline=0.0)
    assert reduced is None or solve_exact(reduced.problem).cost == solve_exact(problem).cost
