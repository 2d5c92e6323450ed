"""What becomes of the Transposes of an ONNX model where the orders of dims are chosen for the whole model.

The rules of `copies` look at a copy and what is next to it. Whether the others need be, the optimizer knows: a
Transpose that is not in the model it gives is avoidable, and one that is has the reason that the optimizer states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from layout_ir.execution_graphs.copies import Copy
from layout_ir.execution_graphs.execution_graph import ExecutionGraph
from layout_ir.frontends.onnx.stand_ins import NCHWC_DOMAIN
from layout_ir.passes.onnx.optimized_model import OptimizedModel
from layout_ir.passes.onnx.orders import Order, compose, identity
from layout_ir.passes.onnx.remaining import Remaining

_BLOCKED = f"which nodes run on blocks of channels ({NCHWC_DOMAIN}) is not chosen anew"
_UNBLOCKED = "optimize the model that ONNX Runtime was given, not the one that it wrote"
_IN_FUNCTION = "it is in the body of a function, whose inner values have no names in the model"

Place = tuple[str, Order]
"""A value that no Transpose made, and an order of its dims."""


class Transposed:
    """Which value in which order the result of each Transpose of a graph is."""

    def __init__(self, graph: ExecutionGraph):
        self._places: dict[str, Place] = {}
        for node in graph.nodes:
            if node.is_portable and node.permutation is not None and node.inputs and node.outputs:
                source, result = graph.values[node.inputs[0].value], graph.values[node.outputs[0]]
                self._places[result.name] = self.place(source.name, node.permutation)

    def place(self, name: str, order: Order) -> Place:
        """The value `name` in order `order`, as an order of the value that its Transposes begin with."""
        root, own = self._places.get(name, (name, identity(len(order))))
        return root, compose(own, order)


def decide_transposes(graph: ExecutionGraph, copies: Sequence[Copy], result: OptimizedModel) -> list[Copy]:
    """The copies of the ONNX model that `graph` is of, with the verdicts of `result`, its optimization, on Transposes
    that no rule removes.

    A Transpose is avoidable if nobody gets its result by a Transpose any more, and forced, or the caller's, where one
    does. It stays undecided in the body of a function, and where the optimum is not proven. So does what is left in a
    model with blocks of channels, reorders included: which of its nodes run on blocks is not chosen anew.
    """
    transposed = Transposed(graph)
    left = {
        transposed.place(*result.place(entry.value, entry.target)): entry
        for entry in result.remaining
    }  # fmt: skip
    claimed: dict[int, Remaining] = {}
    free = dict(left)
    gone: list[Copy] = []
    for copy in _open_transposes(graph, copies):
        if copy.destination.name not in result.transposed:
            continue
        entry = free.pop(
            transposed.place(copy.destination.name, identity(len(copy.source.shape or ()))), None
        )
        if entry is None:
            gone.append(copy)
        else:
            claimed[copy.number] = entry
    instead = _instead(free.values(), len(gone))
    gone_numbers = {copy.number for copy in gone}
    blocked = any(value.layout_text for value in graph.values)
    decided: list[Copy] = []
    for copy in copies:
        if copy.number in gone_numbers:
            reason = f"it is gone where the orders of dims are chosen for the whole model ({result.target}){instead}"
            remedy = f"layout-ir optimize --target {result.target} -o FILE.onnx"
            decided.append(replace(copy, verdict="avoidable", reason=reason, remedy=remedy))
        elif copy.number in claimed:
            decided.append(_left(copy, claimed[copy.number], result, blocked))
        elif copy.verdict == "undecided" and copy.destination.name not in result.transposed:
            decided.append(replace(copy, reason=f"{copy.reason}; {_IN_FUNCTION}"))
        elif copy.verdict == "forced" and blocked:
            reason = f"{copy.reason}; {_BLOCKED}"
            decided.append(replace(copy, verdict="undecided", reason=reason, remedy=_UNBLOCKED))
        else:
            decided.append(copy)
    return decided


def reasons_of(graph: ExecutionGraph, result: OptimizedModel) -> dict[int, str]:
    """Why each Transpose of `graph`, that of the optimized model, is there, by the numbers of the nodes."""
    transposed = Transposed(graph)
    left = {transposed.place(entry.value, entry.target): entry for entry in result.remaining}
    found: dict[int, str] = {}
    for number, node in enumerate(graph.nodes):
        if node.is_portable and node.permutation is not None and node.inputs and node.outputs:
            entry = left.get(transposed.place(graph.values[node.inputs[0].value].name, node.permutation))
            found[number] = _IN_FUNCTION if entry is None else f"{entry.reason}; needs {entry.removed_by}"
    return found


def _open_transposes(graph: ExecutionGraph, copies: Iterable[Copy]) -> Iterator[Copy]:
    """The Transposes that no rule removes, in the order of the file."""
    for copy in sorted(copies, key=lambda copy: copy.number):
        node = graph.nodes[copy.number]
        if node.is_portable and node.permutation is not None and copy.verdict != "avoidable":
            yield copy


def _instead(entries: Iterable[Remaining], gone: int) -> str:
    """What the optimizer has in place of what is gone, in words."""
    found = list(entries)
    if not found:
        return ", and none comes instead"
    moved = sum(entry.nbytes for entry in found)
    one = len(found) == 1
    count = "1 Transpose is" if one else f"{len(found)} Transposes are"
    return f"; {count} left in place of {gone} that go, and {'moves' if one else 'move'} {moved} bytes"


def _left(copy: Copy, entry: Remaining, result: OptimizedModel, blocked: bool) -> Copy:
    """A Transpose that the optimizer leaves, with its reason."""
    reason, remedy = entry.reason, entry.removed_by
    if blocked:
        return replace(copy, verdict="undecided", reason=f"{reason}; {_BLOCKED}", remedy=_UNBLOCKED)
    if not result.solution.is_optimal or result.solution.omitted:
        return replace(
            copy, verdict="undecided", reason=f"{reason}; not proven to be of least cost", remedy=remedy
        )
    verdict = "boundary" if copy.verdict == "boundary" else "forced"
    return replace(copy, verdict=verdict, reason=reason, remedy=remedy)
