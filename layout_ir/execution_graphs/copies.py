"""The copies of an `ExecutionGraph`: what each moves, which nodes force it, and whether it could be done without.

The verdict is computed from the graph alone. In the order in which they are tried:

    nobody reads the result                                                    avoidable
    the elements keep their order in memory, and their type                    avoidable: a view would do
    it gives back what a copy before it was given (undone), or the only
      readers of its result do so; ops between them are elementwise, or run
      in the other layout elsewhere in the file                                avoidable
    another copy makes the same of the same value                              avoidable: one can serve both
    the value is a constant                                                    avoidable: copied once, not per run
    it reads the result of a copy that nobody else reads                       avoidable: one copy can do both
    its producer writes the other layout elsewhere, given the same operands,
      and nobody else reads the value as it is                                 avoidable
    all its readers read the other layout elsewhere, all else being the same   avoidable
    it is at an input or output of the graph                                   boundary: the caller decides
    else                                                                       forced by both nodes, or undecided

"Elsewhere" is a witness: another node of the same kind, implementation, attributes and element types, with constants
of the same shapes, on tensors for which the two layouts are different memory and whose blocked dims are as full.
Where ops could be written for another order of their dims (`Node.is_portable`) a copy that is left is undecided, not
forced: that takes a look at the whole model, which `optimized_copies` has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from layout_ir.algebra.format import Format
from layout_ir.execution_graphs.execution_graph import (
    ExecutionGraph,
    Node,
    Operand,
    Value,
    format_text,
    inverse,
    permuted,
)

Verdict = Literal["avoidable", "forced", "boundary", "undecided"]

MOST_STEPS = 64
"""Ops between two copies that are looked through."""


@dataclass(frozen=True, slots=True)
class Avoidable:
    """Why a copy need not be, and what would remove it."""

    reason: str
    remedy: str


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
    view = _Connections(graph)
    avoidable = avoidable_copies(graph, view)
    found = [_explained(view, number, avoidable.get(number)) for number in view.copies]
    return sorted(found, key=lambda copy: (copy.nbytes is None, -(copy.nbytes or 0)))


def avoidable_copies(graph: ExecutionGraph, view: _Connections | None = None) -> dict[int, Avoidable]:
    """The copies that could be done without, by their numbers among the nodes, each by a rule that looks at it and
    what is next to it.

    They can go together, but for those that a witness speaks for: one of these may exclude another. What a choice for
    the whole graph would save beyond them is not in here.
    """
    view = view or _Connections(graph)
    found: dict[int, Avoidable] = {}
    for rule in (
        _unread,
        _unmoved,
        _undone,
        _repeated,
        _constant,
        _merged,
        _written_elsewhere,
        _read_elsewhere,
    ):
        for number in view.copies:
            if number not in found:
                found.update(rule(view, number, found))
    return found


# --- The graph, as the rules look at it -------------------------------------------------------------------------


class _Connections:
    """Who makes and who reads what; which layouts copies go between; which signatures of nodes there are."""

    def __init__(self, graph: ExecutionGraph):
        self.graph = graph
        self.producers = graph.producers()
        self.readers = graph.readers()
        self.copies = [
            number
            for number, node in enumerate(graph.nodes)
            if node.role == "copy" and node.inputs and node.outputs
        ]
        self.constants = self._constants()
        self._classes: dict[int, tuple[object, ...]] = {}
        self._same_kind: dict[tuple[object, ...], list[int]] = {}
        self._readers_of: dict[tuple[object, ...], list[int]] = {}
        self._writers_of: dict[tuple[object, ...], list[int]] = {}
        for number, node in enumerate(graph.nodes):
            if node.role == "op":
                self._classify(number, node)
        self._made: dict[tuple[object, ...], list[int]] = {}
        for number in self.copies:
            self._made.setdefault(self.what(number), []).append(number)

    def node(self, number: int) -> Node:
        """The node of that number."""
        return self.graph.nodes[number]

    def source(self, number: int) -> Value:
        """What a copy reads."""
        return self.graph.values[self.node(number).inputs[0].value]

    def destination(self, number: int) -> Value:
        """What a copy writes."""
        return self.graph.values[self.node(number).outputs[0]]

    def result_readers(self, number: int) -> list[tuple[int, Operand]]:
        """The nodes that read what a copy writes."""
        return self.readers[self.node(number).outputs[0]]

    def written(self, number: int) -> Format | None:
        """The layout a copy writes, in the dims of what it reads."""
        order, layout = self.node(number).permutation, self.destination(number).layout
        if order is None or layout is None or len(order) != layout.rank:
            return None
        return permuted(layout, inverse(order))

    def read(self, number: int) -> Format | None:
        """The layout a copy reads, in the dims of what it writes."""
        order, layout = self.node(number).permutation, self.source(number).layout
        if order is None or layout is None or len(order) != layout.rank:
            return None
        return permuted(layout, order)

    def what(self, number: int) -> tuple[object, ...]:
        """A key that is the same for two copies that make the same of the same value."""
        node, result = self.node(number), self.destination(number)
        layout = bare(result.layout) if result.layout is not None else result.layout_text
        return node.inputs[0].value, node.permutation, layout, result.shape, result.dtype

    def _constants(self) -> set[int]:
        """The values that depend on constants alone."""
        found: set[int] = set()
        for node in self.graph.nodes:  # operands come before their nodes
            if node.role == "constant" or (
                node.inputs and all(operand.value in found for operand in node.inputs)
            ):
                found.update(node.outputs)
        return found

    # Witnesses --------------------------------------------------------------------------------------------------

    def _classify(self, number: int, node: Node) -> None:
        """Enters an op by what it computes, and by that with each layout that it reads or writes."""
        self._classes[number] = same = self._class(node)
        self._same_kind.setdefault(same, []).append(number)
        for operand in node.inputs:
            if operand.value not in self.constants:
                readers = self._readers_of.setdefault((same, *self.operand_layout(operand)), [])
                if number not in readers[-1:]:
                    readers.append(number)
        if len(node.outputs) == 1:
            layout = self.graph.values[node.outputs[0]].layout
            if layout is not None:
                self._writers_of.setdefault((same, bare(layout)), []).append(number)

    def _class(self, node: Node) -> tuple[object, ...]:
        values = self.graph.values
        types = tuple(values[value].dtype for value in node.outputs)
        constants = tuple((o.slot, values[o.value].shape) for o in node.inputs if o.value in self.constants)
        return node.kind, node.implementation, node.attributes, types, constants

    def same_copies(self, number: int) -> list[int]:
        """The copies that make the same of the same value, this one among them, in the order of the file."""
        return self._made[self.what(number)]

    def operand_layout(self, operand: Operand) -> tuple[str, object]:
        """The slot of an operand, and the layout in which its node reads it; a constant can be in any."""
        value = self.graph.values[operand.value]
        if operand.value in self.constants:
            return operand.slot, "constant"
        if value.layout is None:
            return operand.slot, (value.layout_text, value.dtype)
        layout = value.layout if operand.read_as is None else permuted(value.layout, operand.read_as)
        return operand.slot, (bare(layout), value.dtype)

    def operand_layouts(self, node: Node, without: str | None = None) -> tuple[tuple[str, object], ...]:
        """The layouts of all operands but one."""
        return tuple(self.operand_layout(o) for o in node.inputs if o.slot != without)

    def result_layouts(self, node: Node) -> tuple[object, ...]:
        """The layouts of all results."""
        return tuple(
            bare(value.layout) if value.layout is not None else value.layout_text
            for value in (self.graph.values[number] for number in node.outputs)
        )

    def alike(self, number: int) -> Iterable[Node]:
        """The other ops of the same kind that compute the same but for the shapes of activations and the layouts."""
        if number not in self._classes:
            return ()
        return (self.node(other) for other in self._same_kind[self._classes[number]] if other != number)

    def alike_reading(self, number: int, slot: str, layout: Format, dtype: str | None) -> Iterable[Node]:
        """Those of them that read the operand `slot`, which is no constant, in that layout."""
        found = self._readers_of.get((self._classes.get(number), slot, (bare(layout), dtype)), ())
        return (self.node(other) for other in found if other != number)

    def alike_writing(self, number: int, layout: Format) -> Iterable[Node]:
        """Those of them that write that layout, and nothing else."""
        found = self._writers_of.get((self._classes.get(number), bare(layout)), ())
        return (self.node(other) for other in found if other != number)

    # Neighbours -------------------------------------------------------------------------------------------------

    def origin(self, value: int) -> int | None:
        """The node that computed a value, in front of all views and copies; None where the file has none."""
        seen: set[int] = set()
        while (number := self.producers[value]) is not None and number not in seen:
            seen.add(number)
            node = self.node(number)
            if node.role not in ("copy", "view") or not node.inputs:
                return number
            value = node.inputs[0].value
        return None

    def user_slots(self, number: int) -> set[str]:
        """As which operands the result of a copy is read, behind all copies and views of it."""
        found: set[str] = set()
        seen, rest = {number}, [number]
        while rest:
            for value in self.node(rest.pop()).outputs:
                for reader, operand in self.readers[value]:
                    if self.node(reader).role not in ("copy", "view"):
                        found.add(operand.slot)
                    elif reader not in seen:
                        seen.add(reader)
                        rest.append(reader)
        return found

    def users(self, value: int) -> list[int]:
        """The nodes that read a value, behind all views and copies; in the order of the file, each once."""
        found: dict[int, None] = {}
        seen, rest = {value}, [value]
        while rest:
            for number, _ in self.readers[rest.pop()]:
                node = self.node(number)
                if node.role in ("copy", "view") and node.outputs:
                    rest += [made for made in node.outputs if made not in seen]
                    seen.update(node.outputs)
                else:
                    found[number] = None
        return sorted(found)


@lru_cache(maxsize=1024)
def bare(layout: Format) -> Format:
    """The same addresses, and nothing said about pads: what layouts are compared by."""
    return replace(layout, pad="undef")


def _same_memory(value: Value, one: Format | None, other: Format | None) -> bool:
    """Whether two layouts of the tensor are the same memory, element by element."""
    if one is None or other is None:
        return False
    if bare(one) == bare(other):
        return True
    first, second = value.bound(bare(one)), value.bound(bare(other))
    return first is not None and second is not None and first.same_store(second)


# --- The rules --------------------------------------------------------------------------------------------------


Found = dict[int, Avoidable]


def _unread(view: _Connections, number: int, gone: Found) -> Found:
    if view.result_readers(number) or view.graph.values_are_inferred:
        return {}
    return {number: Avoidable("nothing reads the result", "leave it out")}


def _unmoved(view: _Connections, number: int, gone: Found) -> Found:
    source, destination = view.source(number), view.destination(number)
    if source.dtype is None or source.dtype != destination.dtype or source.nbytes != destination.nbytes:
        return {}
    if source.shape == destination.shape and source.layout_name == destination.layout_name != "?":
        order = view.node(number).permutation
        if order is not None and order == tuple(range(len(order))):
            return {number: Avoidable("source and destination have the same layout", "use the source itself")}
    if not _same_memory(destination, view.read(number), destination.layout):
        return {}
    remedy = "pass the source on (through a Reshape where the shape is another), without a copy"
    return {number: Avoidable("at this shape every element keeps its place in memory", remedy)}


def _undone(view: _Connections, number: int, gone: Found) -> Found:
    """`number` and the copies that undo it; these alone where something else reads its result, too."""
    node, readers = view.node(number), view.result_readers(number)
    ends = {reader: _undone_by(view, number, reader) for reader, _ in readers}
    found: Found = {}
    for reader, end in ends.items():
        if end is None or end in gone:
            continue
        through = "" if end == reader else ", and the ops between can run in the other layout"
        remedy = (
            f"read the source of {node}" if not through else f"run what is between on the source of {node}"
        )
        found[end] = Avoidable(f"gives back what {node} was given{through}", remedy)
    if found and set(found) == set(ends.values()):
        names = ", ".join(str(view.node(end)) for end in found)
        found[number] = Avoidable(f"undone by {names}", f"drop it together with {names}")
    return found


def _undone_by(view: _Connections, first: int, reader: int) -> int | None:
    """The copy that undoes `first` for one of its readers: the reader itself, or one behind ops that do not mind."""
    source, layout = view.source(first), view.source(first).layout
    order = view.node(first).permutation
    if order is None or source.dtype is None or source.dtype != view.destination(first).dtype:
        return None
    for _ in range(MOST_STEPS):
        node = view.node(reader)
        if node.role == "copy":
            return reader if node.outputs and _composes_to_nothing(view, first, reader) else None
        if node.role != "op" or len(node.outputs) != 1 or layout is None or layout.rank != len(order):
            return None
        if not _can_run_in(view, reader, permuted(layout, order)):
            return None
        behind = view.readers[node.outputs[0]]
        if len(behind) != 1:
            return None
        reader = behind[0][0]
    return None


def _composes_to_nothing(view: _Connections, first: int, second: int) -> bool:
    """Whether the source of `first` and the destination of `second` are the same memory."""
    one, two = view.node(first).permutation, view.node(second).permutation
    source, middle, result = view.source(first), view.destination(first), view.destination(second)
    if one is None or two is None or len(one) != len(two):
        return False
    if not source.dtype == middle.dtype == result.dtype or source.nbytes != result.nbytes:
        return False
    if source.layout is None or result.layout is None:
        same = source.layout_text == result.layout_text != "" and source.shape == result.shape
        return same and [one[k] for k in two] == list(range(len(one)))
    if source.layout.rank != len(one):
        return False
    back = permuted(permuted(source.layout, one), two)
    return _same_memory(result, back, result.layout)


def _can_run_in(view: _Connections, number: int, layout: Format) -> bool:
    """Whether an op with one operand that is no constant can read `layout` and write it too.

    An elementwise op can, where its constants are scalars; another where a node like it does so elsewhere.
    """
    node = view.node(number)
    activations = [o for o in node.inputs if o.value not in view.constants]
    if len(activations) != 1:
        return False
    if node.elementwise:
        shapes = [view.graph.values[o.value].shape for o in node.inputs if o.value in view.constants]
        return all(shape is not None and set(shape) <= {1} for shape in shapes)
    dtype = view.graph.values[activations[0].value].dtype
    return any(
        len(other.inputs) == 1 and view.result_layouts(other) == (bare(layout),)
        for other in view.alike_reading(number, activations[0].slot, layout, dtype)
    )


def _repeated(view: _Connections, number: int, gone: Found) -> Found:
    first = next((other for other in view.same_copies(number) if other not in gone), number)
    if first == number:
        return {}
    other = view.node(first)
    return {number: Avoidable(f"{other} makes the same of the same value", f"read the result of {other}")}


def _constant(view: _Connections, number: int, gone: Found) -> Found:
    value = view.node(number).inputs[0].value
    if value in view.constants:
        return {number: Avoidable("copies a constant", "store the constant as it is read")}
    if not view.graph.values_are_inferred or view.origin(value) is not None:
        return {}
    slots = view.user_slots(number)
    if not slots or not slots <= WEIGHT_SLOTS:
        return {}
    times = view.node(number).executions
    again = f", {times} times" if times > 1 else ""
    return {
        number: Avoidable(
            f"copies what nothing in the file writes, for the operand {' and '.join(sorted(slots))} alone{again}",
            "if those are weights, reorder them once and keep the result",
        )
    }


WEIGHT_SLOTS = frozenset(("wei", "wei_layer", "wei_iter", "bia"))
"""The names that oneDNN's log gives to operands that are weights of a network as a rule."""


