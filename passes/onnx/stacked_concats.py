"""Concats of equal pieces that a Reshape takes apart again, made stacks along a dim of their own.

A channel shuffle is a Concat of m tensors of k channels, a Reshape of m*k channels to (m, k), and a Transpose of the
two. While the m pieces lie one behind the other in one dim, no order of dims says that they are interleaved. As a
stack, the Concat of Unsqueezes along a new dim of m elements, the same value has both orders, and either takes no more
than the copies that the Concat makes anyway:

    Concat [m*k], Reshape [m, k], Transpose [k, m]  =  Unsqueeze [1, k] of each, Concat [m, k], Transpose [k, m]

Between Concat and Reshape there may be Transposes and nodes that work on single elements: they run on the stack. It is
done where a Transpose behind the Reshape tears the two dims apart; elsewhere nothing could be won by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import NamedTuple

from layout_ir.passes.onnx.graph_output import set_attribute
from layout_ir.passes.onnx.model_graph import Graph, Node, transpose_perm
from layout_ir.passes.onnx.node_models.same_order import BY_ELEMENT
from layout_ir.passes.onnx.orders import (
    Extent,
    Order,
    Shape,
    compose,
    identity,
    inverse,
    is_identity,
    is_static,
)


def stack_concats(graph: Graph) -> None:
    """Replaces the Concats of `graph` whose pieces a Reshape takes apart, and the nodes in between."""
    kinds = {node.op_type for node in graph.nodes}
    if not {"Concat", "Reshape", "Transpose"} <= kinds:
        return
    around = _Surroundings(graph)
    replaced: dict[int, list[Node]] = {}
    for node in graph.nodes:
        if node.op_type == "Reshape" and not node.domain:
            found = _stack_of(around, node)
            if found is not None:
                replaced.update(_replacements(graph, around, found))
    if replaced:
        graph.nodes = [new for node in graph.nodes for new in replaced.get(id(node), [node])]


class _Stack(NamedTuple):
    """A Concat that is to be a stack, and what is between it and the Reshape behind it."""

    concat: Node
    path: tuple[Node, ...]
    """The nodes behind the Concat, in order."""
    reshape: Node
    axis: int
    """The axis of the Concat."""
    piece: int
    """The extent of each operand along that."""


class _Surroundings:
    """Who makes and who takes the values of a graph."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.makers = {name: node for node in graph.nodes for name in node.outputs}
        self.others: set[str] = set()
        """Values that are known to come from no Concat."""

    @cached_property
    def fixed(self) -> set[str]:
        """Values that have to be there by name."""
        results = {value.name for value in self.graph.proto.output}
        return results.union(*[node.captures for node in self.graph.nodes if node.captures])

    @cached_property
    def users(self) -> dict[str, list[Node]]:
        """The nodes that take each value."""
        users: dict[str, list[Node]] = {}
        for node in self.graph.nodes:
            for name in node.inputs:
                if name:
                    users.setdefault(name, []).append(node)
        return users

    def only_user(self, name: str) -> Node | None:
        """The node that takes a value, besides those that ask for its shape; None where there are several, or none."""
        if name in self.fixed:
            return None
        users = [node for node in self.users.get(name, ()) if not _is_shape(node)]
        return users[0] if len(users) == 1 else None


def _is_shape(node: Node) -> bool:
    return node.op_type == "Shape" and not node.domain and node.gives_all_extents


def _operand(node: Node) -> int | None:
    """The number of the operand that a node works on element by element, with scalars beside it; None for others."""
    if node.op_type not in BY_ELEMENT or node.domain not in ("", "com.microsoft") or len(node.outputs) != 1:
        return None
    large = [k for k, name in enumerate(node.inputs) if name and node.shape(k) not in ((), (1,))]
    if len(large) != 1 or node.shape(large[0]) is None or node.shape(large[0]) != node.result_shape():
        return None
    return large[0]


