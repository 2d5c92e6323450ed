"""Cycles of values: a region without an order (a module's own is one) may hold ops that use each other's results.

Selection has no meaning there: which reorder of a value comes first could not be said. Uses of later results without
a cycle are no harm.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from layout_ir.diagnostics import PassError
from layout_ir.passes.selection.tensors import name_of_op


def check_acyclic(module: ModuleOp) -> None:
    """Raises PassError, located at an op that depends on its own result. Linear where no op uses a later result."""
    seen: set[Operation] = set()
    ahead: list[Operation] = []
    for op in module.walk():
        if any(isinstance(v.owner, Operation) and v.owner not in seen for v in op.operands):
            ahead.append(op)
        seen.add(op)
    done: set[Operation] = set()
    for op in ahead:
        _visit(op, done)


def _visit(start: Operation, done: set[Operation]) -> None:
    """Follows operands back from `start`; an op that is met again while its own are followed is in a cycle."""
    open_: set[Operation] = set()
    stack: list[tuple[Operation, bool]] = [(start, False)]
    while stack:
        op, left = stack.pop()
        if left:
            open_.discard(op)
            done.add(op)
        elif op not in done and op not in open_:
            open_.add(op)
            stack.append((op, True))
            for source in _sources(op):
                if source in open_:
                    raise PassError(
                        f"{name_of_op(source)} depends on its own result: no layout can be chosen in a cycle",
                        source,
                    )
                stack.append((source, False))


def _sources(op: Operation) -> list[Operation]:
    """The ops whose results `op`, or what is inside it, uses from outside."""
    inside = set(op.walk())
    found = [v.owner for inner in inside for v in inner.operands if isinstance(v.owner, Operation)]
    own = [v.owner for v in op.operands if v.owner is op]
    return [owner for owner in found if owner not in inside] + [o for o in own if isinstance(o, Operation)]
