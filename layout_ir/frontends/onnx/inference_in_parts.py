"""Shape inference of a graph in parts: the nodes of a part are inferred once the types of those before are known.

ONNX's inference takes a whole model. So a part is a model of its own, whose inputs are what its nodes use of other
parts, with the types that were found. Of a few integers, inference knows the elements beside the types: the nodes that
give such to a part stand in it, too (`propagated_elements`). So each node is inferred in its own part and, where it
computes extents, in those that use them.

The types are those that inference of the whole graph finds, but for the names of extents that it makes up (unk__0):
which of these are equal is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.made_up_extents import (
    PREFIX,
    dims_of,
    is_made_up,
    may_have_made_up,
    names_made_up,
)
from layout_ir.frontends.onnx.negative_extents import has_negative_extent
from layout_ir.frontends.onnx.propagated_elements import Links
from layout_ir.frontends.onnx.subgraphs import WITH_SUBGRAPHS, graphs_of, graphs_within

if TYPE_CHECKING:
    import onnx


def infer_in_parts(
    model: onnx.ModelProto, parts: Sequence[int], infer: Callable[[onnx.ModelProto], onnx.ModelProto]
) -> tuple[onnx.ModelProto, list[onnx.NodeProto]]:
    """A copy of `model`, which has no functions, with the types that `infer` finds; and the nodes of its graph for
    whose results it has computed an extent below 0, of which nothing is found.

    `parts` has the part of each node, a number: none of a later part than those that use its results. The nodes of the
    last part are not asked for extents below 0.
    """
    inference = _Parts(model, infer)
    members: dict[int, list[int]] = {}
    for node, part in enumerate(parts):
        members.setdefault(part, []).append(node)
    for part, nodes in sorted(members.items()):
        inference.infer(nodes, is_last=part == max(members))
    return inference.result(), [inference.links.nodes[number] for number in sorted(inference.left_out)]


def part_of(
    model: onnx.ModelProto,
    links: Links,
    nodes: Collection[int],
    constants: Mapping[str, onnx.TensorProto],
    types: Mapping[str, onnx.TypeProto],
    stated: Mapping[str, onnx.TypeProto | None],
    overridable: Container[str] = (),
) -> onnx.ModelProto:
    """A model of these nodes of the graph of `model` alone, for inference.

    It has the `constants` that they use, and the `types` of other operands that are known; of results it says what is
    `stated`. Constants that are `overridable` are inputs, too.
    """
    import onnx

    part = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    graph = part.graph
    own = sorted(nodes)
    graph.node.extend([links.nodes[number] for number in own])
    made = {name for number in own for name in links.outputs[number]}
    for name in dict.fromkeys(name for number in own for name in links.inputs[number]):
        is_constant = name in constants
        if is_constant:
            graph.initializer.append(constants[name])
        if name and name in types and name not in made and (not is_constant or name in overridable):
            graph.input.add(name=name, type=types[name])
    for name in (name for number in own for name in links.outputs[number]):
        type = stated.get(name)
        if type is not None:
            graph.value_info.add(name=name, type=type)
    return part


class _Parts:
    """The types of the values of a graph, which become known part by part."""

    def __init__(self, model: onnx.ModelProto, infer: Callable[[onnx.ModelProto], onnx.ModelProto]):
        graph = model.graph
        self.model = model
        self.links = Links(model)
        self._nested: dict[int, onnx.NodeProto] = {}
        """The nodes with subgraphs, which have what is known of inner values."""
        self.left_out: set[int] = set()
        """The nodes that inference does not see."""
        self._infer = infer
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._overridable = {value.name for value in graph.input} & self._constants.keys()
        """The constants that calls may give another value of their type."""
        values = (*graph.value_info, *graph.output)
        self._stated = {value.name: value.type for value in values if value.HasField("type")}
        """What the graph says itself of results of its nodes."""
        self._types = self._stated | {
            value.name: value.type for value in graph.input if value.HasField("type")
        }
        """What is known of inputs and results."""
        self._made_up = {name for type in self._types.values() for name in names_made_up(type)}
        """The names of extents that are in use among those that inference may make up."""

    def infer(self, nodes: Sequence[int], is_last: bool) -> None:
        """Infers a part; once more without those of its nodes that give extents below 0, until there are none."""
        while True:
            seen = [number for number in nodes if number not in self.left_out]
            found = self._found(seen)
            negative = (
                set[str]() if is_last else {n for n, type in found.items() if has_negative_extent(type)}
            )
            makers = [n for n in seen if not negative.isdisjoint(self.links.outputs[n])] if negative else []
            if not makers:
                self._types.update(found)
                return
            self.left_out.update(makers)

    def result(self) -> onnx.ModelProto:
        """A copy of the model with the types that are known."""
        model = type(self.model)()
        model.CopyFrom(self.model)
        graph = model.graph
        for value in (*graph.value_info, *graph.output):
            if value.name in self._types:
                value.type.CopyFrom(self._types[value.name])
        for number, node in self._nested.items():
            graph.node[number].CopyFrom(node)
        said = {value.name for value in (*graph.value_info, *graph.output, *graph.input)}
        for name in (name for names in self.links.outputs for name in names):
            if name in self._types and name not in said:
                graph.value_info.add(name=name, type=self._types[name])
        return model

    def _found(self, nodes: Collection[int]) -> dict[str, onnx.TypeProto]:
        """The types of the results of nodes that are seen."""
        links, (_, propagating) = self.links, self.links.propagated
        beside = links.givers(nodes, propagating) - self.left_out
        outputs = links.outputs
        stated = {name: self._stated.get(name) for number in nodes for name in outputs[number]}
        stated |= {name: self._types.get(name) for number in beside for name in outputs[number]}
        own = sorted((*nodes, *beside))
        part = part_of(self.model, links, own, self._constants, self._types, stated, self._overridable)
        graph = self._infer(part).graph
        results = {value.name: value.type for value in graph.value_info}
        found = {name: results[name] for k in nodes for name in outputs[k] if name in results}
        nested = {k: node for k, node in zip(own, graph.node, strict=True) if node.op_type in WITH_SUBGRAPHS}
        bodies = (
            body for node in nested.values() for inner in graphs_of(node) for body in graphs_within(inner)
        )
        inside = [value.type for body in bodies for value in (*body.input, *body.value_info, *body.output)]
        if may_have_made_up(graph):
            values = (*part.graph.input, *part.graph.value_info)
            given = {name for value in values for name in names_made_up(value.type)}
            self._rename((*found.values(), *inside), given)
        self._nested |= nested
        return found

    def _rename(self, types: Iterable[onnx.TypeProto], given: Collection[str]) -> None:
        """Gives extents whose names were made up for this part, which are those that were not `given` to it, names that
        no other part has."""
        names: dict[str, str] = {}
        for dim in (dim for type in types if names_made_up(type) for dim in dims_of(type)):
            name = dim.dim_param
            if is_made_up(name) and name not in given:
                if name not in names:
                    names[name] = self._fresh()
                dim.dim_param = names[name]

    def _fresh(self) -> str:
        number = len(self._made_up)
        while (name := f"{PREFIX}{number}") in self._made_up:
            number += 1
        self._made_up.add(name)
        return name
