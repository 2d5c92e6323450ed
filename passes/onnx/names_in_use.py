"""Names in use in a model: all that are taken, those of values that callers may give, what nobody uses any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from layout_ir.frontends.onnx.subgraphs import captured_names, graphs_of

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


def unused_constants(graph: onnx.GraphProto, *, is_nested: bool = True) -> set[str]:
    """The names of initializers, and of what Constants give, that nothing in the graph or its subgraphs uses, that are
    no results, and that callers cannot give. Nodes have subgraphs only if `is_nested`."""
    found = {tensor.name for tensor in graph.initializer}
    found.update(node.output[0] for node in graph.node if node.op_type == "Constant")
    for node in graph.node:
        found.difference_update(node.input[:])
    found.difference_update(value.name for value in (*graph.input, *graph.output))
    if found and is_nested:  # mostly not, and to look into all attributes takes longer
        found.difference_update(name for node in graph.node for name in captured_names(node))
    return found


def drop_constants(graph: onnx.GraphProto, names: set[str]) -> None:
    """Takes initializers and Constants of these names out of a graph, and what is said of them."""
    _drop(graph.initializer, lambda tensor: tensor.name in names)
    _drop(graph.node, lambda node: node.op_type == "Constant" and node.output[0] in names)
    _drop(graph.value_info, lambda value: value.name in names)
    _drop(graph.quantization_annotation, lambda entry: entry.tensor_name in names)


def drop_unused(graph: onnx.GraphProto, names: Iterable[str]) -> None:
    """Drops those of these values that nothing in the graph or its subgraphs uses, and what only led to them, but for
    inputs and results."""
    kept = {value.name for value in (*graph.input, *graph.output)}
    uses = Counter(name for node in graph.node for name in (*node.input, *captured_names(node)))
    makers = {name: node for node in graph.node for name in node.output}
    waiting = list(names)
    dropped: set[str] = set()
    while waiting:
        name = waiting.pop()
        maker = makers.get(name)
        # The empty name stands for an input or output that is left out.
        together = [name] if maker is None else [output for output in maker.output if output]
        if not name or name in dropped or any(uses[each] or each in kept for each in together):
            continue
        dropped.update(together)
        if maker is not None:
            for used in (*maker.input, *captured_names(maker)):
                uses[used] -= 1
                waiting.append(used)
    _drop(graph.node, lambda node: not dropped.isdisjoint(node.output))
    _drop(graph.initializer, lambda tensor: tensor.name in dropped)
    _drop(graph.value_info, lambda value: value.name in dropped)


def _drop(entries: Any, is_meant: Callable[[Any], bool]) -> None:
    """Takes those entries of a repeated field that are meant out of it; the others are not touched."""
    for number in [number for number, entry in enumerate(entries) if is_meant(entry)][::-1]:
        del entries[number]
