"""The least cost of all ways to lay out a program, and what a program costs in which everything has been chosen."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import cache
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from layout_ir.dialects.layout import ReorderOp
from tests.passes.selection.ir_programs.costs import Costs
from tests.passes.selection.ir_programs.formats import FUNCTIONS, SAME, State, state_of
from tests.passes.selection.ir_programs.reading import Reading, carried, fixed_state, times, times_of

IMPOSSIBLE = 1 << 60
"""More than any program costs: the cost of what is not possible."""


def made_from(costs: Costs) -> Callable[[State, frozenset[State]], int]:
    """The cheapest cost of having `needed`, starting from one state of a value: a search over sets of states."""
    numbers = {SAME.get(m, m) for m in costs.maps}

    def step(source: State, target: State) -> int:
        cost = costs.reorder(source, target)
        return IMPOSSIBLE if cost is None else cost

    @cache
    def cheapest(root: State, needed: frozenset[State]) -> int:
        nodes = list(needed | {(m, None) for m in numbers} | {root})
        queue: list[tuple[int, int, frozenset[State]]] = [(0, 0, frozenset([root]))]
        best: dict[frozenset[State], int] = {}
        count = 0
        while queue:
            cost, _, have = heapq.heappop(queue)
            if needed <= have:
                return cost
            if have in best:
                continue
            best[have] = cost
            for target in nodes:
                if target not in have:
                    price = min(step(source, target) for source in have)
                    if price < IMPOSSIBLE:
                        count += 1
                        heapq.heappush(queue, (cost + price, count, have | {target}))
        return IMPOSSIBLE

    return cheapest


def brute_force(module: ModuleOp, costs: Costs) -> int | None:
    """The least cost of all ways to lay out the program; None where there is none."""
    reading = Reading(module, costs)
    cheapest = made_from(costs)
    # Each value is priced as soon as its maker and its users have been decided.
    last: dict[SSAValue, int] = {}
    for k, node in enumerate(reading.nodes):
        for value in (*node.uses, *node.defs):
            last[value] = k
    ready = [[value for value, at in last.items() if at == k] for k in range(len(reading.nodes))]
    root: dict[SSAValue, State] = {}
    needed: dict[SSAValue, list[State]] = {value: [] for value in last}
    best = IMPOSSIBLE

    def visit(k: int, cost: int) -> None:
        nonlocal best
        if cost >= best:
            return
        if k == len(reading.nodes):
            best = cost
            return
        node = reading.nodes[k]
        for ins, outs, price in sorted(node.ways, key=lambda way: way[2]):
            for value, state in zip(node.uses, ins, strict=True):
                needed[value].append(state)
            for value, state in zip(node.defs, outs, strict=True):
                root[value] = state
            total = cost + price
            for value in ready[k]:
                if total < best:
                    made = cheapest(root[value], frozenset(needed[value]))
                    # What is impossible stays so where it never happens.
                    total += made if made >= IMPOSSIBLE else times_of(value) * made
            visit(k + 1, total)
            for value in node.uses:
                needed[value].pop()

    visit(0, 0)
    return None if best >= IMPOSSIBLE else best


# What came out -------------------------------------------------------------------------------------------------------


def priced(module: ModuleOp, original: ModuleOp, costs: Costs) -> int:
    """What a program costs in which everything has been chosen; `original` has the options that its ops had."""
    options = iter([carried(op) for op in original.walk() if op.name == "test.op"])
    total = 0
    for op in module.walk():
        if op.name == "test.op":
            total += times(op) * min(option.cost for option in next(options) if _runs(op, option))
        elif isinstance(op, ReorderOp):
            cost = costs.reorder(_state(op.input), _state(op.result))
            assert cost is not None
            total += times(op) * cost
        elif type(op) in FUNCTIONS:
            total += times(op) * costs.ops[op.name, _state(op.results[0])[0]]
    return total


def _runs(op: Operation, option: Any) -> bool:
    """Whether the option takes the operands of `op` as they are, and makes what the types of its results say."""

    def fits(given: State, wanted: State) -> bool:
        return given[0] == wanted[0] and wanted[1] in (None, given[1])

    ins = [fits(_state(value), state_of(fmt)) for value, fmt in zip(op.operands, option.ins, strict=True)]
    outs = [fits(state_of(fmt), _state(value)) for value, fmt in zip(op.results, option.outs, strict=True)]
    return all(ins) and all(outs)


def _state(value: SSAValue) -> State:
    state = fixed_state(value)
    assert state is not None
    return state