def _merged(view: _Connections, number: int, gone: Found) -> Found:
    before = view.producers[view.node(number).inputs[0].value]
    if before is None or before in gone or view.node(before).role != "copy":
        return {}
    if len(view.result_readers(before)) != 1 or view.source(before).dtype != view.destination(before).dtype:
        return {}  # somebody else reads it; or what was rounded in between would not be
    reason = f"reads what {view.node(before)} has just copied, and nobody else does"
    return {number: Avoidable(reason, "copy once, from the first layout to the last")}


def _written_elsewhere(view: _Connections, number: int, gone: Found) -> Found:
    value = view.node(number).inputs[0].value
    producer, wanted = view.producers[value], view.written(number)
    if producer is None or wanted is None or len(view.readers[value]) != 1 or not _is_same_type(view, number):
        return {}
    node, source = view.node(producer), view.source(number)
    for other in view.alike_writing(producer, wanted):
        made = view.graph.values[other.outputs[0]]
        if view.operand_layouts(other) == view.operand_layouts(node) and _speaks_for(made, source, wanted):
            reason = f"{other}, which is like {node}, writes {made.layout_name} itself"
            return {number: Avoidable(reason, f"for {node} to write {made.layout_name}, too")}
    return {}


def _read_elsewhere(view: _Connections, number: int, gone: Found) -> Found:
    wanted, readers = view.read(number), view.result_readers(number)
    if wanted is None or not readers or not _is_same_type(view, number):
        return {}
    reasons: dict[str, str] = {}
    for reader, operand in readers:
        found = _reader_like(view, reader, operand, wanted)
        if found is None:
            return {}
        node = view.node(reader)
        reasons[f"{found[0]}, which is like {node}, reads {found[1]} itself"] = (
            f"{node} to read {found[1]}, too"
        )
    return {number: Avoidable("; ".join(reasons), "for " + ", ".join(dict.fromkeys(reasons.values())))}


