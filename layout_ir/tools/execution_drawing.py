"""Execution graphs as graphs to draw, and the pages that show them: an ONNX model before and after it was optimized,
or what another compiler executes.

Constants are told with the ops that use them, and are nodes only where a copy reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from layout_ir.algebra.layout import Layout
from layout_ir.drawing.drawn_graph import DrawnEdge, DrawnGraph, DrawnNode
from layout_ir.drawing.format_pictures import Use, format_pictures
from layout_ir.drawing.graph_placement import check_installed
from layout_ir.errors import shape_text
from layout_ir.execution_graphs.dim_orders import DimOrders, NamedLayout, same_values
from layout_ir.execution_graphs.execution_graph import ExecutionGraph, Node, Value
from layout_ir.files import write_result

if TYPE_CHECKING:
    from layout_ir.execution_graphs.copies import Copy
    from layout_ir.passes.onnx.optimized_model import OptimizedModel

_LONGEST = 200
"""Characters of the attributes of a node that are shown."""


def draw_models(
    title: str,
    path: str,
    result: OptimizedModel,
    page: str | None,
    picture: str | None,
    notes: Sequence[str],
    shapes: Mapping[str, Sequence[int]],
) -> None:
    """Writes the page of the model in the file `path` and of `result`, what it was optimized to, to the file `page`,
    and the graph of `result` as an SVG to the file `picture`; where those are None, nothing.

    `shapes` are those of inputs by which the bytes are told. Raises LayoutError where fast-sugiyama is not installed.
    """
    from layout_ir.drawing.graph_page import graph_page
    from layout_ir.drawing.graph_svg import graph_svg
    from layout_ir.execution_graphs.copies import explain_copies
    from layout_ir.execution_graphs.onnx_model import read_onnx
    from layout_ir.execution_graphs.optimized_copies import decide_transposes, reasons_of

    check_installed()
    before = read_onnx(path, shapes)
    # Callers that are asked for another order give other shapes.
    after = read_onnx(result.stored, _asked(result, shapes))
    orders = DimOrders([before, after], same_values(before, after, result.places))
    roots = {name: root for name, (root, _) in result.places.items()}
    drawn = drawn_graph(after, orders, 1, reasons_of(after, result), roots)
    if page is not None:
        copies = decide_transposes(before, explain_copies(before), result)
        first = drawn_graph(before, orders, 0, {copy.number: _told(copy) for copy in copies})
        pictures = layout_pictures(orders)
        write_result(graph_page(title, drawn, before=first, pictures=pictures, notes=notes), page)
    if picture is not None:
        write_result(graph_svg(drawn), picture)


def draw_explained(
    title: str, graph: ExecutionGraph, copies: Iterable[Copy], page: str | None, picture: str | None
) -> None:
    """Writes the page of `graph`, whose copies have the verdicts of `copies`, to the file `page`, and the graph as an
    SVG to the file `picture`; where those are None, nothing. Raises LayoutError where fast-sugiyama is not installed.
    """
    from layout_ir.drawing.graph_page import graph_page
    from layout_ir.drawing.graph_svg import graph_svg

    check_installed()
    orders = DimOrders([graph])
    drawn = drawn_graph(graph, orders, 0, {copy.number: _told(copy) for copy in copies})
    if page is not None:
        notes = [graph.source, *graph.skipped]
        if graph.values_are_inferred:
            notes.append(
                "the file lists executions: who wrote what is concluded from shapes, types and layouts"
            )
        write_result(graph_page(title, drawn, pictures=layout_pictures(orders), notes=notes), page)
    if picture is not None:
        write_result(graph_svg(drawn), picture)


def _told(copy: Copy) -> str:
    return f"{copy.verdict}: {copy.reason}; remedy: {copy.remedy}"


def _asked(result: OptimizedModel, shapes: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    """The shapes of inputs in the orders in which they are asked of callers."""
    orders = {entry.name: entry.order for entry in result.obligations}
    return {
        name: [shape[d] for d in orders[name]] if name in orders else shape for name, shape in shapes.items()
    }


def drawn_graph(
    graph: ExecutionGraph,
    orders: DimOrders,
    number: int,
    reasons: Mapping[int, str],
    roots: Mapping[str, str] | None = None,
) -> DrawnGraph:
    """The graph to draw of `graph`, the one of that number in `orders`; `reasons` says of copies, by the numbers of
    their nodes, why they are there.

    A node has the same id in every graph in which it makes the same value, whatever computes it there. `roots` says, by
    names of values, which name they have in the graph that this one is compared with.
    """
    producers, readers = graph.producers(), graph.readers()
    told = {
        k
        for k, node in enumerate(graph.nodes)
        if node.role == "constant" and not _is_copied(graph, readers, node)
    }
    named = [orders.layout(number, value) for value in range(len(graph.values))]
    layouts = [_layout_text(value, layout) for value, layout in zip(graph.values, named, strict=True)]
    seen = Counter[str]()
    keys: dict[int, str] = {}
    nodes: list[DrawnNode] = []
    for k, node in enumerate(graph.nodes):
        if k in told:
            continue
        key = f"{node.role} {_made(graph, node, roots or {})}"
        seen[key] += 1
        keys[k] = f"{key}\n{seen[key]}"
        constants = [o.value for o in node.inputs if producers[o.value] in told]
        details = "\n".join(_details(graph, node, constants, layouts))
        label, name, nbytes = node.kind, node.name, None
        if node.role == "copy":
            label, nbytes = _change(node, layouts), _copied_bytes(graph, node)
        elif node.role in ("input", "output"):
            label = node.role
        name = "" if name == label else name
        nodes.append(DrawnNode(keys[k], label, node.role, name, details, nbytes, reasons.get(k, "")))
    edges = [
        _edge(keys[source], keys[k], graph.values[operand.value], layouts[operand.value])
        for k, node in enumerate(graph.nodes)
        if k in keys
        for operand in node.inputs
        if (source := producers[operand.value]) is not None and source in keys
    ]
    return DrawnGraph(tuple(nodes), tuple(edges))


def _made(graph: ExecutionGraph, node: Node, roots: Mapping[str, str]) -> str:
    """The value that a node makes; for a copy, which makes one that is there already, its own name."""
    if node.role == "copy" or not node.outputs:
        return node.name
    name = graph.values[node.outputs[0]].name
    return roots.get(name, name) or node.name


def _is_copied(graph: ExecutionGraph, readers: Sequence[Sequence[tuple[int, object]]], node: Node) -> bool:
    """Whether a copy or the caller reads what a node makes."""
    return any(
        graph.nodes[reader].role in ("copy", "output")
        for value in node.outputs
        for reader, _ in readers[value]
    )


def _layout_text(value: Value, layout: NamedLayout | None) -> str:
    return value.layout_text if layout is None else layout.text


def _change(node: Node, layouts: Sequence[str]) -> str:
    """The layouts of a copy, and its kind where they tell nothing."""
    if not node.inputs or not node.outputs:
        return node.kind
    source, result = layouts[node.inputs[0].value], layouts[node.outputs[0]]
    return f"{source or '?'} → {result or '?'}" if source != result else node.kind


def _copied_bytes(graph: ExecutionGraph, node: Node) -> int | None:
    """The bytes that all executions of a copy read and write; None where they are not known."""
    if not node.inputs or not node.outputs:
        return None
    read, written = graph.values[node.inputs[0].value].nbytes, graph.values[node.outputs[0]].nbytes
    return None if read is None or written is None else (read + written) * node.executions


def _details(
    graph: ExecutionGraph, node: Node, constants: Sequence[int], layouts: Sequence[str]
) -> Iterator[str]:
    """What else there is to say of a node, one thing a line."""
    if node.role == "copy":
        yield node.kind
    if node.implementation:
        yield f"kernel {node.implementation}"
    if node.attributes:
        yield node.attributes if len(node.attributes) <= _LONGEST else f"{node.attributes[:_LONGEST]}…"
    if node.executions > 1:
        yield f"{node.executions} times"
    if node.time_us is not None:
        yield f"{node.time_us:.1f} us"
    for number in constants:
        value = graph.values[number]
        yield f"constant {value.name} {_shape(value)} {value.dtype or '?'} {layouts[number]}".strip()


def _edge(source: str, target: str, value: Value, layout: str) -> DrawnEdge:
    return DrawnEdge(source, target, value.name, _shape(value), value.dtype or "", layout)


def _shape(value: Value) -> str:
    return "" if value.shape is None else shape_text(value.shape)


def layout_pictures(orders: DimOrders) -> dict[str, str]:
    """For each layout of the values in the graphs of `orders`, as edges name it, an SVG of a small tensor in it."""
    return format_pictures(_uses(orders))


def _uses(orders: DimOrders) -> Iterator[Use]:
    for number, graph in enumerate(orders.graphs):
        for value in range(len(graph.values)):
            layout = orders.layout(number, value)
            if layout is not None and None not in layout.shape:
                shape = tuple(extent for extent in layout.shape if extent is not None)
                yield layout.text, shape, partial(_bound, layout, shape)


def _bound(layout: NamedLayout, shape: tuple[int, ...]) -> Layout:
    return layout.format.bind(shape)
