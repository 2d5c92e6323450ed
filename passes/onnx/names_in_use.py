"""Names in use in a model: all that are taken, and those of values that callers may give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.subgraphs import graphs_of

if TYPE_CHECKING:
    import onnx


def names_of(graph: onnx.GraphProto) -> set[str]:
    """All names in a graph and its subgraphs, of values and of nodes."""
    names: set[str] = set()
    waiting = [graph]
    while waiting:
        found = waiting.pop()
        names.update(v.name for v in (*found.input, *found.output, *found.initializer))
        for node in found.node:
            names.update((node.name, *node.input[:], *node.output[:]))
            if node.attribute:
                waiting += graphs_of(node)
    return names


def overridable_names(model: onnx.ModelProto) -> frozenset[str]:
    """The names of inputs: of initializers, those that callers may give another value."""
    # Before IR version 4, initializers had to be listed as inputs.
    return frozenset(value.name for value in model.graph.input) if model.ir_version >= 4 else frozenset()
