"""Formats that all users of a value take alike are asked for as one, and the least cost stays that which brute force
finds."""

from __future__ import annotations

import random
from dataclasses import replace

from layout_ir.selection.solver.alike_formats import with_alike_formats_as_one
from layout_ir.selection.solver.selection_problem import (
    FORBIDDEN,
    Choice,
    Matrix,
    OpNode,
    Problem,
    ValueNode,
    evaluate,
)
from layout_ir.selection.solver.solve import solve_exact
from tests.selection.problems import brute_force, cyclic_problem, random_matrix, random_problem

_NEAR: Matrix = ((0, 9, 1, 9), (9, 0, 9, 1), (1, 9, 0, 9), (9, 1, 9, 0))
"""Reorders between formats 0 and 2, and between 1 and 3, cost little."""

_TAKES = tuple(Choice((f,), (f // 2,), 1) for f in range(4))
"""Formats 0 and 1 give a part in format 0, 2 and 3 one in format 1."""


def _parts(
    takes: tuple[Choice, ...], made: tuple[int, ...], matrix: Matrix, wanted: tuple[int, ...]
) -> Problem:
    """A value that is made in one of `made`; users that each take a part of it, `wanted` of these in some format."""
    source = OpNode((), (0,), tuple(Choice((), (f,), f) for f in made))
    gathers = [OpNode((0,), (1 + k,), takes) for k in range(len(wanted))]
    users = [OpNode((1 + k,), (), (Choice((f,), (), 0),)) for k, f in enumerate(wanted)]
    part = ValueNode(((0, 7), (7, 0)))
    return Problem((source, *gathers, *users), (ValueNode(matrix), *[part] * len(wanted)))


def test_users_ask_for_classes_which_members_become_for_nothing():
    problem = _parts(_TAKES, (0,), _NEAR, (0, 1))
    classed = with_alike_formats_as_one(problem, limit=0)
    assert classed is not None and classed.classes == {0: (4, 4, 5, 5)}
    assert classed.problem.ops[1].choices == (Choice((4,), (0,), 1), Choice((5,), (1,), 1))
    reorder = classed.problem.values[0].reorder
    assert [row[4:] for row in reorder[:4]] == [(0, FORBIDDEN)] * 2 + [(FORBIDDEN, 0)] * 2
    # Nothing is reordered from a class.
    assert [row.count(FORBIDDEN) for row in reorder[4:]] == [5, 5]
    assert brute_force(classed.problem) == brute_force(problem)


def test_a_user_gets_the_member_that_the_tree_of_reorders_comes_by():
    problem = _parts(_TAKES, (1,), _NEAR, (0, 1))
    classed = with_alike_formats_as_one(problem, limit=0)
    assert classed is not None
    choices = classed.original([0, 0, 1, 0, 0])
    # Made in 1, format 3 is near, and 2 is not.
    assert [op.choices[c].ins for op, c in zip(problem.ops[1:3], choices[1:3], strict=True)] == [(1,), (3,)]
    assert evaluate(problem, choices) == evaluate(classed.problem, (0, 0, 1, 0, 0)) == brute_force(problem)


def test_negative_values_with_few_sets_stay():
    assert with_alike_formats_as_one(_parts(_TAKES, (0,), _NEAR, (0, 1))) is None


def test_negative_formats_that_some_user_takes_otherwise_stay():
    problem = _parts(_TAKES, (0,), _NEAR, (0, 1))
    apart = tuple(replace(choice, cost=choice.ins[0]) for choice in _TAKES)
    ops = (*problem.ops[:2], replace(problem.ops[2], choices=apart), *problem.ops[3:])
    assert with_alike_formats_as_one(replace(problem, ops=ops), limit=0) is None
    all_alike = (*problem.ops[:2], replace(problem.ops[1], results=(2,)), *problem.ops[3:])
    assert with_alike_formats_as_one(replace(problem, ops=all_alike), limit=0) is not None


def test_negative_an_op_that_takes_a_value_twice_keeps_all():
    problem = _parts(_TAKES, (0,), _NEAR, (0,))
    twice = OpNode((0, 0), (1,), tuple(Choice((f, f), (f // 2,), 1) for f in range(4)))
    ops = (problem.ops[0], twice, problem.ops[2])
    assert with_alike_formats_as_one(replace(problem, ops=ops), limit=0) is None


def _alike(rng: random.Random) -> Problem:
    """A value whose users take it in classes of formats; what they give is wanted in some format, or added up."""
    formats = rng.randint(3, 6)
    classes = [rng.randrange(3) for _ in range(formats)]
    near = [rng.randrange(3) for _ in range(formats)]
    matrix = random_matrix(rng, formats)
    if rng.random() < 0.7:
        matrix = tuple(
            tuple(0 if f == g else 1 if near[f] == near[g] else 6 for g in range(formats))
            for f in range(formats)
        )
    made = tuple(sorted(rng.sample(range(formats), rng.randint(1, 2))))
    gives, costs = [rng.randrange(2) for _ in range(3)], [rng.randint(0, 2) for _ in range(3)]
    takes = tuple(Choice((f,), (gives[c],), costs[c]) for f, c in enumerate(classes))
    return _parts(takes, made, matrix, tuple(rng.randrange(2) for _ in range(rng.randint(2, 3))))


def test_the_least_cost_is_that_of_brute_force_and_the_choice_has_it():
    rng = random.Random(3)
    classed_ones = 0
    for _ in range(200):
        problem = _alike(rng)
        classed = with_alike_formats_as_one(problem, limit=0)
        if classed is not None:
            classed_ones += 1
            found = solve_exact(classed.problem)
            least = brute_force(problem)
            assert found.cost == found.bound == least == evaluate(problem, classed.original(found.choices))
    assert classed_ones > 100


def _with_twins(rng: random.Random, problem: Problem) -> Problem:
    """The problem in which some value has more formats, each taken as some other is; reorders are random."""
    uses = problem.uses()
    value = rng.choice([v for v, own in enumerate(uses) if own] or [0])
    formats = len(problem.values[value].reorder)
    twin_of = [rng.randrange(formats) for _ in range(rng.randint(1, 3))]
    matrix = random_matrix(rng, formats + len(twin_of))
    ops = list(problem.ops)
    for number, operand in uses[value]:
        choices = list(ops[number].choices)
        for twin, f in enumerate(twin_of, formats):
            for choice in ops[number].choices:
                if choice.ins[operand] == f:
                    ins = (*choice.ins[:operand], twin, *choice.ins[operand + 1 :])
                    choices.append(replace(choice, ins=ins))
        ops[number] = replace(ops[number], choices=tuple(choices))
    values = list(problem.values)
    values[value] = replace(values[value], reorder=matrix)
    return Problem(tuple(ops), tuple(values))


def test_the_least_cost_of_any_problem_is_that_of_brute_force():
    rng = random.Random(4)
    classed_ones = 0
    for number in range(300):
        make = random_problem if number % 2 else cyclic_problem
        problem = _with_twins(rng, make(rng, rng.randint(2, 3), rng.randint(2, 4)))
        classed = with_alike_formats_as_one(problem, limit=0)
        if classed is not None:
            classed_ones += 1
            assert brute_force(classed.problem) == brute_force(problem)
    assert classed_ones > 100


def test_a_value_that_is_unrolled_over_many_steps_is_solved_at_once():
    formats = 24
    # Formats f and f + 8 k are near, and four of them are alike to whoever takes a step.
    matrix = tuple(
        tuple(0 if f == g else 16 if f % 8 == g % 8 else 10_000 for g in range(formats))
        for f in range(formats)
    )
    takes = tuple(Choice((f,), (f // 4,), 1) for f in range(formats))
    part = ValueNode(tuple(tuple(500 * (f != g) for g in range(6)) for f in range(6)))
    steps = 64
    source = OpNode((), (0,), tuple(Choice((), (f,), int(f > 0)) for f in range(formats)))
    gathers = [OpNode((0,), (1 + k,), takes) for k in range(steps)]
    users = [OpNode((1 + k,), (), (Choice((k % 5,), (), 0),)) for k in range(steps)]
    problem = Problem((source, *gathers, *users), (ValueNode(matrix), *[part] * steps))
    classed = with_alike_formats_as_one(problem)
    assert classed is not None and max(len(value.reorder) for value in classed.problem.values) == formats + 6
    found = solve_exact(problem)
    # 64 users cost 1 each. Of the parts that they want, 0, 2 and 4 come from formats that are near each other, 1 and 3
    # from others that are: three reorders for 16 and one for 10,000, where 13 users of each part would pay 500.
    assert found.cost == found.bound == evaluate(problem, found.choices) == 64 + 3 * 16 + 10_000