def _stack_of(around: _Surroundings, reshape: Node) -> _Stack | None:
    """The Concat that a Reshape takes apart, where a Transpose behind it moves the pieces."""
    path: list[Node] = []
    names = [reshape.input(0)]
    while True:
        maker = None if names[-1] in around.others else around.makers.get(names[-1])
        if maker is not None and maker.op_type == "Concat" and not maker.domain:
            break
        number = None if maker is None else 0 if transpose_perm(maker) is not None else _operand(maker)
        if maker is None or number is None:
            around.others.update(names)
            return None
        path.insert(0, maker)
        names.append(maker.inputs[number])
    # Few come to a Concat.
    users = [reshape, *reversed(path)]
    if any(around.only_user(name) is not user for name, user in zip(names, users, strict=True)):
        return None
    shape = maker.result_shape()
    if not shape:
        return None
    axis = maker.axis(0, len(shape))
    pieces = {own[axis] if own else None for own in map(maker.shape, range(len(maker.inputs)))}
    piece = next(iter(pieces))
    if len(pieces) != 1 or not isinstance(piece, int) or piece < 2 or len(maker.inputs) < 2:
        return None
    found = _Stack(maker, tuple(path), reshape, axis, piece)
    return found if _is_taken_apart(around, found) else None


def _is_taken_apart(around: _Surroundings, stack: _Stack) -> bool:
    """Whether the Reshape cuts between the pieces, and a Transpose behind it puts something between the two dims."""
    source, target = stack.reshape.shape(0), stack.reshape.result_shape()
    if source is None or target is None:
        return False
    place = inverse(_order_of(stack))[stack.axis]
    cut = _refined(source, place, (len(stack.concat.inputs), stack.piece))
    if cut == target and None not in cut:
        first = place
    elif is_static(cut) and is_static(target) and 0 not in target:
        before = _dims_of(target, prod(_numbers(cut[: place + 1])))
        if not before:
            return False
        first = before - 1
    else:
        return False
    user = around.only_user(stack.reshape.outputs[0])
    while user is not None and user.op_type != "Transpose" and _operand(user) is not None:
        user = around.only_user(user.outputs[0])
    perm = None if user is None else transpose_perm(user)
    if perm is None:
        return False
    places = inverse(perm)
    return first + 1 < len(places) and places[first + 1] != places[first] + 1


def _dims_of(shape: Shape, elements: int) -> int | None:
    """How many of the first dims of a static shape have so many elements together; None where none do."""
    return next((k for k in range(len(shape) + 1) if prod(_numbers(shape[:k])) == elements), None)


def _numbers(shape: Sequence[Extent]) -> list[int]:
    return [extent for extent in shape if isinstance(extent, int)]


def _order_of(stack: _Stack) -> Order:
    """The order of the dims of the Concat in the operand of the Reshape."""
    order = identity(len(stack.concat.result_shape() or ()))
    for node in stack.path:
        perm = transpose_perm(node)
        order = order if perm is None else compose(order, perm)
    return order