def _reader_like(
    view: _Connections, reader: int, operand: Operand, wanted: Format
) -> tuple[Node, str] | None:
    """Another node like `reader`, all of whose layouts are the same but `wanted` at `operand`, and its name."""
    node, value = view.node(reader), view.graph.values[operand.value]
    if operand.read_as is not None:
        wanted = permuted(wanted, operand.read_as)
    for other in view.alike_reading(reader, operand.slot, wanted, value.dtype):
        same = [o for o in other.inputs if o.slot == operand.slot and o.value not in view.constants]
        if len(same) != 1:
            continue
        if view.operand_layouts(other, operand.slot) != view.operand_layouts(node, operand.slot):
            continue
        read = view.graph.values[same[0].value]
        if view.result_layouts(other) == view.result_layouts(node) and _speaks_for(read, value, wanted):
            return other, read.layout_name if same[0].read_as is None else format_text(wanted)
    return None


def _speaks_for(witness: Value, value: Value, wanted: Format) -> bool:
    """Whether that a node takes `witness`, in the layout `wanted`, says that one like it takes `value` so.

    Of a tensor for which the layout of `value` is the same memory it says nothing; nor where `wanted` has blocks that
    the one tensor fills and the other does not.
    """
    if witness.shape is None or value.shape is None or len(witness.shape) != len(value.shape):
        return False
    if value.layout is None or _same_memory(witness, wanted, value.layout):
        return False
    return all(
        block == 1
        or one == other
        or (one is not None and other is not None and one % block == other % block == 0)
        for block, one, other in zip(wanted.blocks(), witness.shape, value.shape, strict=True)
    )


def _is_same_type(view: _Connections, number: int) -> bool:
    return view.source(number).dtype == view.destination(number).dtype


# --- Explanations -----------------------------------------------------------------------------------------------


def _explained(view: _Connections, number: int, avoidable: Avoidable | None) -> Copy:
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


def _described(view: _Connections, number: int | None) -> str:
    if number is None:
        return "the program"
    node = view.node(number)
    return f"the caller ({node.name})" if node.role in ("input", "output") else str(node)


def _change(view: _Connections, number: int) -> str:
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
    view: _Connections, number: int, origin: int | None, users: Sequence[int], avoidable: Avoidable | None
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


def _others(view: _Connections, number: int | None) -> str:
    """How many nodes like this one there are, none of which is a witness."""
    count = 0 if number is None else sum(1 for _ in view.alike(number))
    return f" ({count} more like it, none otherwise)" if count else ""


def _name_in_source(view: _Connections, number: int) -> str:
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
