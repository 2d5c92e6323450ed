"""The copies of an `ExecutionGraph`: what each moves, which nodes force it, and whether it could be done without.

The verdict is computed from the graph alone:

    avoidable     one of the rules of `avoidable_copies` says how to do without it
    boundary      it is at an input or output of the graph: the caller decides
    undecided     its ops could be written for another order of dims (`Node.is_portable`), which takes a look at the
                  whole model that `optimized_copies` has; or the file does not say into which order it copies
    forced        by the node that writes the one layout and the nodes that read the other
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from layout_ir.execution_graphs.avoidable_copies import Avoidable, avoidable_copies
from layout_ir.execution_graphs.execution_graph import ExecutionGraph, Value, format_text
from layout_ir.execution_graphs.graph_connections import Connections

Verdict = Literal["avoidable", "forced", "boundary", "undecided"]


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of the graph, explained. Bytes are those read and written by all its executions; None: not known."""

    number: int
    """Of its node in the graph."""
    name: str
    kind: str
    change: str
    """From which layout to which, or the order of dims of a transpose."""
    source: Value
    destination: Value
    nbytes: int | None
    time_us: float | None
    executions: int
    producer: str
    consumers: tuple[str, ...]
    verdict: Verdict
    reason: str
    remedy: str


def explain_copies(graph: ExecutionGraph) -> list[Copy]:
    """All copies of `graph` with their verdicts, those that move most bytes first, unknown sizes last."""
    view = Connections(graph)
    avoidable = avoidable_copies(view)
    found = [_explained(view, number, avoidable.get(number)) for number in view.copies]
    return sorted(found, key=lambda copy: (copy.nbytes is None, -(copy.nbytes or 0)))


def _explained(view: Connections, number: int, avoidable: Avoidable | None) -> Copy:
    node, source, destination = view.node(number), view.source(number), view.destination(number)
    origin = view.origin(node.inputs[0].value)
    users = view.users(node.outputs[0])
    nbytes = None
    if source.nbytes is not None and destination.nbytes is not None:
        nbytes = (source.nbytes + destination.nbytes) * node.executions
    producer = _described(view, origin)
    consumers = tuple(dict.fromkeys(_described(view, user) for user in users)) or (_described(view, None),)
    verdict, reason, remedy = _verdict(view, number, origin, users, avoidable)
    return Copy(
        number, node.name, node.kind, _change(view, number), source, destination, nbytes, node.time_us, node.executions,
        producer, consumers, verdict, reason, remedy,
    )  # fmt: skip


def _described(view: Connections, number: int | None) -> str:
    if number is None:
        return "the program"
    node = view.node(number)
    return f"the caller ({node.name})" if node.role in ("input", "output") else str(node)


def _change(view: Connections, number: int) -> str:
    """A transpose by its order of dims, a reorder by its layouts, a conversion by its types."""
    node, source, destination = view.node(number), view.source(number), view.destination(number)
    order = node.permutation
    if order is None:
        text = f"{source.layout_name} -> {destination.layout_name}, dims in another order"
    elif order != tuple(range(len(order))):
        text = f"dims in the order {', '.join(map(str, order))}"
        if source.layout_name != destination.layout_name:
            text = f"{source.layout_name} -> {destination.layout_name}, {text}"
    else:
        text = f"{source.layout_name} -> {destination.layout_name}"
    if source.dtype != destination.dtype:
        text = f"{source.dtype or '?'} -> {destination.dtype or '?'}, {text}"
    return text


def _verdict(
    view: Connections, number: int, origin: int | None, users: Sequence[int], avoidable: Avoidable | None
) -> tuple[Verdict, str, str]:
    if avoidable is not None:
        return "avoidable", avoidable.reason, avoidable.remedy
    producer, consumer = _described(view, origin), _listed([_described(view, user) for user in users])
    source, destination = view.source(number), view.destination(number)
    before, after = source.layout_name, _name_in_source(view, number)
    if source.dtype != destination.dtype:
        before, after = f"{source.dtype or '?'} {before}", f"{destination.dtype or '?'} {after}"
    at_input = origin is None or view.node(origin).role == "input"
    at_output = not users or any(view.node(user).role == "output" for user in users)
    if at_input or at_output:
        side = f"{producer} passes {before}" if at_input else f"{consumer} takes {after}"
        other = f"{consumer} reads {after}" if at_input else f"{producer} writes {before}"
        asked = f"for {producer} to pass {after}" if at_input else f"for {consumer} to take {before}"
        return "boundary", f"{side}, but {other}", asked
    if view.node(number).permutation is None:
        reason = f"between {producer} and {consumer} the dims change their order, and the file does not say to which"
        return "undecided", reason, f"for {consumer} to read what {producer} writes"
    if view.node(number).is_portable:
        reason = f"{producer} writes {before}, {consumer} reads {after}; no rule about these two removes it"
        return "undecided", reason, "a choice of layouts for the whole model (layout-ir optimize)"
    facts = [f"{producer} writes {before}{_others(view, origin)}"]
    facts.append(f"{consumer} reads {after}" + (_others(view, users[0]) if len(users) == 1 else ""))
    kept = [n for n, _ in view.readers[view.node(number).inputs[0].value] if n != number]
    kept = [n for n in kept if view.node(n).role == "op"]
    if kept:
        facts.append(f"{_listed([str(view.node(n)) for n in kept])} reads it as it is")
    return "forced", "; ".join(facts), f"for {consumer} to read {before}, or for {producer} to write {after}"


def _others(view: Connections, number: int | None) -> str:
    """How many nodes like this one there are, none of which is a witness."""
    count = 0 if number is None else sum(1 for _ in view.alike(number))
    return f" ({count} more like it, none otherwise)" if count else ""


def _name_in_source(view: Connections, number: int) -> str:
    """The layout that a copy writes, in the dims of its source where those are in another order."""
    order = view.node(number).permutation
    if order is None or order == tuple(range(len(order))):
        return view.destination(number).layout_name
    return format_text(view.written(number))


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "the program"
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def totals(copies: Iterable[Copy]) -> dict[str, tuple[int, int]]:
    """Per verdict, how many executions of copies have it and how many bytes they move; unknown sizes count as none."""
    counts: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    for copy in copies:
        counts[copy.verdict] += copy.executions
        moved[copy.verdict] += copy.nbytes or 0
    return {verdict: (counts[verdict], moved[verdict]) for verdict in counts}