def _replacements(graph: Graph, around: _Surroundings, stack: _Stack) -> dict[int, list[Node]]:
    """The nodes that stand in for others, by identity of those: they make the operand of the Reshape as a stack."""
    import onnx.helper

    concat, reshape, digits = stack.concat, stack.reshape, (len(stack.concat.inputs), stack.piece)
    target, place = reshape.result_shape(), inverse(_order_of(stack))[stack.axis]
    is_whole = _refined(reshape.shape(0), place, digits) == target
    last = stack.path[-1] if stack.path else concat
    found: dict[int, list[Node]] = {}
    rows: list[Node] = []
    for name in concat.inputs:
        row = graph.fresh(f"{name}_row")
        graph.set_shape(row, _refined(graph.shape(name), stack.axis, (1, stack.piece)), name)
        rows.append(_unsqueeze(graph, name, row, stack.axis))
    order, inputs = identity(len(concat.result_shape() or ())), [row.outputs[0] for row in rows]
    for node in (concat, *stack.path):
        proto = type(node.proto)()
        proto.CopyFrom(node.proto)
        perm = transpose_perm(node)
        if node is concat:
            set_attribute(proto, "axis", stack.axis)
        elif perm is not None:
            set_attribute(proto, "perm", _refined_perm(perm, order.index(stack.axis)))
            order = compose(order, perm)
        if node is not concat:
            inputs = list(node.inputs)
            inputs[0 if perm is not None else _operand(node) or 0] = rows[-1].outputs[0]
        del proto.input[:]
        proto.input.extend(inputs)
        if node is last and is_whole:
            proto.output[0] = reshape.outputs[0]
        else:
            name = proto.output[0] = graph.fresh(f"{node.outputs[0]}_stack")
            shape = _refined(node.result_shape(), order.index(stack.axis), digits)
            graph.set_shape(name, shape, node.outputs[0])
        rows.append(Node(proto, graph))
        found[id(node)] = rows[:] if node is concat else rows[-1:]
        for user in around.users.get(node.outputs[0], ()):
            if _is_shape(user):
                found[id(user)] = _shape_of_stack(graph, user, stack, order)
    if is_whole:
        found[id(reshape)] = []
    else:
        extents = graph.add_ints(_numbers(target or ()), f"{reshape.outputs[0]}_shape")
        inputs = [rows[-1].outputs[0], extents]
        again = onnx.helper.make_node("Reshape", inputs, reshape.outputs, reshape.proto.name)
        found[id(reshape)] = [Node(again, graph)]
    return found


def _shape_of_stack(graph: Graph, node: Node, stack: _Stack, order: Order) -> list[Node]:
    """What gives the result of a Shape of the Concat, or of what has its dims in `order`: that of an operand, times
    the number of operands along the axis."""
    import onnx
    import onnx.helper

    name, rank = node.outputs[0], len(order)
    shape = onnx.helper.make_node("Shape", stack.concat.inputs[:1], [graph.fresh(f"{name}_piece")])
    nodes = [shape]
    if not is_identity(order):
        places = graph.add_ints(order, f"{name}_order")
        inputs = [shape.output[0], places]
        nodes.append(onnx.helper.make_node("Gather", inputs, [graph.fresh(f"{name}_ordered")], axis=0))
    counts = [len(stack.concat.inputs) if dim == stack.axis else 1 for dim in order]
    inputs = [nodes[-1].output[0], graph.add_ints(counts, f"{name}_counts")]
    nodes.append(onnx.helper.make_node("Mul", inputs, [name], node.proto.name))
    for made in nodes[:-1]:
        made.name = graph.fresh(f"{made.op_type}_{made.output[0]}")
        graph.set_type(made.output[0], (rank,), onnx.TensorProto.INT64)
    return [Node(made, graph) for made in nodes]


def _refined(shape: Shape | None, place: int, digits: tuple[int, int]) -> Shape:
    """The shape with two dims in the place of one."""
    shape = shape or ()
    return (*shape[:place], *digits, *shape[place + 1 :])


def _refined_perm(perm: Order, dim: int) -> Order:
    """The `perm` that keeps together the two dims that stand for dim `dim`."""
    return tuple([n for d in perm for n in ((dim, dim + 1) if d == dim else (d + (d > dim),))])


def _unsqueeze(graph: Graph, source: str, name: str, axis: int) -> Node:
    import onnx.helper

    title = graph.fresh(f"Unsqueeze_{name}")
    if graph.opsets.get("", 1) < 13:
        return Node(onnx.helper.make_node("Unsqueeze", [source], [name], title, axes=[axis]), graph)
    inputs = [source, graph.add_ints([axis], f"{name}_axis")]
    return Node(onnx.helper.make_node("Unsqueeze", inputs, [name], title), graph)
