"""The least cost of a choice as an integer program, solved by HiGHS: an oracle for what is too large to try out.

Nothing of the prover is in it. The choice is stated as nodes with ways, each way with states that it asks of values
and states that it makes of them, and the reorders of a value as flows: from the state that it is made in, each of its
uses draws one unit to the state that it asks for, over arcs that are paid for once, however many flows take them.

    python -m tests.passes.selection.ilp --problems 3000 --seed 1

compares selections of random problems and programs with it, and with brute force where that is quick.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from layout_ir.certificate.checking import verify
from layout_ir.passes.selection.costs.cost_table import parse_costs
from layout_ir.passes.selection.options.targets import target_named
from layout_ir.passes.selection.translation.apply import apply
from layout_ir.passes.selection.translation.from_ir import build
from layout_ir.selection.solver.certificate import certify
from layout_ir.selection.solver.selection_problem import Choice, Infeasible, OpNode, Problem, ValueNode
from tests.passes.selection.ir_programs import optimum
from tests.passes.selection.ir_programs.costs import Costs
from tests.passes.selection.ir_programs.drawing import random_large_ir
from tests.passes.selection.ir_programs.formats import SAME
from tests.passes.selection.ir_programs.reading import Reading, times_of
from tests.programs import parse
from tests.selection import problems

State = Hashable
Way = tuple[Sequence[State], Sequence[State], int]
"""The states that it asks of the uses of a node, those that it makes of its defs, and its cost."""

SMALL, LARGE = (2, 3, 4, 5, 6, 8, 10, 12), (14, 16, 20, 24, 32, 40)
"""Most options of an op. The program takes seconds where they are many, so that most problems have few."""

QUICK = 3000
"""Choices up to which everything is tried."""


@dataclass
class Stated:
    """Nodes with the values that they use and make, and per value what a reorder costs; None where there is none."""

    nodes: list[tuple[Sequence[Hashable], Sequence[Hashable], list[Way]]]
    states: dict[Hashable, list[State]]
    reorder: Callable[[Hashable, State, State], int | None]


def least_cost(stated: Stated) -> int | None:
    """The optimum; None where there is no choice at all."""
    program = _Program()
    made: dict[Hashable, dict[State, list[int]]] = {v: {} for v in stated.states}
    asked: dict[Hashable, list[dict[State, list[int]]]] = {v: [] for v in stated.states}
    for uses, defs, ways in stated.nodes:
        chosen = [program.variable(cost, whole=True) for _, _, cost in ways]
        program.equal(dict.fromkeys(chosen, 1.0), 1)
        for k, value in enumerate(uses):
            by_state: dict[State, list[int]] = {}
            for x, (ins, _, _) in zip(chosen, ways, strict=True):
                by_state.setdefault(ins[k], []).append(x)
            asked[value].append(by_state)
        for k, value in enumerate(defs):
            for x, (_, outs, _) in zip(chosen, ways, strict=True):
                made[value].setdefault(outs[k], []).append(x)
    for value, states in stated.states.items():
        arcs = _arcs(states, lambda f, g, v=value: stated.reorder(v, f, g))
        shared = len(asked[value]) > 1
        paid = {arc: program.variable(cost, whole=shared) for arc, cost in arcs.items()}
        for by_state in asked[value]:
            # One unit flows from the state that is made to the one that this use asks for.
            flow = {arc: program.variable(0) if shared else paid[arc] for arc in arcs}
            for arc, x in flow.items() if shared else ():
                program.at_most({x: 1, paid[arc]: -1}, 0)
            for state in states:
                row: dict[int, float] = {}
                for (f, g), x in flow.items():
                    if g == state:
                        row[x] = row.get(x, 0) + 1
                    if f == state:
                        row[x] = row.get(x, 0) - 1
                for x in made[value].get(state, ()):
                    row[x] = row.get(x, 0) + 1
                for x in by_state.get(state, ()):
                    row[x] = row.get(x, 0) - 1
                program.equal(row, 0)
    return program.least()


def _arcs(
    states: Sequence[State], cost: Callable[[State, State], int | None]
) -> dict[tuple[State, State], int]:
    """The reorders, those left out that a chain of others replaces at less cost."""
    near = {(f, g): inf if (c := cost(f, g)) is None else c for f in states for g in states}
    arcs = {arc: c for arc, c in near.items() if arc[0] != arc[1] and c < inf}
    for m in states:
        for f in states:
            for g in states:
                near[f, g] = min(near[f, g], near[f, m] + near[m, g])
    return {arc: int(c) for arc, c in arcs.items() if c <= near[arc]}


class _Program:
    """Variables between 0 and 1, rows, and what is minimized."""

    def __init__(self) -> None:
        self._cost: list[int] = []
        self._whole: list[bool] = []
        self._rows: list[tuple[dict[int, float], float, float]] = []

    def variable(self, cost: int, whole: bool = False) -> int:
        self._cost.append(cost)
        self._whole.append(whole)
        return len(self._cost) - 1

    def equal(self, row: dict[int, float], to: float) -> None:
        self._rows.append((row, to, to))

    def at_most(self, row: dict[int, float], limit: float) -> None:
        self._rows.append((row, -np.inf, limit))

    def least(self) -> int | None:
        # SciPy has no types. It takes seconds to import, and every process collects the tests that import this file.
        optimize: Any = importlib.import_module("scipy.optimize")
        sparse: Any = importlib.import_module("scipy.sparse")
        decisions = [(k, x, a) for k, (row, _, _) in enumerate(self._rows) for x, a in row.items()]
        rows, columns, entries = zip(*decisions, strict=True)
        matrix = sparse.csr_array((entries, (rows, columns)), shape=(len(self._rows), len(self._cost)))
        # The solver of older SciPy takes indices of 32 bits alone.
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
        limits = optimize.LinearConstraint(
            matrix, [low for _, low, _ in self._rows], [up for _, _, up in self._rows]
        )
        found = optimize.milp(
            np.array(self._cost, float),
            integrality=np.array(self._whole, int),
            bounds=optimize.Bounds(0, 1),
            constraints=limits,
            options={"mip_rel_gap": 0.0},
        )
        if found.status == 2:
            return None
        assert found.status == 0, found.message
        return round(found.fun)


# Problems ------------------------------------------------------------------------------------------------------------


def of_problem(problem: Problem) -> Stated:
    """A problem of plain numbers."""
    nodes = [
        (op.operands, op.results, [(c.ins, c.outs, op.weight * c.cost) for c in op.choices])
        for op in problem.ops
    ]
    states = {v: list(range(len(value.reorder))) for v, value in enumerate(problem.values)}

    def reorder(v: int, f: int, g: int) -> int:
        return problem.values[v].weight * problem.values[v].reorder[f][g]

    return Stated(nodes, states, reorder)  # pyright: ignore


def random_options_problem(rng: random.Random, most: int) -> Problem:
    """A program of few ops, each with 2 to `most` options, and values that some of them share."""
    formats = rng.randint(2, most)
    ops = rng.randint(2, 5 if most <= 8 else 3 if most <= 16 else 2)
    values: list[ValueNode] = []
    nodes: list[OpNode] = []

    def make() -> int:
        values.append(ValueNode(problems.random_matrix(rng, formats), rng.randint(0, 3)))
        return len(values) - 1

    def choices(ins: int, outs: int) -> tuple[Choice, ...]:
        return tuple(
            Choice(
                tuple(rng.randrange(formats) for _ in range(ins)),
                tuple(rng.randrange(formats) for _ in range(outs)),
                rng.randint(0, 15),
            )
            for _ in range(rng.randint(2, most))
        )

    nodes.append(OpNode((), (make(),), choices(0, 1)))
    for _ in range(ops):
        ins = tuple(rng.randrange(len(values)) for _ in range(rng.randint(1, 2)))
        nodes.append(OpNode(ins, (make(),), choices(len(ins), 1), rng.randint(1, 3)))
    return Problem(tuple(nodes), tuple(values))


def check_problem(rng: random.Random, most: int) -> str:
    """One random problem; by what it was checked. Raises AssertionError where the selection is not the optimum."""
    problem = random_options_problem(rng, most)
    solution, certificate = certify(problem)
    verdict = verify(json.loads(json.dumps(certificate)))
    assert verdict.cost == solution.cost and solution.bound == verdict.bound
    quick = prod(len(op.choices) for op in problem.ops) <= QUICK
    if quick:
        assert solution.cost == problems.brute_force(problem), problem
    if not quick or rng.random() < 0.1:
        assert solution.cost == least_cost(of_problem(problem)), problem
    assert solution.is_optimal, problem
    return "brute force" if quick else "ILP"


# Programs ------------------------------------------------------------------------------------------------------------


def of_program(reading: Reading, costs: Costs) -> Stated:
    """A program, as its text has it."""
    nodes = [(node.uses, node.defs, node.ways) for node in reading.nodes]
    states: dict[Hashable, list[State]] = {}
    between = [(m, None) for m in sorted({SAME.get(m, m) for m in costs.maps})]
    for uses, defs, ways in nodes:
        for k, value in enumerate((*uses, *defs)):
            own = states.setdefault(value, list(between))
            own += [state for ins, outs, _ in ways if (state := (*ins, *outs)[k]) not in own]
    often = {value: times_of(value) for node in reading.nodes for value in (*node.uses, *node.defs)}

    def reorder(value: Hashable, f: State, g: State) -> int | None:
        cost = costs.reorder(f, g)  # pyright: ignore
        return None if cost is None else cost * often[value]  # pyright: ignore

    return Stated(nodes, states, reorder)  # pyright: ignore


def optimum_of(module: ModuleOp, costs: Costs) -> tuple[bool, int | None]:
    """Whether trying everything is quick, and the least cost of the program, found by that or else by the solver."""
    reading = Reading(module, costs)
    quick = prod(len(node.ways) for node in reading.nodes) <= QUICK
    return quick, optimum.brute_force(module, costs) if quick else least_cost(of_program(reading, costs))


def check_program(rng: random.Random, most: int) -> str:
    """One random program; by what it was checked. Raises AssertionError where the selection is not the optimum."""
    text, costs = random_large_ir(rng, most)
    module = parse(text)
    quick, best = optimum_of(module, costs)
    if quick and rng.random() < 0.1:
        assert best == least_cost(of_program(Reading(module, costs), costs)), text
    selection = build(module, target_named("blocked8"), parse_costs(costs.to_json(), "costs"))
    if selection.omissions:
        assert best is None or certify(selection.problem)[0].cost >= best, text
        return "nothing, for something is left out"
    if best is None:
        try:
            certify(selection.problem)
        except Infeasible:
            return "brute force" if quick else "ILP"
        raise AssertionError(f"there is no choice, and one was found: {text}")
    solution, certificate = certify(selection.problem)
    assert solution.cost == best, f"{solution.cost} != {best}: {text}"
    verdict = verify(json.loads(json.dumps(certificate)))
    assert verdict.is_optimal and verdict.cost == best
    apply(module, selection, solution.choices)
    module.verify()
    assert optimum.priced(module, parse(text), costs) == best, text
    return "brute force" if quick else "ILP"


def check(seed: int, number: int) -> tuple[str, int]:
    """Problem number `number`: a program every other time. What it is and was checked by, and its most options."""
    rng = random.Random(f"{seed} {number}")
    most = rng.choice(SMALL if rng.random() < 0.85 else LARGE)
    kind, run = (("program", check_program), ("problem", check_problem))[number % 2]
    return f"{kind} by {run(rng, most)}", most


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Compare selections with an integer program and brute force."
    )
    parser.add_argument("--problems", type=int, default=3000, metavar="N", help="how many (default: 3000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the number of the first")
    args = parser.parse_args()
    start = time.monotonic()
    found: Counter[str] = Counter()
    options: Counter[str] = Counter()
    for number in range(args.first, args.first + args.problems):
        what, most = check(args.seed, number)
        found[what] += 1
        options["2 to 12 options" if most <= 12 else "14 to 40 options"] += 1
        if (number + 1) % 100 == 0:
            print(f"{number + 1} ({time.monotonic() - start:.0f} s): {dict(found)}", flush=True)
    print(f"{sum(found.values())} equal, seed {args.seed}: {dict(found)}, {dict(options)}")


if __name__ == "__main__":
    main()
