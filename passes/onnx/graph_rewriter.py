"""The graph after the choice: nodes on the orders chosen, Transposes where orders differ, constants in new orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from layout_ir.frontends.onnx.made_up_extents import is_made_up
from layout_ir.passes.onnx.blocked_channels import (
    NCHWC_DOMAIN,
    blocked_elements,
    channels_last,
    channels_second,
    is_blocked,
    padded_channels,
)
from layout_ir.passes.onnx.blocked_fusion import fused
from layout_ir.passes.onnx.graph_output import GraphOutput, NodeWriter
from layout_ir.passes.onnx.merged_gathers import merge_gathers
from layout_ir.passes.onnx.model_constants import PendingTensor, constant_tensor
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.node_option import NodeOption
from layout_ir.passes.onnx.order_plan import Place, Plan
from layout_ir.passes.onnx.orders import (
    Order,
    Shape,
    compose,
    identity,
    is_identity,
    is_same_shape,
    transposition,
)

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


class GraphRewriter:
    """Writes one graph after a plan."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.graph = plan.graph
        self.values = plan.values
        self.out = GraphOutput(self.graph.fresh)
        self.names: dict[Place, str] = self._fixed_names()
        self.taken = set(self.names.values())
        """Names that stand for one tensor and no other."""
        self.there: set[str] = set()
        """Names of tensors that are written already."""
        self.copied: set[str] = set()
        """Constants that live on in the order of the model."""
        self.origins: list[Node | None] = []
        """Per node that was written, the one that it is; None for one that is new."""
        self.kept: set[int] = set()
        """The nodes that were written as they were, on the same tensors, by identity."""
        self.types: list[onnx.ValueInfoProto] = []
        """What is to be said of values that shape inference does not know."""
        self.squeezed: dict[str, Place] = {}
        """By name of a tensor between a Squeeze and an Unsqueeze that stand for a reorder: the value of the model that
        it is but for dims of one element, and in which order."""
        self.aliases: dict[str, Place] = {}
        """The tensors that have a second name, by that."""
        self._plain: dict[int, tuple[NodeOption, bool]] = {}
        """Each option, and whether it is on the orders of the model, by identity of the option."""
        self._with_ones: dict[tuple[Place, tuple[int, ...]], str] = {}
        """Constants that have more dims of one element, by the axes of those."""
        self._makers = {
            name: node.proto
            for node in self.values.nodes
            if node.op_type == "Constant"
            for name in node.outputs
        }

    def _fixed_names(self) -> dict[Place, str]:
        """The tensors whose names callers know: inputs as they are given, results as they are asked for."""
        found: dict[Place, str] = {}
        proto = self.graph.proto
        for value in proto.input:
            if value.name not in self.graph.constants:
                member = self.values.member(value.name)
                found[value.name, self.plan.made.get(value.name, member.order)] = value.name
        made = {name for node in self.values.nodes for name in node.outputs}
        for value in proto.output:
            member = self.values.member(value.name)
            if member.root not in made and member.root not in self.graph.constants:
                # It comes from outside of the graph: a result that equals it is another tensor.
                own = self.values.member(member.root).order
                found.setdefault((member.root, self.plan.made.get(member.root, own)), member.root)
            found.setdefault((member.root, self.plan.outputs.get(value.name, member.order)), value.name)
        return found

    def name(self, place: Place) -> str:
        """The name of a tensor: that which the value has in this order in the model, or one of its own."""
        found = self.names.get(place)
        if found is None:
            root, order = place
            members, taken = self.values.members, self.taken
            for name in self.values.names.get(root, (root,)):
                if name not in taken and members[name].order == order:
                    found = name
                    break
            else:
                found = self.out.fresh(f"{root}_order{''.join(map(str, order))}")
            self.names[place] = found
        return found

    @cached_property
    def places(self) -> dict[str, Place]:
        """The value of the model that each written tensor is, and in which order, by name of the tensor."""
        return {name: place for place, name in self.names.items()} | self.aliases

    def write(self) -> None:
        """Writes the new graph into the place of the old one."""
        self._write_nodes()
        self._state_claimed()
        _replace_graph(self.graph.proto, self.out, self._dropped(), self.types)

    def _write_nodes(self) -> None:
        proto = self.graph.proto
        sparse = [tensor.values.name for tensor in proto.sparse_initializer]
        given = [*(v.name for v in proto.input), *(t.name for t in proto.initializer), *sparse]
        self.there.update(name for name in given if name not in self.graph.constants)
        self.there.update(self.graph.outer_constants)
        nodes, origins = self.out.nodes, self.origins
        for node in self.values.nodes:
            count = len(nodes)
            self._write_node(node)
            if len(nodes) == count + 1:
                origins.append(node)
                continue
            written = nodes[count:]
            # What it needs is written in front of it; what puts its result in order, of another operator, behind it.
            alike = [k for k, proto in enumerate(written) if proto.op_type == node.op_type]
            own = alike[-1] if alike else len(written) - 1
            origins += [node if k == own else None for k in range(len(written))]
        for value in proto.output:
            self._alias(value.name)
        self.origins += [None] * (len(self.out.nodes) - len(self.origins))
        captured = [name for node in self.values.nodes for name in node.captures]
        kept = {*captured, *(value.name for value in proto.output)}
        idle = merge_gathers(self.out, kept, self._small_constant)
        if idle:
            self.out.nodes[:] = [node for k, node in enumerate(self.out.nodes) if k not in idle]
            self.origins[:] = [node for k, node in enumerate(self.origins) if k not in idle]
        if self.plan.has_blocks:
            self._fuse(kept)

    def _state_claimed(self) -> None:
        """States the types that are known because the model stated them, of its values under other names."""
        claimed = self.graph.claimed
        for (root, order), name in self.names.items() if claimed else ():
            shape = self.graph.shape(root)
            if root in claimed and name not in claimed and name in self.there and shape is not None:
                self._state_type(name, shape, self.graph.element_type(root), order)

    def _small_constant(self, name: str) -> NDArray[Any] | None:
        """The elements of a small constant of the model; None for any other tensor."""
        return self.graph.small_constant(name) if name in self.graph.constants else None

    def _fuse(self, kept: set[str]) -> None:
        """Has blocked convolutions take in what they can; weights that were packed are not needed any more."""
        self.out.nodes = fused(self.out, kept, self._blocked_alike(), self._small_constant)
        needed = {*(name for node in self.out.nodes for name in node.input), *kept}
        self.copied &= needed
        self.out.initializers = [tensor for tensor in self.out.initializers if tensor.name in needed]

    def _dropped(self) -> set[str]:
        """The initializers that nobody needs any more in the order of the model."""
        found = self.graph.initializers.keys() - self.copied
        if not found:
            return found
        # What nobody used before is not for us to drop: somebody else may know it by name.
        used = {name for node in self.graph.nodes_of_model for name in (*node.inputs, *node.captures)}
        return found & used

    def _blocked_alike(self) -> Callable[[str, str], bool]:
        """Tells of the names of two tensors whether both are blocked, in one order, and of one shape."""
        places = {name: place for place, name in self.names.items() if is_blocked(place[1])}

        def are_alike(one: str, other: str) -> bool:
            if one not in places or other not in places:
                return False
            (first, order), (second, other_order) = places[one], places[other]
            return order == other_order and is_same_shape(self.graph.shape(first), self.graph.shape(second))

        return are_alike

    def _alias(self, name: str) -> None:
        """Makes the tensor that has exactly this name, which the graph or a subgraph asks for."""
        if name in self.there:
            return
        member = self.values.member(name)
        order = self.plan.outputs.get(name, member.order)
        found = self.need((member.root, order))
        if found != name:
            self.aliases[name] = (member.root, order)
            self.out.add("Identity", [found], name)
            self.there.add(name)

    def need(self, place: Place) -> str:
        """The name of a tensor, which is written now unless it is there."""
        name = self.name(place)
        if name in self.there:
            return name
        if place[0] in self.graph.constants:
            return self._constant(place, name)
        source = self.plan.origin.get(place)
        if source is None:
            return name  # a value from outside of the graph
        name = self._move(self.need(source), source[1], name, place)
        self.there.add(name)
        return name

    def _move(self, source: str, before: Order, name: str, place: Place) -> str:
        """A Transpose, a Reshape where only dims of one element move, or a reorder into blocks or out of them.

        Returns the name of the tensor, which is the source where that has its shape and bytes already.
        """
        root, after = place
        shape = self.graph.shape(root)
        if shape is not None and self.plan.is_reshape(root, before, after):
            # A blocked tensor has the shape of the plain one that has its channels second.
            before, after = (channels_second(o) if is_blocked(o) else o for o in (before, after))
            if before != after:
                place = root, after
                self._move_units(source, before, name, place, shape)
                # Inference makes up a new name for the extent that a Reshape leaves open.
                if any(isinstance(n, str) for n in shape):
                    self._state_type(name, shape, self.graph.element_type(root), after)
            elif name in self.taken:
                self.out.add("Identity", [source], name)
            else:
                self.names[place] = source
                return source
            return name
        if is_blocked(before) or is_blocked(after):
            self._reorder(source, before, name, after, shape)
            if shape is not None:
                self._state_type(name, shape, self.graph.element_type(root), after)
            return name
        replaced = self.values.transposes.get(name)
        self.out.add("Transpose", [source], name, perm=list(transposition(before, after)))
        if replaced is not None:
            node = self.out.nodes[-1]
            node.name, node.doc_string = replaced.proto.name, replaced.proto.doc_string
            node.metadata_props.extend(replaced.proto.metadata_props)
        return name

    def _reorder(self, source: str, before: Order, name: str, after: Order, shape: Shape | None) -> None:
        """A ReorderInput, or a ReorderOutput; the other side has its channels second or last."""
        order, plain = (after, before) if is_blocked(after) else (before, after)
        last = int(plain == channels_last(order) != channels_second(order))
        if is_blocked(after):
            self.out.add("ReorderInput", [source], name, domain=NCHWC_DOMAIN, channels_last=last)
            return
        channels = shape[order[1]] if shape is not None else None
        self.out.add(
            "ReorderOutput", [source], name, domain=NCHWC_DOMAIN, channels_last=last, channels=channels
        )

    def _move_units(self, source: str, before: Order, name: str, place: Place, shape: Shape) -> None:
        """A Reshape; where several extents are not known, dims of one element go, and come elsewhere."""
        root, after = place
        numbers = [n if isinstance(n, int) else -1 for n in (shape[d] for d in after)]
        if numbers.count(-1) <= 1 and 0 not in numbers:
            self.out.add("Reshape", [source, self.out.ints(numbers)], name)
            return
        bare = self.out.fresh(f"{name}_squeezed")
        self.squeezed[bare] = root, before
        for op_type, order, given, made in (
            ("Squeeze", before, source, bare),
            ("Unsqueeze", after, bare, name),
        ):
            axes = [k for k, d in enumerate(order) if shape[d] == 1]
            self.out.add_view(op_type, given, made, axes, self.graph.opsets.get("", 1))

    def _constant(self, place: Place, name: str) -> str:
        root, order = place
        self.there.add(name)
        if is_identity(order) and name == root and root not in self.graph.folded:
            self.copied.add(root)
            maker = self._constant_node(root)
            if maker is not None:
                self.out.nodes.append(maker)
            return name
        tensor = self.graph.constants[root]
        stored, before, weights = self.graph.pending.get(root, PendingTensor(tensor, identity(len(order))))
        is_stored = root not in self.graph.folded and stored.data_location == stored.EXTERNAL
        if is_stored and not is_blocked(order):
            dims = [tensor.dims[d] for d in order]
            self.graph.pending[name] = PendingTensor(stored, compose(before, order), weights)
            self.out.initializers.append(
                type(tensor)(name=name, data_type=tensor.data_type, dims=dims, data_location=tensor.EXTERNAL)
            )
            return name
        array = self.graph.elements(root)
        if is_blocked(order):
            array = blocked_elements(array, order, self.plan.problem.consumer.block)
        else:
            array = array.transpose(order)
        self.out.initializers.append(constant_tensor(array, name))
        return name

    def _constant_node(self, root: str) -> onnx.NodeProto | None:
        if root in self.graph.initializers:
            return None
        return self._makers[root]

    def _write_node(self, node: Node) -> None:
        if node.op_type == "Constant" and node.outputs[0] in self.graph.constants:
            return  # written where it is needed first
        option = self.plan.options.get(id(node))
        if option is None:
            # All its values lie in one order each: a node that has a value with several has options.
            if not self.plan.has_blocks:
                self._keep_node(node)
                return
            option = NodeOption(*node.plain_orders)
        for name in node.captures:
            self._alias(name)
        names, there = self.names, self.there
        inputs: list[str] = []
        for name, order in zip(node.inputs, option.ins, strict=True):
            if name:
                place = self._place(name, order)
                written = names.get(place)
                name = written if written in there else self.need(place)
            inputs.append(name)
        outputs: list[str] = []
        for name, order in zip(node.outputs, option.outs, strict=True):
            if name:
                place = self._place(name, order)
                name = names.get(place) or self.name(place)
            outputs.append(name)
        is_plain = self._is_plain(option)
        model = None if is_plain else self.plan.models.get(id(node))
        is_renamed = tuple(inputs) != node.inputs or tuple(outputs) != node.outputs
        if model is None and not is_renamed and not self.plan.has_blocks:
            self.out.nodes.append(node.proto)
            if is_plain:
                self.kept.add(id(node))
        else:
            writer = NodeWriter(
                node, self.out, inputs, outputs, lambda k, axes: self._reshaped(node, option, k, axes)
            )
            self.out.nodes.append(writer.copy() if model is None else model.write(node, option, writer))
            if model is not None and self.out.nodes[-1].domain != node.proto.domain:
                self._state_types(node, option, outputs)
        there.update(outputs)

    def _is_plain(self, option: NodeOption) -> bool:
        """Whether a node runs on the orders of the model."""
        known = self._plain.get(id(option))
        if known is None:
            known = self._plain[id(option)] = option, all(map(is_identity, (*option.ins, *option.outs)))
        return known[1]

    def _place(self, name: str, order: Order) -> Place:
        """The tensor of the value of this name that lies in an order; () is that of the name itself."""
        root, own, is_root = self.values.members[name]
        return root, own if not order else order if is_root else compose(own, order)

    def _keep_node(self, node: Node) -> None:
        """Writes a node as it is, whose values lie in one order each, and so under their own names."""
        members, there, names = self.values.members, self.there, self.names
        for name in node.captures:
            self._alias(name)
        for name in node.inputs:
            if name and name not in there:
                self.need((name, members[name].order))
        for name in node.outputs:
            if name:
                names[name, members[name].order] = name
                there.add(name)
        self.out.nodes.append(node.proto)
        self.kept.add(id(node))

    def _state_types(self, node: Node, option: NodeOption, outputs: Sequence[str]) -> None:
        """States the types of results of an operator that ONNX's shape inference does not know."""
        for name, order, written in zip(node.outputs, option.outs, outputs, strict=True):
            shape = self.graph.shape(name)
            if name and shape is not None:
                self._state_type(written, shape, self.graph.element_type(name), order)

    def _state_type(self, name: str, shape: Shape, element: int, order: Order) -> None:
        """States that tensor `name` is one of this shape in this order, where its element type is known."""
        import onnx.helper

        if element:
            # Names that inference made up for extents (unk__0) mean nothing in a file, unless an input has them, too.
            stated = self.graph.input_extents
            named = [None if is_made_up(n) and n not in stated else n for n in shape]
            extents = [named[d] for d in (channels_second(order) if is_blocked(order) else order)]
            if is_blocked(order):
                extents[1] = padded_channels(extents[1], self.plan.problem.consumer.block)
            self.types.append(onnx.helper.make_tensor_value_info(name, element, extents))

    def _reshaped(self, node: Node, option: NodeOption, number: int, axes: Sequence[int]) -> str | None:
        """A constant input with dims of one element at `axes`; None for a value of the run time."""
        import numpy as np

        member = self.values.member(node.inputs[number])
        if member.root not in self.graph.constants:
            return None
        place = member.root, self.values.root_order(node.inputs[number], option.ins[number])
        key = place, tuple(axes)
        if key not in self._with_ones:
            array = self.graph.elements(member.root).transpose(place[1])
            self._with_ones[key] = self.out.fresh(f"{self.name(place)}_unsqueezed")
            self.out.initializers.append(constant_tensor(np.expand_dims(array, key[1]), self._with_ones[key]))
        return self._with_ones[key]


