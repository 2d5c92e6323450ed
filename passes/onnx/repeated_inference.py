"""Shape inference that is repeated where more has become known, and nowhere else.

What is stated of a value, or that it is a constant, changes the types of what follows from it, mostly of a few nodes up
to the next one that gives the same as before. ONNX's inference takes a whole model, which is written and read again
for it. So here it is given a model of those nodes alone: that the types of their operands are known is all that it
needs, and what computes the integers that they read.

1. A node is inferred again where its operand has another type, where what is stated of its result is new, or where
   inference may know other elements of an operand (`propagated_elements`).
2. Beside it stand the nodes that give such elements, back to where these come from: a Shape, or constants. Their types
   are known, and stated.
3. Where the result has the type that it had, and no elements that inference may know, nothing follows from it.

The types are then those that inference of the whole graph finds, but for the names of extents that it makes up
(unk__0): which of these are equal is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.inference_in_parts import part_of
from layout_ir.frontends.onnx.made_up_extents import dims_of, is_made_up, names_made_up
from layout_ir.frontends.onnx.propagated_elements import Links, integers_of
from layout_ir.frontends.onnx.shape_inference import infer_shapes, needs_type
from layout_ir.passes.onnx.orders import Shape, is_static
from layout_ir.passes.onnx.value_shapes import Shapes
from layout_ir.passes.onnx.whole_inference import TensorTypes, WholeInference, merged, state_types

if TYPE_CHECKING:
    import onnx

WORTH = 8
"""All nodes are inferred where single ones would be more than this part of them: of a GPT-2 one node takes 15 us alone,
and 6 us among all of them, and what was inferred before it came to that is lost."""


def can_repeat(model: onnx.ModelProto) -> bool:
    """Whether the inference of a model of one graph may be repeated for single nodes: not where functions or nodes
    that inference sees late (`needs_type`) are among them."""
    return not model.functions and not any(map(needs_type, {node.op_type for node in model.graph.node}))


class RepeatedInference:
    """The types of the values of a model of one graph, of which those are inferred anew that follow from what is
    stated."""

    def __init__(self, model: onnx.ModelProto, types: dict[str, onnx.TypeProto], fixed: frozenset[str]):
        """`model` says nothing of inner values; `types` are those that inference finds of it. `fixed` are values of the
        model that have become constants in it."""
        self.model = model
        self.types = types
        self.links = Links(model)
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self.fixed = fixed
        """The values that have become constants, which nodes may give all the same."""
        self._dropped: frozenset[int] = frozenset()
        """The nodes that nobody needs because of it."""
        self._propagated: tuple[set[str], set[int]] | None = None
        """The values of which inference may know elements, and the nodes that give them, where they were asked for."""
        self.stated = {value.name: value.type for value in model.graph.output if value.HasField("type")}
        self._born: dict[str, str] | None = None
        """The value for which inference made up the name of an extent, by that name."""
        self._count = 0
        self._taken: set[str] = set()
        """The names of extents that somebody else gave."""
        for value in model.graph.input:
            self._taken.update(names_made_up(value.type))

    def copy(self) -> RepeatedInference:
        """One that goes on from here, whose changes do not show here."""
        found = RepeatedInference.__new__(RepeatedInference)
        found.__dict__.update(self.__dict__)
        found.types, found._constants = dict(self.types), dict(self._constants)
        found.stated, found._taken = dict(self.stated), set(self._taken)
        found._propagated = None
        found._born = None if self._born is None else dict(self._born)
        return found

    @property
    def found(self) -> list[dict[str, onnx.TypeProto]]:
        """The types of values by name, of the one graph."""
        return [self.types]

    @property
    def nodes(self) -> list[list[onnx.NodeProto]]:
        """The nodes of the one graph, without those that constants replace."""
        nodes = self.links.nodes
        if not self._dropped:
            return [nodes]
        return [[node for number, node in enumerate(nodes) if number not in self._dropped]]

    @property
    def constants(self) -> list[dict[str, onnx.TensorProto]]:
        """The constants by name, of the one graph."""
        return [self._constants]

    def used(self) -> set[str]:
        """The values that nodes use."""
        if not self._dropped:
            return set(self.links.users)
        return {n for k, names in enumerate(self.links.inputs) if k not in self._dropped for n in names}

    def add(self, types: Mapping[str, onnx.TypeProto]) -> None:
        """States types of values that nobody uses."""
        self._add_stated_types(types)
        self.types.update({name: merged(self.types.get(name), said) for name, said in types.items()})

    def state(self, types: Sequence[Mapping[str, onnx.TypeProto]]) -> None:
        """States types of values of the one graph, and infers what follows."""
        (said,) = types
        is_new = self._add_stated_types(said)
        if not is_new:
            self._infer_all()
            return
        makers = self.links.makers
        given = {name: type for name, type in said.items() if name not in makers}
        self.types.update(given)
        self._follow({makers[name] for name in said if name in makers}, given)

    def fix(self, tensors: Mapping[str, onnx.TensorProto], *, may_complete: bool = False) -> None:
        """Makes constants of results of nodes. `may_complete` where all extents may have numbers then, and these are
        what the nodes give: what was found with numbers before is not inferred again then."""
        makers, outputs = self.links.makers, self.links.outputs
        self.fixed |= tensors.keys()
        self._propagated = None
        numbers = {makers[name] for name in tensors if name in makers}
        self._dropped |= {number for number in numbers if len(outputs[number]) == 1}
        self._constants = {**tensors, **self._constants}
        types = TensorTypes()
        self.types.update({name: types.of(tensor) for name, tensor in tensors.items()})
        if not (may_complete and self._completes_all_extents()):
            self._follow(set(), tensors)

    def tables(self) -> list[dict[str, onnx.TypeProto]]:
        """The types of values by name, of the one graph, in the order in which a model has them that inference made:
        constants, what is stated of inner values, what was found node by node, results and inputs."""
        return [self._ordered()]

    def _add_stated_types(self, types: Mapping[str, onnx.TypeProto]) -> bool:
        """Keeps what is stated; returns whether the names of its extents that may be made up are not in use."""
        names = {name for type in types.values() for name in names_made_up(type)}
        is_new = not names or names.isdisjoint((*self._taken, *self._names_made_up()))
        self.stated.update(types)
        self._taken |= names
        return is_new

    def _ordered(self) -> dict[str, onnx.TypeProto]:
        graph, types, links = self.model.graph, self.types, self.links
        results = {value.name for value in graph.output}
        found = {name: types[name] for name in self._constants if name in types}
        for names in (self.stated, *links.outputs):
            for name in names:
                if name in types and name not in results:
                    found[name] = types[name]
        for value in (*graph.output, *graph.input):
            if value.name in types:
                found[value.name] = types[value.name]
        return found

    def _follow(self, waiting: set[int], changed: Iterable[str]) -> None:
        """Infers nodes again, and those that use values which have `changed`, until nothing changes."""
        users, outputs, propagating = self.links.users, self.links.outputs, self._propagating()
        for name in changed:
            waiting.update(users.get(name, ()))
        waiting -= self._dropped
        left = len(self.links.nodes) // WORTH
        while waiting:
            beside = self.links.givers(waiting, propagating, but=self.fixed)
            left -= len(waiting) + len(beside)
            inferred = self._inferred(waiting, beside) if left >= 0 else None
            if inferred is None:
                self._infer_all()
                return
            found = self._renamed(*inferred)
            following: set[int] = set()
            for number in waiting:
                for name in outputs[number]:
                    if not name or name in self.fixed:
                        continue
                    before, after = self.types.get(name), found.get(name)
                    is_same = before == after
                    if not is_same and after is not None:
                        self.types[name] = after
                    elif not is_same:
                        del self.types[name]
                    if not is_same or number in propagating:
                        following.update(users.get(name, ()))
            # Of the nodes that were inferred together, each saw what the others give now.
            waiting = following - waiting - self._dropped

    def _completes_all_extents(self) -> bool:
        """Infers the nodes of whose results some extents have no numbers again, all at once, and keeps what is found if
        all extents have numbers then, which is returned: numbers found before are found again. Else nothing changes."""
        shapes, dropped = Shapes(self.types, self._constants), self._dropped
        waiting = {
            number
            for number, names in enumerate(self.links.outputs)
            if number not in dropped and not _are_static(names, shapes)
        }
        inferred = self._inferred(waiting, self.links.givers(waiting, self._propagating(), but=self.fixed))
        if inferred is None:
            return False
        found, _ = inferred
        shapes = Shapes(found, self._constants)
        if not all(_are_static(self.links.outputs[number], shapes) for number in waiting):
            return False
        self.types.update({name: type for name, type in found.items() if name not in self.fixed})
        return True

    def _propagating(self) -> set[int]:
        """The nodes of whose results inference may know elements."""
        if self._propagated is None:
            names, numbers = self.links.propagated
            self._propagated = set(names), set(numbers)
            self.links.propagate(
                integers_of([self._constants[name] for name in self.fixed]), *self._propagated
            )
        return self._propagated[1]

    def _inferred(
        self, numbers: Collection[int], beside: Collection[int]
    ) -> tuple[dict[str, onnx.TypeProto], list[onnx.TypeProto]] | None:
        """The types that inference finds now of the results of these nodes, by name, with others `beside` them, and
        the types that it was told; None where it ends with an error, as it then does for the whole graph."""
        import onnx.shape_inference

        links, types = self.links, self.types
        stated = {
            name: types.get(name) if number in beside or name in self.fixed else self.stated.get(name)
            for number in (*numbers, *beside)
            for name in links.outputs[number]
        }
        part = part_of(self.model, links, (*numbers, *beside), self._constants, types, stated)
        known = [value.type for value in (*part.graph.input, *part.graph.value_info)]
        try:
            values = infer_shapes(part).graph.value_info
        except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
            return None
        results = {value.name: value.type for value in values if value.HasField("type")}
        return {name: results[name] for k in numbers for name in links.outputs[k] if name in results}, known

    def _renamed(
        self, found: dict[str, onnx.TypeProto], known: Iterable[onnx.TypeProto]
    ) -> dict[str, onnx.TypeProto]:
        """The types with other names for the extents for which inference made one up now: that which an extent of the
        same value had for the same reason, or a new one."""
        given: set[str] | None = None
        names: dict[str, str] = {}
        born = self._names_made_up() if any(map(names_made_up, found.values())) else {}
        for value, type in found.items():
            if not names_made_up(type):
                continue
            if given is None:
                given = {name for each in known for name in names_made_up(each)}
            before = self.types.get(value)
            had = list(dims_of(before)) if before is not None else []
            dims = list(dims_of(type))
            for place, dim in enumerate(dims):
                name = dim.dim_param
                if not is_made_up(name) or name in given:
                    continue
                if name not in names:
                    old = had[place].dim_param if len(had) == len(dims) else ""
                    if born.get(old) != value or old in names.values():
                        old = self._fresh()
                        born[old] = value
                    names[name] = old
                dim.dim_param = names[name]
        return found

    def _names_made_up(self) -> dict[str, str]:
        """The value for which inference made up the name of an extent, by that name."""
        if self._born is None:
            self._born = {}
            # By type as it is stored: values of a network have few types.
            known: dict[bytes, list[str]] = {}
            for outputs in self.links.outputs:
                for value in outputs:
                    type = self.types.get(value)
                    if type is None:
                        continue
                    stored = type.SerializeToString()
                    names = known.get(stored)
                    if names is None:
                        names = known[stored] = [n for n in names_made_up(type) if n not in self._taken]
                    for name in names:
                        self._born.setdefault(name, value)
        return self._born

    def _fresh(self) -> str:
        """A name for an extent that no other one has."""
        while True:
            name = f"unk__{self._count}"
            self._count += 1
            if name not in self._taken and name not in self._names_made_up():
                return name

    def _infer_all(self) -> None:
        """Infers the types of all values anew."""
        whole = type(self.model)()
        whole.CopyFrom(self.model)
        graph = whole.graph
        if self._dropped:
            del graph.node[:]
            graph.node.extend(*self.nodes)
        before = {tensor.name for tensor in graph.initializer}
        graph.initializer.extend([tensor for name, tensor in self._constants.items() if name not in before])
        state_types(graph, self.stated)
        (self.types,) = WholeInference(whole, lambda graph: [graph]).found
        self._born = None


def _are_static(names: Sequence[str], shapes: Mapping[str, Shape | None]) -> bool:
    """Whether all extents of the values of these names have numbers; an empty name stands for none."""
    found = [shapes[name] for name in names if name]
    return all(shape is not None and is_static(shape) for shape in found)
