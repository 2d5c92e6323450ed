"""Conflicts: those uses are named that make a problem impossible, and none of them for nothing."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace

from layout_ir.selection.conflict import Use, conflict_text, conflicting_uses
from layout_ir.selection.solver.selection_problem import FORBIDDEN, Choice, OpNode, Problem, ValueNode
from tests.selection.problems import brute_force


def random_forbidding(rng: random.Random, ops: int, formats: int) -> Problem:
    """A problem in which two of three reorders are forbidden."""
    values: list[ValueNode] = []
    nodes: list[OpNode] = []
    for number in range(ops):
        values.append(
            ValueNode(
                tuple(
                    tuple(0 if f == g else rng.choice([1, FORBIDDEN, FORBIDDEN]) for g in range(formats))
                    for f in range(formats)
                )
            )
        )
        ins = tuple(rng.randrange(number) for _ in range(rng.randint(1, 2))) if number else ()
        choices = {
            (tuple(rng.randrange(formats) for _ in ins), (rng.randrange(formats),))
            for _ in range(rng.randint(1, 3))
        }
        nodes.append(OpNode(ins, (number,), tuple(Choice(*key, 0) for key in sorted(choices))))
    return Problem(tuple(nodes), tuple(values))


def of_uses(problem: Problem, uses: Collection[Use]) -> Problem:
    """The problem with these uses only."""
    ops: list[OpNode] = []
    for number, op in enumerate(problem.ops):
        kept = [use for use in uses if use.op == number]
        ops.append(
            replace(
                op,
                operands=tuple(use.value for use in kept),
                choices=tuple(replace(c, ins=tuple(c.ins[use.operand] for use in kept)) for c in op.choices),
            )
        )
    return Problem(tuple(ops), problem.values)


def test_the_uses_named_conflict_and_any_of_them_less_does_not():
    rng = random.Random(1)
    sizes: list[int] = []
    for _ in range(200):
        problem = random_forbidding(rng, rng.randint(2, 7), rng.randint(2, 3))
        uses = conflicting_uses(problem)
        assert bool(uses) == (brute_force(problem) >= FORBIDDEN)
        if uses:
            sizes.append(len(uses))
            assert brute_force(of_uses(problem, uses)) >= FORBIDDEN
            for use in uses:
                assert brute_force(of_uses(problem, [other for other in uses if other != use])) < FORBIDDEN
    assert max(sizes) > 2 and len(sizes) > 50


def test_the_text_has_both_sides_and_is_short():
    formats = 9
    forbid = tuple(tuple(FORBIDDEN * (f != g) for g in range(formats)) for f in range(formats))
    make = OpNode((), (0,), tuple(Choice((), (f,), 0) for f in range(formats - 1)))
    take = OpNode((0,), (), (Choice((formats - 1,), (), 0),))
    problem = Problem((make, take), (ValueNode(forbid),))
    text = conflict_text(
        problem,
        conflicting_uses(problem),
        op=lambda o: ("input", "gemm")[o],
        value=lambda v: "%x",
        fmt=lambda v, f: f"f{f}",
    )
    assert text.startswith(
        "no choice of options fits together: input makes %x in f0 or f1 or f2 or f3 or f4 or f5 or 2 more, "
        "and gemm takes it in f8; no reorder leads from the one to the other"
    )


def test_negative_costs_that_are_too_high_are_no_conflict_of_formats():
    dear = OpNode((), (0,), (Choice((), (0,), FORBIDDEN),))
    problem = Problem((dear, OpNode((0,), (), (Choice((0,), (), 0),))), (ValueNode(((0,),)),))
    uses = conflicting_uses(problem)
    assert uses == []
    text = conflict_text(problem, uses, op=str, value=str, fmt=lambda v, f: str(f))
    assert "less than 2^56" in text