def _replace_graph(
    graph: onnx.GraphProto, written: GraphOutput, dropped: set[str], types: Sequence[onnx.ValueInfoProto]
) -> None:
    """Gives a graph the nodes, initializers and types of values that were written, and drops what was said of others.

    Initializers that stay are not touched: they may be most of a gibibyte.
    """
    names: set[str] = set()
    if graph.value_info or types or graph.quantization_annotation:
        names.update([name for node in written.nodes for name in node.output[:]])
        names.update(value.name for value in (*graph.input, *graph.output))
    new = type(graph)()
    new.value_info.extend(value for value in graph.value_info if value.name in names)
    stated = {value.name for value in new.value_info}
    new.value_info.extend(value for value in types if value.name in names and value.name not in stated)
    if dropped:
        places = [number for number, tensor in enumerate(graph.initializer) if tensor.name in dropped]
        for number in reversed(places):
            del graph.initializer[number]
    graph.initializer.extend(written.initializers)
    if graph.quantization_annotation:
        known = names | {tensor.name for tensor in graph.initializer}
        new.quantization_annotation.extend(
            entry for entry in graph.quantization_annotation if entry.tensor_name in known
        )
    del graph.node[:], graph.value_info[:], graph.quantization_annotation[:]
    graph.MergeFrom(new)
    graph.node.extend(written.nodes)
