"""What rules about copies ask of an `ExecutionGraph`: who makes and who reads a value, and which nodes are alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from layout_ir.algebra.format import Format
from layout_ir.execution_graphs.execution_graph import (
    ExecutionGraph,
    Node,
    Operand,
    Value,
    permuted,
)
from layout_ir.passes.onnx.orders import inverse


class Connections:
    """The producers and readers of a graph's values, its copies and their layouts, and its ops by what they compute."""

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
        """Node `number` of the graph."""
        return self.graph.nodes[number]

    def source(self, number: int) -> Value:
        """The value that copy `number` reads."""
        return self.graph.values[self.node(number).inputs[0].value]

    def destination(self, number: int) -> Value:
        """The value that copy `number` writes."""
        return self.graph.values[self.node(number).outputs[0]]

    def result_readers(self, number: int) -> list[tuple[int, Operand]]:
        """The nodes that read what copy `number` writes, each with the operand as which it does."""
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
        """The other ops that compute what op `number` does, on activations of any shapes and layouts."""
        if number not in self._classes:
            return ()
        return (self.node(other) for other in self._same_kind[self._classes[number]] if other != number)

    def alike_reading(self, number: int, slot: str, layout: Format, dtype: str | None) -> Iterable[Node]:
        """The ops of `alike` that read the operand `slot`, which is no constant, in that layout."""
        found = self._readers_of.get((self._classes.get(number), slot, (bare(layout), dtype)), ())
        return (self.node(other) for other in found if other != number)

    def alike_writing(self, number: int, layout: Format) -> Iterable[Node]:
        """The ops of `alike` that write that layout, and nothing else."""
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
