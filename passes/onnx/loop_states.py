"""Loops that carry their states in another order of dims, and read what never changes from outside.

What a Loop or Scan carries from one iteration to the next has one order at both ends of its body, and so has what goes
in and comes out. The choice of orders leaves these as they are: a body that works in another order has a Transpose of a
state at its beginning and one at its end, in every iteration. Here they are put outside, where they happen once:

    s -> [Transpose p, ..., Transpose p'] -> s  =  Transpose p, s' -> [Transpose p', Transpose p, ..., Transpose p',
                                                   Transpose p] -> s', Transpose p'    (p' is the inverse of p)

The choice of orders takes the pairs away that came to lie side by side, or else the loop is left as it was. A value
that the body gives back as it came is a value from outside, and a constant that nobody else uses becomes one of the
body.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from layout_ir.frontends.onnx.functions import domain_of, fresh_name
from layout_ir.frontends.onnx.loop_counts import passed_on, source_of
from layout_ir.frontends.onnx.subgraphs import graphs_of, used_names
from layout_ir.passes.onnx.names_in_use import names_of
from layout_ir.passes.onnx.orders import Order, inverse
from layout_ir.passes.onnx.transposed_operands import stated_perm

if TYPE_CHECKING:
    import onnx


def with_loops_rearranged(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """A copy of a model whose loops carry states in the order in which their bodies use them; None where there is no
    loop with a Transpose of a state."""
    loops = (_loop_of(graph, node, set()) for graph in _graphs(model.graph) for node in graph.node)
    if not any(map(_is_wanted, loops)):
        return None
    copy = type(model)()
    copy.CopyFrom(model)
    names = names_of(copy.graph)
    for graph in _graphs(copy.graph):
        for node in list(graph.node):
            loop = _loop_of(graph, node, names)
            if loop is not None and _is_wanted(loop):
                loop.lift_constants()
                loop.turn_states()
    return copy


def _graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """A graph and its subgraphs, inner ones first."""
    return [found for node in graph.node for inner in graphs_of(node) for found in _graphs(inner)] + [graph]


@dataclass
class _Loop:
    """A Loop or Scan in a graph, and which of its inputs and outputs are states."""

    graph: onnx.GraphProto
    node: onnx.NodeProto
    body: onnx.GraphProto
    names: set[str]
    """All names of the model, none of which a new value may have."""
    first_input: int
    """The number of the input of the node, and of the body, that is the first state."""
    first_result: int
    """The number of the result of the body that is the first state."""
    states: int

    def lift_constants(self) -> None:
        """Drops the states of a Loop that its body gives back as they came."""
        for state in reversed(self.kept_states()):
            self._drop(state)
        read = {name for node in self.body.node for name in used_names(node)}
        read.update(value.name for value in self.body.output)
        for node in [node for node in self.body.node if node.op_type == "Identity"]:
            if read.isdisjoint(node.output):
                self.body.node.remove(node)

    def kept_states(self) -> list[int]:
        """The states that come in from the iteration before as they went into it."""
        if self.node.op_type != "Loop":
            return []
        found: list[int] = []
        results = [value.name for value in self.body.output]
        for state in range(self.states):
            own = self.body.input[self.first_input + state].name
            others = [*results[: self.first_result + state], *results[self.first_result + state + 1 :]]
            is_kept = source_of(results[self.first_result + state], self._passed) == own
            if is_kept and own not in others and self.node.input[self.first_input + state]:
                found.append(state)
        return found

    @cached_property
    def _passed(self) -> dict[str, str]:
        """The value that a node only passes on, by result of the node."""
        return passed_on(self.body)

    def _drop(self, state: int) -> None:
        own = self.body.input[self.first_input + state].name
        outer = self.node.input[self.first_input + state]
        del self.body.input[self.first_input + state]
        del self.body.output[self.first_result + state]
        del self.node.input[self.first_input + state]
        if state < len(self.node.output):
            given = self.node.output.pop(state)
            if self._is_needed(given):
                self.graph.node.insert(self._place + 1, _node("Identity", outer, given))
        self.states -= 1
        tensors = [tensor for tensor in self.graph.initializer if tensor.name == outer]
        if tensors and not self._is_needed(outer) and all(value.name != outer for value in self.graph.input):
            self.body.initializer.append(tensors[0])
            self.graph.initializer.remove(tensors[0])
        for node in self.body.node:
            _rename(node, own, outer)

    @property
    def _place(self) -> int:
        return list(self.graph.node).index(self.node)

    def _is_needed(self, name: str) -> bool:
        """Whether a node of the graph around the loop, or a caller, reads a value."""
        if not name:
            return False
        is_result = any(value.name == name for value in self.graph.output)
        return is_result or any(_uses(node, name) for node in self.graph.node)

    def turn_states(self) -> None:
        """Carries each state in the order in which a Transpose of the body takes it, or gives it."""
        for state in range(self.states):
            order = self.wanted_order(state)
            if order is not None:
                self._turn(state, order)

    def wanted_order(self, state: int) -> Order | None:
        """The order of a state that a Transpose of the body takes or gives; None where there is none."""
        own = self.body.input[self.first_input + state].name
        result = self.body.output[self.first_result + state].name
        given = source_of(result, self._passed)
        for node in self.body.node:
            perm = stated_perm(node)
            if perm is not None and node.input[0] == own:
                return perm
            if perm is not None and node.output[0] == given:
                return inverse(perm)
        return None

    def _turn(self, state: int, order: Order) -> None:
        back, body, node = inverse(order), self.body, self.node
        value, result = body.input[self.first_input + state], body.output[self.first_result + state]
        own, given, outer = value.name, result.name, node.input[self.first_input + state]
        for each in (value, result):
            each.name = self._fresh(f"{each.name}_turned")
            _permute(each, order)
        body.node.insert(0, _node("Transpose", value.name, own, back))
        body.node.append(_node("Transpose", given, result.name, order))
        start = self._fresh(f"{outer}_turned")
        node.input[self.first_input + state] = start
        self.graph.node.insert(self._place, _node("Transpose", outer, start, order))
        end = node.output[state] if state < len(node.output) else ""
        if self._is_needed(end):
            node.output[state] = self._fresh(f"{end}_turned")
            self.graph.node.insert(self._place + 1, _node("Transpose", node.output[state], end, back))

    def _fresh(self, name: str) -> str:
        return fresh_name(name, self.names)


def _loop_of(graph: onnx.GraphProto, node: onnx.NodeProto, names: set[str]) -> _Loop | None:
    """A node as a loop; None where it is none."""
    if domain_of(node.domain) or node.op_type not in ("Loop", "Scan"):
        return None
    bodies = graphs_of(node)
    # Before opset 9, states of a Scan had a batch in front, and the node one input more than its body.
    if len(bodies) != 1 or len(bodies[0].input) != len(node.input):
        return None
    first_input, first_result, scanned = 2, 1, 0
    if node.op_type == "Scan":
        first_input = first_result = 0
        scanned = next(
            (attribute.i for attribute in node.attribute if attribute.name == "num_scan_inputs"), 0
        )
    states = len(node.input) - first_input - scanned
    if not 0 <= states <= len(bodies[0].output) - first_result or scanned < 0:
        return None
    return _Loop(graph, node, bodies[0], names, first_input, first_result, states)


def _is_wanted(loop: _Loop | None) -> bool:
    """Whether there is something to rearrange in a loop: Transposes, and states that they or nothing moves."""
    if loop is None or all(stated_perm(node) is None for node in loop.body.node):
        return False
    return bool(loop.kept_states()) or any(loop.wanted_order(k) is not None for k in range(loop.states))


def _node(op_type: str, source: str, target: str, perm: Order | None = None) -> onnx.NodeProto:
    import onnx.helper

    attributes: dict[str, Any] = {} if perm is None else {"perm": perm}
    return onnx.helper.make_node(op_type, [source], [target], **attributes)


def _uses(node: onnx.NodeProto, name: str) -> int:
    """How often a node, or one in its subgraphs, reads a value."""
    inner = sum(_uses(each, name) for graph in graphs_of(node) for each in graph.node)
    return inner + list(node.input).count(name)


def _rename(node: onnx.NodeProto, name: str, new: str) -> None:
    """Has a node, and those in its subgraphs, read another value."""
    for number, given in enumerate(node.input):
        if given == name:
            node.input[number] = new
    for graph in graphs_of(node):
        for each in graph.node:
            _rename(each, name, new)


def _permute(value: onnx.ValueInfoProto, order: Order) -> None:
    """Puts the extents of a value into another order, as far as they are stated."""
    shape = value.type.tensor_type.shape
    dims = [type(dim).FromString(dim.SerializeToString()) for dim in shape.dim]
    if len(dims) == len(order):
        del shape.dim[:]
        shape.dim.extend(dims[d] for d in order)
