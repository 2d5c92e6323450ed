"""Cycles of values: a region without an order (a module's own is one) may hold ops that use each other's results.

Selection is not defined there: a reorder would have to stand behind its value and in front of it. Uses of later results
without a cycle are allowed, and so are cycles of ops for which no layout is to be chosen.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from layout_ir.diagnostics import PassError, name_of_op
from layout_ir.passes.selection.problem.decision_points import touches_any


def check_acyclic(module: ModuleOp) -> None:
    """Raises PassError, located at an op that depends on its own result and whose layouts are to be chosen.

    Linear where no op uses a later result.
    """
    seen: set[Operation] = set()
    ahead: list[Operation] = []
    for op in module.walk():
        if any(isinstance(v.owner, Operation) and v.owner not in seen for v in op.operands):
            ahead.append(op)
        seen.add(op)
    for cycle in _cycles(ahead):
        for op in reversed(cycle):
            if touches_any(op):
                raise PassError(
                    f"{name_of_op(op)} depends on its own result: no layout can be chosen in a cycle", op
                )


def _cycles(starts: list[Operation]) -> Iterator[list[Operation]]:
    """The sets of ops that depend on each other, as far back from `starts` as there are any (Tarjan)."""
    order: dict[Operation, int] = {}
    low: dict[Operation, int] = {}
    done: set[Operation] = set()
    path: list[Operation] = []
    for start in starts:
        if start in order:
            continue
        stack = [(start, iter(_sources(start)))]
        order[start] = low[start] = len(order)
        path.append(start)
        while stack:
            op, sources = stack[-1]
            source = next(sources, None)
            if source is None:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    low[above] = min(low[above], low[op])
                if low[op] == order[op]:
                    together = [path.pop()]
                    while together[-1] is not op:
                        together.append(path.pop())
                    done.update(together)
                    if len(together) > 1 or op in _sources(op):
                        yield together
            elif source not in order:
                order[source] = low[source] = len(order)
                path.append(source)
                stack.append((source, iter(_sources(source))))
            elif source not in done:
                low[op] = min(low[op], order[source])


def _sources(op: Operation) -> list[Operation]:
    """The ops whose results `op`, or what is inside it, uses from outside."""
    inside = set(op.walk())
    found = [v.owner for inner in inside for v in inner.operands if isinstance(v.owner, Operation)]
    own = [v.owner for v in op.operands if v.owner is op]
    return [owner for owner in found if owner not in inside] + [o for o in own if isinstance(o, Operation)]
