"""Which copies of an execution graph could be done without, by rules that look at a copy and what is next to it.

In the order in which they are tried:

    nobody reads the result                                                    leave it out
    the elements keep their order in memory, and their type                    a view would do
    it gives back what a copy before it was given (undone), or the only
      readers of its result do so; ops between them are elementwise, or run
      in the other layout elsewhere in the file                                drop both
    another copy makes the same of the same value                              one can serve both
    the value is a constant                                                    copy it once, not per run
    it reads the result of a copy that nobody else reads                       one copy can do both
    its producer writes the other layout elsewhere, given the same operands,
      and nobody else reads the value as it is                                 let it do so here
    all its readers read the other layout elsewhere, all else being the same   let them do so here

"Elsewhere" is a witness: another node of the same kind, implementation, attributes and element types, with constants
of the same shapes, on tensors for which the two layouts are different memory and whose blocked dims are as full.
"""

from __future__ import annotations

from dataclasses import dataclass

from layout_ir.algebra.format import Format
from layout_ir.execution_graphs.execution_graph import Node, Operand, Value, format_text, permuted
from layout_ir.execution_graphs.graph_connections import Connections, bare

MOST_STEPS = 64
"""Ops between two copies that are looked through."""

WEIGHT_SLOTS = frozenset(("wei", "wei_layer", "wei_iter", "bia"))
"""The names that oneDNN's log gives to operands that are weights of a network as a rule."""


@dataclass(frozen=True, slots=True)
class Avoidable:
    """Why a copy need not be, and what would remove it."""

    reason: str
    remedy: str


Found = dict[int, Avoidable]


def avoidable_copies(view: Connections) -> dict[int, Avoidable]:
    """The copies that could be done without, by their numbers among the nodes, each by a rule that looks at it and
    what is next to it.

    They can go together, but for those that a witness speaks for: one of these may exclude another. What a choice for
    the whole graph would save beyond them is not in here.
    """
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


def _same_memory(value: Value, one: Format | None, other: Format | None) -> bool:
    """Whether two layouts of the tensor are the same memory, element by element."""
    if one is None or other is None:
        return False
    if bare(one) == bare(other):
        return True
    first, second = value.bound(bare(one)), value.bound(bare(other))
    return first is not None and second is not None and first.same_store(second)


def _unread(view: Connections, number: int, gone: Found) -> Found:
    if view.result_readers(number) or view.graph.values_are_inferred:
        return {}
    return {number: Avoidable("nothing reads the result", "leave it out")}


def _unmoved(view: Connections, number: int, gone: Found) -> Found:
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


def _undone(view: Connections, number: int, gone: Found) -> Found:
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


def _undone_by(view: Connections, first: int, reader: int) -> int | None:
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


def _composes_to_nothing(view: Connections, first: int, second: int) -> bool:
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


def _can_run_in(view: Connections, number: int, layout: Format) -> bool:
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


def _repeated(view: Connections, number: int, gone: Found) -> Found:
    first = next((other for other in view.same_copies(number) if other not in gone), number)
    if first == number:
        return {}
    other = view.node(first)
    return {number: Avoidable(f"{other} makes the same of the same value", f"read the result of {other}")}


def _constant(view: Connections, number: int, gone: Found) -> Found:
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


def _merged(view: Connections, number: int, gone: Found) -> Found:
    before = view.producers[view.node(number).inputs[0].value]
    if before is None or before in gone or view.node(before).role != "copy":
        return {}
    if len(view.result_readers(before)) != 1 or view.source(before).dtype != view.destination(before).dtype:
        return {}  # somebody else reads it; or what was rounded in between would not be
    reason = f"reads what {view.node(before)} has just copied, and nobody else does"
    return {number: Avoidable(reason, "copy once, from the first layout to the last")}


def _written_elsewhere(view: Connections, number: int, gone: Found) -> Found:
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


def _read_elsewhere(view: Connections, number: int, gone: Found) -> Found:
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


def _reader_like(view: Connections, reader: int, operand: Operand, wanted: Format) -> tuple[Node, str] | None:
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


def _is_same_type(view: Connections, number: int) -> bool:
    return view.source(number).dtype == view.destination(number).dtype
