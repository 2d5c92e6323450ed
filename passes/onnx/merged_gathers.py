"""Gathers of extents that were put in order by a Gather: one where there are two.

A Shape of a tensor on other dims gives the extents in another order, and a Gather behind it puts them back. Mostly
single ones are picked of them, by a Gather each; these pick of the Shape itself then, by other places. In ONNX Runtime
a node on a few integers takes a microsecond, as long as a Transpose of some kilobytes.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.passes.onnx.blocked_fusion import Constants
from layout_ir.passes.onnx.graph_output import GraphOutput

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


def merge_gathers(out: GraphOutput, kept: Container[str], small_constant: Constants) -> set[int]:
    """Has Gathers of what a Gather made of a Shape, both by constants, pick of the Shape; returns the numbers of the
    nodes of `out` that nobody needs any more. `kept` are names that must stay, `small_constant` what a constant of the
    model is."""
    import onnx.numpy_helper

    if all(node.op_type != "Shape" for node in out.nodes):
        return set()
    made = {tensor.name: tensor for tensor in out.initializers}

    def places(node: onnx.NodeProto) -> NDArray[Any] | None:
        """What a Gather picks, where that is constant, of the first and only dim of its operand."""
        if node.op_type != "Gather" or domain_of(node.domain) or any(a.i for a in node.attribute):
            return None
        name = node.input[1]
        return onnx.numpy_helper.to_array(made[name]) if name in made else small_constant(name)

    extents = {node.output[0] for node in out.nodes if node.op_type == "Shape" and not domain_of(node.domain)}
    ordered: dict[str, tuple[int, str, NDArray[Any]]] = {}
    users: dict[str, int] = {}
    for number, node in enumerate(out.nodes):
        for name in node.input[:]:
            users[name] = users.get(name, 0) + 1
        if node.op_type != "Gather" or (own := places(node)) is None:
            continue
        if node.input[0] in extents and own.ndim == 1:
            ordered[node.output[0]] = number, node.input[0], own
        elif node.input[0] in ordered:
            _, source, order = ordered[node.input[0]]
            if own.size and not (-len(order) <= own.min() and own.max() < len(order)):
                continue
            users[node.input[0]] -= 1
            picked = order[own]
            node.input[0] = source
            node.input[1] = out.ints(picked.ravel().tolist(), picked.shape)
    return {number for name, (number, *_) in ordered.items() if not users.get(name) and name not in kept}
