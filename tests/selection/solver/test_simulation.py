"""The maps that are found take every choice to a choice, and values that are alike have one map."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from layout_ir.selection.solver import simulation
from layout_ir.selection.solver.format_maps import without_mapped_formats
from layout_ir.selection.solver.selection_problem import Choice, Matrix, OpNode, Problem, ValueNode
from layout_ir.selection.solver.simulation import Simulation
from layout_ir.selection.solver.solve import solve_exact
from tests.seeds import seeds


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


# The relation itself --------------------------------------------------------------------------------------------


def _tied(random: Random) -> Problem:
    """Values of four formats tied by ops with a choice per format, in any order, some against each other; and ops that
    have some choices of any formats."""
    formats, values = range(4), 5
    made = tuple(Choice((), (f,), random.choice((0, 0, 1))) for f in formats)
    ops = [OpNode((), (v,), made if random.random() < 0.7 else made[:2]) for v in range(values)]
    for _ in range(random.randint(2, 5)):
        around = [random.randrange(values) for _ in range(random.randint(1, 3))]
        columns = [random.sample(formats, 4) if random.random() < 0.5 else [*formats] for _ in around]
        choices = [Choice(own, (), random.choice((0, 0, 0, 2))) for own in zip(*columns, strict=True)]
        ops.append(OpNode(tuple(around), (), tuple(choices)))
    for _ in range(2):
        around = tuple(random.sample(range(values), 2))
        drawn = {(random.randrange(4), random.randrange(4)) for _ in range(random.randint(2, 6))}
        ops.append(OpNode(around, (), tuple(Choice(own, (), random.randrange(2)) for own in sorted(drawn))))
    matrix = random.choice([_uniform(4), tuple(tuple(abs(f - g) for g in formats) for f in formats)])
    return Problem(tuple(ops), (ValueNode(matrix),) * values)


def _brute_force(problem: Problem) -> list[set[tuple[int, int]]]:
    """Per value the largest relation that no op and no reorder stands against, by crossing out pair after pair."""
    used: list[set[int]] = [set() for _ in problem.values]
    rows = [
        [((*op.operands, *op.results), (*c.ins, *c.outs), c.cost) for c in op.choices] for op in problem.ops
    ]
    for values, formats, _ in (row for own in rows for row in own):
        for v, f in zip(values, formats, strict=True):
            used[v].add(f)
    relation = [set(product(own, own)) for own in used]

    def stand(values: tuple[int, ...], taken: tuple[int, ...], others: tuple[int, ...]) -> bool:
        return all((f, g) in relation[v] for v, f, g in zip(values, taken, others, strict=True))

    def holds(v: int, f: int, g: int) -> bool:
        costs = problem.values[v].reorder
        for h in used[v]:
            near = [k for k in used[v] if (h, k) in relation[v]]
            if not any(costs[g][k] <= costs[f][h] for k in near):
                return False
            if not any(costs[k][g] <= costs[h][f] for k in near):
                return False
        for own in rows:
            for values, taken, limit in own:
                for k in (k for k, at in enumerate(zip(values, taken, strict=True)) if at == (v, f)):
                    serving = [row for row in own if row[2] <= limit and row[1][k] == g]
                    if not any(stand(values, taken, others) for _, others, _ in serving):
                        return False
        return True

    changed = True
    while changed:
        changed = False
        for v, pairs in enumerate(relation):
            for pair in sorted(pairs):
                if not holds(v, *pair):
                    pairs.discard(pair)
                    changed = True
    return relation


@pytest.mark.parametrize("seed", seeds(12, 500))
def test_the_relation_is_the_largest_that_nothing_stands_against(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(simulation, "STEPS", 8)  # each value is of a class of its own, unless all is alike
    problem = _tied(Random(seed))
    found = Simulation(problem)
    wanted = _brute_force(problem)
    for v, number in enumerate(found.classes):
        pairs = found.relation(number)
        assert {(f, g) for f, g in product(range(4), range(4)) if pairs[f, g]} == wanted[v], v
