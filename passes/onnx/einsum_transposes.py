"""Einsums of one operand that only name its dims in another order, as the Transposes that they are.

    Einsum "ijbn->bnij"        Transpose, perm = [2, 3, 0, 1]

As Einsums they would take any order of their operand, and move it all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.subgraphs import nodes_within

if TYPE_CHECKING:
    import onnx


def write_einsum_transposes(graph: onnx.GraphProto, *, is_nested: bool = True) -> bool:
    """Makes such Einsums Transposes, in place, in a graph and its subgraphs, which it has only if `is_nested`; returns
    whether there are any."""
    import onnx.helper

    is_changed = False
    for outer in graph.node:
        for node in (outer, *nodes_within(outer)) if is_nested and outer.attribute else (outer,):
            if node.op_type == "Einsum" and not domain_of(node.domain) and (order := _order(node)):
                node.op_type = "Transpose"
                del node.attribute[:]
                node.attribute.append(onnx.helper.make_attribute("perm", order))
                is_changed = True
    return is_changed


def _order(node: onnx.NodeProto) -> list[int] | None:
    """Which dim of the operand each dim of the result is; None where the node does anything else."""
    equations = [attribute.s for attribute in node.attribute if attribute.name == "equation"]
    if len(equations) != 1 or len(node.input) != 1:
        return None
    operand, arrow, result = equations[0].decode("utf-8", "replace").replace(" ", "").partition("->")
    # Without an arrow the names of the result are in alphabetical order, which runtimes agree on for one case alone.
    if not arrow and (operand.islower() or operand.isupper()):
        result = "".join(sorted(operand))
    if not operand.isalpha() or len(set(operand)) < len(operand) or sorted(operand) != sorted(result):
        return None
    return [operand.index(name) for name in result]
