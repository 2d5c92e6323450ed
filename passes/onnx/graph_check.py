"""What has to hold of names in a graph before anything is moved in it: each value has one maker, which comes first.

Runtimes check that as well, but some of them sort nodes, or look at what the outputs need only: a graph that is
rewritten with a value of a name that stands for two could compute something else without anybody's notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from layout_ir.errors import LayoutError, shape_text
from layout_ir.frontends.onnx.functions import node_title
from layout_ir.frontends.onnx.import_error import OnnxImportError, quoted
from layout_ir.frontends.onnx.subgraphs import captured_names, graphs_of

if TYPE_CHECKING:
    import onnx


def check_shapes(graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int]]) -> None:
    """Raises LayoutError where `shapes` names no input of the graph, or gives one a shape that it cannot have."""
    values = {value.name: value for value in graph.input}
    for name, shape in shapes.items():
        if name not in values:
            known = ", ".join(map(quoted, values)) or "none"
            raise LayoutError(
                f"shapes names {quoted(name)}, which is no input of the model; its inputs: {known}"
            )
        if any(extent < 0 for extent in shape):
            raise LayoutError(
                f"shapes gives input {quoted(name)} the shape {shape_text(shape)}: an extent is negative"
            )
        type = values[name].type
        if type.WhichOneof("value") not in (None, "tensor_type"):
            raise LayoutError(f"shapes names input {quoted(name)}, which is no tensor")
        if not type.tensor_type.HasField("shape"):
            continue
        dims = type.tensor_type.shape.dim
        stated = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
        if len(stated) != len(shape) or any(s not in (None, n) for s, n in zip(stated, shape, strict=True)):
            raise LayoutError(
                f"shapes gives input {quoted(name)} the shape {shape_text(shape)}, the model says {shape_text(stated)}"
            )


def check_names(
    graph: onnx.GraphProto, outer: Iterable[str] = (), place: str = "the graph", *, is_nested: bool = True
) -> None:
    """Raises OnnxImportError where a graph, or a subgraph of a node, is not in order.

    That is where a value has two makers, where it is used before it is made or is not made at all, and where a name is
    no text. `outer` are the values around the graph; a subgraph may use their names for others of its own. Nodes have
    subgraphs only if `is_nested`.
    """
    known = {"", *outer}
    own: dict[str, tuple[str, int]] = {}

    def define(name: str | bytes, kind: str, number: int) -> None:
        if isinstance(name, bytes):
            raise OnnxImportError(f"{place}: {kind} {number} has the name {quoted(name)}, which is not UTF-8")
        if name in own:
            first = " ".join(map(str, own[name]))
            raise OnnxImportError(
                f"{place}: value {quoted(name)} is defined twice: by {first} and by {kind} {number}"
            )
        own[name] = kind, number
        known.add(name)

    listed = {value.name for value in graph.input}
    for number, value in enumerate(graph.input):
        define(value.name, "input", number)
    constants = [*(t.name for t in graph.initializer), *(t.values.name for t in graph.sparse_initializer)]
    seen = set(constants)
    if len(seen) == len(constants) and listed.isdisjoint(seen) and bytes not in map(type, seen):
        # Nearly always it is so, and constants are many.
        own.update({name: ("initializer", number) for number, name in enumerate(constants)})
        known.update(seen)
    else:
        seen.clear()
        for number, name in enumerate(constants):
            # Of an input that may be left out, it says the default.
            if name not in listed or name in seen:
                define(name, "initializer", number)
            seen.add(name)
    for number, node in enumerate(graph.node):
        inners = graphs_of(node) if is_nested and node.attribute else []
        used = node.input[:]
        if inners:
            used = [*used, *captured_names(node)]
        # Nearly always all are.
        for name in () if known.issuperset(used) else used:
            if name not in known:
                title = node_title(node, number)
                later = {made: k for k, each in enumerate(graph.node) for made in each.output}
                if name in later:
                    maker = node_title(graph.node[later[name]], later[name])
                    raise OnnxImportError(
                        f"{place}: {title} uses {quoted(name)} before {maker} computes it: nodes have to be in an "
                        f"order in which they can run"
                    )
                raise OnnxImportError(f"{place}: {title} uses {quoted(name)}, which nothing computes")
        for inner in inners:
            check_names(inner, known, f"a subgraph of {node_title(node, number)}")
        for name in node.output[:]:
            if name in known or isinstance(name, bytes):
                if name:
                    define(name, "node", number)
            else:
                own[name] = "node", number
                known.add(name)
    for value in graph.output:
        if value.name not in known or (not value.name and "" not in own):
            raise OnnxImportError(f"{place} has the output {quoted(value.name)}, which nothing computes")
