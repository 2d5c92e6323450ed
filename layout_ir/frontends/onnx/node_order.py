"""Nodes in an order in which values are made before they are used.

The ONNX standard asks for such an order. ONNX Runtime finds one by itself, and so some tools write none: its converter
to 16-bit floats puts Casts behind the nodes that use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.subgraphs import bodies_of, captured_names

if TYPE_CHECKING:
    import onnx


def with_sorted_nodes(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` itself where its nodes are in order, else a copy in which those are moved forward that make what nodes
    before them use.

    Nodes that wait for one another, and graphs in which a value has two makers, have no order and stay as they are:
    whoever reads them says where.
    """
    bodies = list(bodies_of(model))
    is_nested = len(bodies) > 1 + len(model.functions)
    if all(_is_sorted(body, is_nested) for body in bodies):
        return model
    import onnx

    result = onnx.ModelProto()
    result.CopyFrom(model)
    for body in bodies_of(result):
        if not _is_sorted(body, is_nested) and (order := _order(body)) is not None:
            nodes = [onnx.NodeProto.FromString(body.node[number].SerializeToString()) for number in order]
            del body.node[:]
            body.node.extend(nodes)
    return result


def _used(node: onnx.NodeProto) -> Sequence[str]:
    """The names of the values that a node uses, those that its subgraphs use of what is around it among them."""
    return [*node.input, *captured_names(node)] if node.attribute else node.input[:]


def _is_sorted(body: onnx.GraphProto | onnx.FunctionProto, is_nested: bool) -> bool:
    """Whether no node uses what it makes itself or a later one makes; nodes have subgraphs only if `is_nested`."""
    later: set[str] = set()
    for node in body.node[::-1]:
        later.update(node.output[:])
        later.discard("")  # an output that is left out
        if not later.isdisjoint(_used(node) if is_nested else node.input[:]):
            return False
    return True


def _order(body: onnx.GraphProto | onnx.FunctionProto) -> list[int] | None:
    """The numbers of the nodes, each behind those whose values it uses, and otherwise as they stand; None where there
    is no such order, or a value has two makers."""
    makers: dict[str, int] = {}
    for number, node in enumerate(body.node):
        for name in filter(None, node.output):
            if makers.setdefault(name, number) != number:
                return None
    needs = [[makers[name] for name in _used(node) if name in makers] for node in body.node]
    order: list[int] = []
    placed, waits = [False] * len(needs), [False] * len(needs)
    for first in range(len(needs)):
        stack = [first]
        while stack:
            number = stack[-1]
            missing = [need for need in needs[number] if not placed[need]]
            if placed[number] or not missing:
                stack.pop()
                if not placed[number]:
                    placed[number] = True
                    order.append(number)
            elif waits[number]:
                return None  # Met again while it waits, so one of those that it waits for needs it.
            else:
                waits[number] = True
                stack.extend(reversed(missing))
    return order
