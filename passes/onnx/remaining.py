"""The Transposes that are left, each with the nodes that it stands between and the reason for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from layout_ir.frontends.onnx.functions import node_name
from layout_ir.passes.onnx.model_graph import Node, is_transpose
from layout_ir.passes.onnx.order_plan import Move, Plan
from layout_ir.passes.onnx.orders import Order


@dataclass(frozen=True)
class Remaining:
    """A Transpose that is left: of a value, from one order of its dims to another."""

    value: str
    source: Order
    target: Order
    nbytes: int
    cost: int
    """What the move takes the consumer, in the unit of its prices."""
    producer: str
    consumers: tuple[str, ...]
    reason: str
    removed_by: str
    """What would make it needless."""
    is_at_boundary: bool
    """Whether it is there for callers: of an input, or for an output."""


def remaining_transposes(plan: Plan) -> list[Remaining]:
    """The Transposes that a plan leaves."""
    unknown = [_of_unknown_rank(plan, node) for node in plan.values.nodes if is_transpose(node)]
    moves = plan.moves
    if not moves:
        return unknown
    moved = {move.root for move in moves}
    members = plan.values.members
    names = {name for root in moved for name in plan.values.names.get(root, (root,))}
    makers: dict[str, Node] = {}
    users: dict[str, list[tuple[Node, int]]] = {}
    within: dict[str, list[Node]] = {}
    """By name, the nodes whose subgraphs read a value."""
    for node in plan.values.nodes:
        for name in node.captures:
            within.setdefault(name, []).append(node)
        makers.update([(name, node) for name in node.outputs if name in moved])
        if not names.isdisjoint(node.inputs):
            for number, name in enumerate(node.inputs):
                if name in names:
                    users.setdefault(members[name].root, []).append((node, number))
    return [
        *unknown,
        *(_remaining(plan, move, makers.get(move.root), users.get(move.root, []), within) for move in moves),
    ]


def are_at_boundary(plan: Plan) -> bool:
    """Whether all Transposes that a plan leaves are there for callers: of inputs, or for outputs."""
    if plan.graph.outer is not None or any(map(is_transpose, plan.values.nodes)):
        return not plan.moves and not any(map(is_transpose, plan.values.nodes))
    made = {name for node in plan.values.nodes for name in node.outputs}
    results = {value.name for value in plan.graph.proto.output}
    needed = {
        (plan.values.member(name).root, order) for name, order in plan.outputs.items() if name in results
    }
    return all(move.root not in made or (move.root, move.target) in needed for move in plan.moves)


def _of_unknown_rank(plan: Plan, node: Node) -> Remaining:
    """A Transpose that stays a node like any other: of a value of unknown rank, or with a `perm` that does not fit."""
    value, perm = node.input(0), node.ints("perm")
    shape = plan.graph.shape(value)
    if shape is None:
        reason, removed = (
            f"the rank of '{value}' is not known",
            f"a shape of '{value}' in the model (value_info)",
        )
    else:
        reason = f"its perm {_text(perm or ())} is none of {len(shape)} dims"
        removed = "a perm that names each dim once"
    producer, nbytes = f"value '{value}'", 2 * plan.graph.nbytes(value)
    consumer = plan.problem.consumer
    cost = consumer.transpose_cost(consumer.counted_bytes(plan.graph, value))
    return Remaining(value, (), (), nbytes, cost, producer, (_title(node),), reason, removed, False)


def _remaining(
    plan: Plan,
    move: Move,
    maker: Node | None,
    users: list[tuple[Node, int]],
    within: Mapping[str, Sequence[Node]],
) -> Remaining:
    graph = plan.graph
    of_subgraph = " of a subgraph" if graph.outer is not None else ""
    takers = [node for node, number in users if plan.order_of(node, number) == move.target]
    needed_as = [
        name for name, order in plan.outputs.items() if order == move.target and _is_of(plan, name, move.root)
    ]
    outputs = {value.name for value in graph.proto.output}
    results = [name for name in needed_as if name in outputs]
    readers = list(dict.fromkeys(node for name in needed_as for node in within.get(name, ())))
    is_input = any(value.name == move.root for value in graph.proto.input)
    if maker is not None:
        producer = _title(maker)
    else:
        producer = f"input '{move.root}'{of_subgraph}" if is_input else f"outer value '{move.root}'"
    consumers = (
        *map(_title, takers),
        *(f"a subgraph of {_title(node)}" for node in readers),
        *(f"output '{name}'{of_subgraph}" for name in results),
    )
    made = "gives it" if maker is None or not plan.has_choice(maker) else "gives it at least cost"
    if maker is None and not is_input:
        made = "comes"
    needed = "takes it" if len(consumers) == 1 else "take it"
    reason = (
        f"{producer} {made} in order {_text(move.source)}, {', '.join(consumers[:3]) or 'another reorder'} "
        f"{needed} in order {_text(move.target)}"
    )
    is_at_boundary = not of_subgraph and (maker is None or bool(results))
    if is_at_boundary and maker is None:
        removed = f"--inputs free, and a caller who has it in order {_text(move.target)}"
    elif is_at_boundary:
        removed = f"--outputs free, and a caller who takes it in order {_text(move.source)}"
    elif maker is None:
        removed = f"a node around the subgraph that gives it in order {_text(move.target)}"
    elif results:
        removed = f"a node around the subgraph that takes it in order {_text(move.source)}"
    else:
        kinds = sorted({node.op_type for node in (*takers, *readers)})
        removed = (
            f"a kernel of {maker.op_type} for order {_text(move.target)}, or of {', '.join(kinds) or 'its user'} for "
            f"order {_text(move.source)}"
        )
        if readers:
            removed = f"a subgraph of {', '.join(kinds)} that reads it in order {_text(move.source)}"
    return Remaining(
        move.root,
        move.source,
        move.target,
        move.nbytes,
        plan.move_cost(move),
        producer,
        consumers,
        reason,
        removed,
        is_at_boundary,
    )


def _is_of(plan: Plan, name: str, root: str) -> bool:
    return plan.values.member(name).root == root


def _title(node: Node) -> str:
    return f"{node.op_type} '{node_name(node.proto)}'"


def _text(order: Order) -> str:
    return f"({', '.join(map(str, order))})"
