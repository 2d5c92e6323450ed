"""Elimination, by whatever plan, adds up to the optimum that brute force finds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence

import pytest

from layout_ir.certificate.checking import verify
from layout_ir.selection.solver import demand_sets, small_tables
from layout_ir.selection.solver import elimination as elimination_module
from layout_ir.selection.solver.certificate import certify
from layout_ir.selection.solver.cost_functions import CostFunctions, Table
from layout_ir.selection.solver.elimination import Elimination, prepare
from layout_ir.selection.solver.elimination_order import find_elimination_order
from layout_ir.selection.solver.selection_problem import (
    Choice,
    OpNode,
    Problem,
    ValueNode,
    evaluate,
    tree_cost,
)
from layout_ir.selection.solver.small_tables import MOST_ENTRIES
from tests.seeds import seeds
from tests.selection.problems import (
    brute_force,
    cyclic_problem,
    dense_problem,
    hub_problem,
    random_problem,
)


def _solve(problem: Problem, direct: int, *, tails: bool = True) -> tuple[int, int]:
    """The total that elimination promises, and what its choice costs."""
    functions = CostFunctions(problem, direct, tails=tails)
    elimination = Elimination(
        functions, find_elimination_order(functions.domains, [f.scope for f in functions.functions], 1 << 30)
    )
    assert elimination.run()
    return elimination.total, evaluate(problem, elimination.backward({})[: len(problem.ops)])


@pytest.mark.parametrize("direct", [1, 30, 1 << 20])
def test_total_is_the_optimum_with_and_without_variables_for_values(direct: int):
    rng = random.Random(direct)
    for _ in range(200):
        problem = random_problem(rng, rng.randint(1, 5), rng.randint(2, 6))
        assert _solve(problem, direct) == (brute_force(problem),) * 2


def _repeated(problem: Problem, times: int) -> Problem:
    """The problem several times over, side by side."""
    ops = [
        OpNode(
            tuple(v + k * len(problem.values) for v in op.operands),
            tuple(v + k * len(problem.values) for v in op.results),
            op.choices,
            op.weight,
        )
        for k in range(times)
        for op in problem.ops
    ]
    return Problem(tuple(ops), problem.values * times)


@pytest.mark.parametrize("most", [0, 20, MOST_ENTRIES])
@pytest.mark.parametrize("segment", [1, 1 << 20])
def test_what_repeats_is_computed_once(segment: int, most: int, monkeypatch: pytest.MonkeyPatch):
    entries: list[int] = []
    least = elimination_module._least  # pyright: ignore[reportPrivateUsage]

    def counted(table: Table):
        entries.append(table.size)
        return least(table)

    def counted_entries(table: Sequence[int], states: int):
        entries.append(len(table))
        return small_tables.least(table, states)

    monkeypatch.setattr(elimination_module, "_least", counted)
    monkeypatch.setattr(elimination_module, "least", counted_entries)
    monkeypatch.setattr(elimination_module, "MOST_ENTRIES", most)
    monkeypatch.setattr(elimination_module, "SEGMENT", segment)
    rng = random.Random(11)
    for _ in range(50):
        problem = random_problem(rng, rng.randint(2, 5), rng.randint(2, 5))
        entries.clear()
        once = _solve(problem, 1 << 20)
        size = sum(entries)
        entries.clear()
        assert _solve(_repeated(problem, 5), 1 << 20) == (5 * once[0], 5 * once[1])
        # With little room, only those that come together are known to be alike.
        assert sum(entries) == size if segment > 1 else size <= sum(entries) <= 5 * size


@pytest.mark.parametrize("room", [0, 1 << 20])
def test_tables_of_the_same_cost_functions_are_filled_once(room: int, monkeypatch: pytest.MonkeyPatch):
    filled: list[tuple[object, ...]] = []
    tables = CostFunctions.tables

    def counted(functions: CostFunctions, numbers: Sequence[int]) -> Table:
        if functions.functions[numbers[0]].scope:
            signature = functions.functions[numbers[0]].signature
            filled.append((signature, *map(functions.content, numbers)))
        return tables(functions, numbers)

    monkeypatch.setattr(CostFunctions, "tables", counted)
    monkeypatch.setattr(elimination_module, "CHUNK", room)
    monkeypatch.setattr(elimination_module, "MOST_ENTRIES", 0)
    rng = random.Random(13)
    again = 0
    for _ in range(50):
        # Each in a bucket of its own.
        problem = _repeated(random_problem(rng, 3, 4), 2)
        filled.clear()
        monkeypatch.setattr(elimination_module, "SEGMENT", 1)
        assert _solve(problem, 1 << 20) == (brute_force(problem),) * 2
        again += len(filled) - len(set(filled))
    assert (again > 0) == (room == 0)


def test_negative_what_differs_in_a_cost_is_not_taken_for_the_same():
    rng = random.Random(12)
    for _ in range(100):
        problem = random_problem(rng, 2, 3)
        double = _repeated(problem, 2)
        number = rng.randrange(len(double.ops))
        changed = [Choice(c.ins, c.outs, rng.randint(0, 15)) for c in double.ops[number].choices]
        ops = [*double.ops]
        ops[number] = OpNode(ops[number].operands, ops[number].results, tuple(changed), ops[number].weight)
        other = Problem(tuple(ops), double.values)
        assert _solve(other, 1 << 20) == (brute_force(other),) * 2


def test_small_tables_as_lists_lead_to_the_same_messages_and_the_same_choice(monkeypatch: pytest.MonkeyPatch):
    rng = random.Random(10)
    problems = [random_problem(rng, rng.randint(1, 5), rng.randint(2, 6)) for _ in range(60)]
    problems += [cyclic_problem(rng, rng.randint(1, 5), rng.randint(2, 5)) for _ in range(40)]
    problems += [_repeated(hub_problem(rng, 4, 3), 3) for _ in range(10)]
    arrays: list[tuple[object, ...]] = []
    for most in (0, 20, MOST_ENTRIES):
        monkeypatch.setattr(elimination_module, "MOST_ENTRIES", most)
        found: list[tuple[object, ...]] = []
        for problem in problems:
            elimination = Elimination(*prepare(problem, 1 << 20), record=True)
            assert elimination.run()
            messages = {number: table.tolist() for number, table in elimination.messages.items()}
            found.append((elimination.total, elimination.backward({}), messages))
        arrays = arrays or found
        assert found == arrays


def test_tables_too_large_for_the_cache_lead_to_the_same_choice(monkeypatch: pytest.MonkeyPatch):
    rng = random.Random(9)
    problems = [random_problem(rng, rng.randint(1, 5), rng.randint(2, 6)) for _ in range(100)]

    def choices() -> list[tuple[int, list[int]]]:
        found: list[tuple[int, list[int]]] = []
        for problem in problems:
            elimination = Elimination(*prepare(problem, 1 << 20))
            assert elimination.run()
            found.append((elimination.total, elimination.backward({})))
        return found

    whole = choices()
    monkeypatch.setattr(elimination_module, "IN_CACHE", 0)
    monkeypatch.setattr(elimination_module, "MOST_ENTRIES", 0)
    assert choices() == whole
    assert [total for total, _ in whole] == [brute_force(problem) for problem in problems]


@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("tails", [False, True])
def test_sets_of_shared_users_are_worth_what_brute_force_finds(tails: bool, seed: int):
    rng = random.Random(8 + seed)
    tied = 0
    for _ in range(10):
        problem = dense_problem(rng, 4, 3)
        tied += any(sets.tail is not None for sets in CostFunctions(problem, 1).demand_sets.values())
        assert _solve(problem, 1, tails=tails) == (brute_force(problem),) * 2
    assert tied > 7, "no value shares its users with another: nothing is tested"


def test_sets_of_values_in_cycles():
    rng = random.Random(9)
    for _ in range(60):
        problem = cyclic_problem(rng, 5, 3)
        assert _solve(problem, 1) == (brute_force(problem),) * 2


def test_dense_blocks_take_work_that_grows_with_their_layers_and_not_as_a_power():
    """Direct tables over the users of one value would have 5 ** layers entries."""
    work: list[int] = []
    for layers in (12, 24, 48):
        functions, order = prepare(dense_problem(random.Random(layers), layers, 5), 1 << 23)
        assert not order.core_variables and functions.demand_sets
        work.append(order.work)
    assert work[2] - work[1] < 2.5 * (work[1] - work[0])


def _residual(blocks: int) -> Problem:
    rng = random.Random(0)
    parts = [random_problem(rng, 6, 3) for _ in range(8)]
    nodes, values = list(parts[0].ops), list(parts[0].values)
    for k in range(blocks):
        part = parts[k % 8]
        shift = len(values)
        # The source of each part takes what the part before it gives.
        joined = OpNode(
            (shift - 1,), (shift,), tuple(Choice((0,), c.outs, c.cost) for c in part.ops[0].choices)
        )
        rest = [
            OpNode(
                tuple(v + shift for v in op.operands),
                tuple(v + shift for v in op.results),
                op.choices,
                op.weight,
            )
            for op in part.ops[1:]
        ]
        nodes += [joined, *rest]
        values += part.values
    return Problem(tuple(nodes), tuple(values))


def _hub(uses: int) -> Problem:
    return hub_problem(random.Random(1), uses, 4)


@pytest.mark.parametrize("make", [_residual, _hub])
def test_factors_and_work_grow_with_the_problem(make: Callable[[int], Problem]):
    sizes: list[tuple[int, int, int]] = []
    for n in (200, 800):
        functions, order = prepare(make(n), 1 << 23)
        held = sum(len(f.scope) + len(f.signature) for f in functions.functions)
        sizes.append((held, order.work, len(order.buckets) + len(order.slots)))
    for few, many in zip(*sizes, strict=True):
        assert many <= 4.2 * few


def test_hub_of_many_uses_adds_up_far_more_than_fits_a_message():
    problem = hub_problem(random.Random(2), 2000, 3)
    total, cost = _solve(problem, 1 << 12)
    assert total == cost
    # The optimum makes some set of formats and lets every use take the cheapest of them.
    (value,) = problem.values
    make, *users = problem.ops
    best = min(
        made.cost
        + sum(min(c.cost for c in user.choices if c.ins[0] in needed) for user in users)
        + value.weight * _tree(value.reorder, made.outs[0], needed)
        for made in make.choices
        for needed in ({0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2})
    )
    assert cost == best


def _tree(reorder: tuple[tuple[int, ...], ...], root: int, needed: set[int]) -> int:

    return tree_cost(reorder, root, needed)


def test_plan_keeps_every_table_below_the_limit_and_leaves_the_rest():
    problem = random_problem(random.Random(3), 40, 4)
    for limit in (1, 16, 256, 1 << 20):
        functions, order = prepare(problem, limit)
        assert all(bucket.entries <= limit for bucket in order.buckets)
        gone = {bucket.variable for bucket in order.buckets}
        variables = {v for v, size in enumerate(functions.domains) if size > 1}
        assert gone | set(order.core_variables) == variables
        assert not gone & set(order.core_variables)
    assert not prepare(problem, 1 << 20)[1].core_variables


@pytest.mark.parametrize("limit", [1, 3, 6])
def test_sets_that_are_not_told_apart_bound_and_are_refined(limit: int, monkeypatch: pytest.MonkeyPatch):
    """The first run bounds; where the choice needs larger sets, those are told apart until it is proven."""
    for name in ("SETS", "ALONE"):
        monkeypatch.setattr(demand_sets, name, limit)
    rng = random.Random(limit)
    bounded = refined = 0
    for _ in range(120):
        problem = hub_problem(rng, rng.randint(2, 5), 4)
        if rng.random() < 0.5:
            problem = random_problem(rng, rng.randint(2, 5), 4)
        optimum = brute_force(problem)
        functions = CostFunctions(problem, 1)
        order = find_elimination_order(functions.domains, [f.scope for f in functions.functions], 1 << 30)
        elimination = Elimination(functions, order)
        assert elimination.run() and elimination.total <= optimum
        bounded += elimination.total < optimum
        with monkeypatch.context() as patch:
            patch.setattr("layout_ir.selection.solver.elimination.DIRECT", 1)
            patch.setattr("layout_ir.selection.solver.elimination.WIDE", 1)
            solution, certificate = certify(problem)
        assert solution.cost == optimum == solution.bound
        assert verify(json.loads(json.dumps(certificate))).is_optimal
        refined += any(len(entry) > 3 for entry in certificate["sets"])
    assert refined > 10, "no set is cut short: nothing is tested"
    assert bounded > 0 or limit > 1


def test_negative_sets_that_cannot_be_refined_leave_a_gap(monkeypatch: pytest.MonkeyPatch):
    """Every use wants a format of its own, all are far from each other, and only pairs are told apart."""
    for name in ("SETS", "ALONE"):
        monkeypatch.setattr(demand_sets, name, 3)
    monkeypatch.setattr("layout_ir.selection.solver.solve.MOST_SETS", 3)
    for name in ("DIRECT", "WIDE"):
        monkeypatch.setattr(f"layout_ir.selection.solver.elimination.{name}", 1)
    formats = 5
    reorder = tuple(tuple(10 * (f != g) for g in range(formats)) for f in range(formats))
    make = OpNode((), (0,), tuple(Choice((), (f,), 0) for f in range(2)))
    uses = [OpNode((0,), (), (Choice((f,), (), 0), Choice((f,), (), 1))) for f in range(formats)]
    problem = Problem((make, *uses), (ValueNode(reorder),))
    solution, certificate = certify(problem)
    assert solution.cost == 40 and solution.bound is not None and solution.bound < 40
    verdict = verify(certificate)
    assert not verdict.is_optimal and verdict.bound == solution.bound
