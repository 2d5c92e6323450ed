"""Of which values ONNX's inference may know elements, beside their types: integers that are computed from extents.

A Reshape has the extents that nodes compute from those of other tensors. Inference follows them through a few operators
(its propagation of data), as long as it knows those that they are computed from: constants, or what a Shape says.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.subgraphs import WITH_SUBGRAPHS, used_names

if TYPE_CHECKING:
    import onnx

_RULES = {
    "Constant": "none", "Shape": "none", "Size": "none",
    "Gather": "first", "Slice": "first", "Squeeze": "first", "Unsqueeze": "first",
    "Add": "all", "Mul": "all", "Sub": "all",
}  # fmt: skip
"""The operands of which inference must know elements to know those of the result: none, the first, or all. Of one is
enough for a Concat, and assumed to be for all others."""

_INTEGERS = (6, 7)
"""INT32 and INT64, as TensorProto numbers element types: inference looks at constants of these."""


@lru_cache(maxsize=1024)
def _rule(op_type: str, version: int, domain: str) -> str | None:
    """The operands of which inference must know elements to know those of the result: "none", "first", "all" or "any";
    None where it never does."""
    import onnx.defs

    if op_type == "Constant":
        return _RULES[op_type]
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    return _RULES.get(op_type, "any") if schema.has_data_propagation_function else None


class Links:
    """Who makes the values of a graph, who uses them, and of which inference may know elements with which others."""

    def __init__(self, model: onnx.ModelProto):
        self._opsets = {domain_of(entry.domain): entry.version for entry in model.opset_import}
        self._constants = model.graph.initializer
        self.nodes = model.graph.node[:]

    @cached_property
    def inputs(self) -> list[tuple[str, ...]]:
        """The operands of each node, those that its subgraphs use among them."""
        return [
            tuple(used_names(node) if node.op_type in WITH_SUBGRAPHS else node.input[:])
            for node in self.nodes
        ]

    @cached_property
    def outputs(self) -> list[tuple[str, ...]]:
        """The results of each node."""
        return [tuple(node.output[:]) for node in self.nodes]

    @cached_property
    def makers(self) -> dict[str, int]:
        """The node that makes a value."""
        return {name: number for number, names in enumerate(self.outputs) for name in names}

    @cached_property
    def users(self) -> dict[str, list[int]]:
        """The nodes that use a value."""
        users: dict[str, list[int]] = {}
        for number, names in enumerate(self.inputs):
            for name in names:
                users.setdefault(name, []).append(number)
        return users

    @cached_property
    def _rules(self) -> list[str | None]:
        """Per node, of which operands inference must know elements to know those of the result; None where it never
        does."""
        opsets = self._opsets
        domains = [domain_of(node.domain) for node in self.nodes]
        return [_rule(n.op_type, opsets.get(d, 1), d) for n, d in zip(self.nodes, domains, strict=True)]

    @cached_property
    def propagated(self) -> tuple[set[str], set[int]]:
        """The values of which inference may know elements, and the nodes that give them."""
        names, numbers = set[str](), {number for number, rule in enumerate(self._rules) if rule == "none"}
        given = [name for number in numbers for name in self.outputs[number]]
        self.propagate([*given, *integers_of(self._constants)], names, numbers)
        return names, numbers

    def propagate(self, names: Iterable[str], propagated: set[str], propagating: set[int]) -> None:
        """Adds values of which inference may know elements, and all that follow: names to `propagated`, nodes to
        `propagating`."""
        waiting = [*names]
        while waiting:
            name = waiting.pop()
            if name in propagated:
                continue
            propagated.add(name)
            for number in self.users.get(name, ()):
                if number not in propagating and self._follows(number, propagated):
                    propagating.add(number)
                    waiting += self.outputs[number]

    def givers(
        self, numbers: Collection[int], propagating: Container[int], but: Container[str] = ()
    ) -> set[int]:
        """The other nodes that give elements to operands of these, which inference may know; not those of values that
        are in `but`. `propagating` are the nodes of which inference may know elements."""
        found = set[int]()
        waiting, own = list(numbers), frozenset(numbers)
        inputs, makers = self.inputs, self.makers
        while waiting:
            for name in inputs[waiting.pop()]:
                maker = makers.get(name)
                if maker is None or maker not in propagating or name in but:
                    continue
                if maker not in own and maker not in found:
                    found.add(maker)
                    waiting.append(maker)
        return found

    def _follows(self, number: int, propagated: set[str]) -> bool:
        """Whether inference may know elements of the results of a node, one of whose operands is `propagated`."""
        rule, names = self._rules[number], self.inputs[number]
        if rule == "first":
            return names[0] in propagated
        return rule == "any" or (rule == "all" and propagated.issuperset(names))


def integers_of(tensors: Iterable[onnx.TensorProto]) -> list[str]:
    """The constants whose elements inference takes for extents."""
    return [tensor.name for tensor in tensors if tensor.data_type in _INTEGERS and len(tensor.dims) < 2]
