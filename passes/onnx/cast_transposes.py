"""Transposes in front of a Cast and a MatMul, moved behind the Cast where ONNX Runtime would crash.

With all optimizations, ONNX Runtime takes a Transpose through a Cast to f32 into the MatMul behind it. Where the
Transpose brings the first dim behind others, and reads another type than f32, the process dies of a segmentation
fault as the session is made (1.32, for perm = [1, 0, 2], [1, 2, 0], [1, 2, 0, 3] and [1, 2, 3, 0], tried one by one):

    Transpose -> Cast -> MatMul        Cast -> Transpose -> MatMul

So the Transpose moves more bytes, and the model can be loaded. Where the runtime itself puts the Cast there, for it has
no products of f16, no such Transpose is written, nor one that the runtime would take there, through an Identity or a
Mul: where the orders of least cost need one (`takes_turned_halves`), those of least cost without any are chosen
(`halves_of_products`), and where there are none, the model stays as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.functions import domain_of, fresh_name
from layout_ir.frontends.onnx.subgraphs import captured_names, graphs_within, replace_nodes
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.names_in_use import names_of
from layout_ir.passes.onnx.order_plan import Place, Plan
from layout_ir.passes.onnx.orders import transposition, turns_the_first_dim
from layout_ir.passes.onnx.reachable_orders import Values

if TYPE_CHECKING:
    import onnx

_PRODUCTS = "FusedMatMul", "MatMul"
BARRIERS = frozenset((
    *_PRODUCTS, "Attention", "BatchNormalization", "Conv", "ConvTranspose", "Einsum", "GRU", "Gather", "GatherElements",
    "GatherND", "GroupNormalization", "InstanceNormalization", "LSTM", "LayerNormalization", "RMSNormalization",
    "RNN", "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "TopK",
))  # fmt: skip
"""Operators through which ONNX Runtime takes no Transpose (1.25, 1.32; the products are themselves what it takes one
to)."""
_F32, _F16 = 1, 10
"""Element types, as TensorProto numbers them."""


def move_behind_casts(model: onnx.ModelProto) -> int:
    """Moves such Transposes in `model`, in place; returns how many."""
    taken: set[str] = set()
    moved = 0
    for graph in graphs_within(model.graph):
        casts = _casts_behind_transposes(graph)
        if casts:
            taken = taken or names_of(model.graph)
            _exchange(graph, casts, taken)
            moved += len(casts)
    return moved


def takes_turned_halves(plan: Plan) -> bool:
    """Whether a value of f16 that products take would be moved by such a Transpose."""
    halves = halves_of_products(plan.values)
    # Transposes one behind the other are one for the runtime.
    for move in plan.moves:
        place: Place | None = (move.root, move.source)
        while place is not None and move.root in halves:
            if turns_the_first_dim(transposition(place[1], move.target)):
                return True
            place = plan.origin.get(place)
    return False


def halves_of_products(values: Values) -> frozenset[str]:
    """The values of f16 that products take, the roots of their operands, and what these are made of by nodes through
    which the runtime may take a Transpose: any but those of `BARRIERS`, and Reshapes that split or merge dims."""
    found = {
        values.member(name).root
        for node in values.nodes
        if node.op_type in _PRODUCTS
        for name in node.inputs
        if name and values.graph.element_type(name) == _F16
    }
    makers = {values.member(name).root: node for node in values.nodes for name in node.outputs if name}
    waiting = list(found)
    while waiting:
        maker = makers.get(waiting.pop())
        if maker is None or maker.op_type in BARRIERS or _splits_or_merges(maker):
            continue
        for name in filter(None, maker.inputs):
            root = values.member(name).root
            if root not in found and root not in values.graph.constants:
                found.add(root)
                waiting.append(root)
    return frozenset(found)


def _splits_or_merges(node: Node) -> bool:
    """Whether a node is a Reshape that does more than to add or to drop dims of one element."""
    before, after = node.shape(0), node.result_shape()
    if node.op_type != "Reshape" or before is None or after is None:
        return False
    return [extent for extent in before if extent != 1] != [extent for extent in after if extent != 1]


def _casts_behind_transposes(graph: onnx.GraphProto) -> dict[int, onnx.NodeProto]:
    """The Transpose in front of each Cast, by the number of the Cast in the graph."""
    turned = {
        node.output[0]: node
        for node in graph.node
        if node.op_type == "Transpose" and not domain_of(node.domain) and turns_the_first_dim(_perm(node))
    }
    if not turned:
        return {}
    factors = {name for node in graph.node if node.op_type in _PRODUCTS for name in node.input}
    return {
        number: turned[node.input[0]]
        for number, node in enumerate(graph.node)
        if node.op_type == "Cast"
        and node.input[0] in turned
        and node.output[0] in factors
        and _is_to_f32(node)
    }


def _is_to_f32(cast: onnx.NodeProto) -> bool:
    return any(attribute.name == "to" and attribute.i == _F32 for attribute in cast.attribute)


def _perm(transpose: onnx.NodeProto) -> list[int]:
    return [dim for attribute in transpose.attribute if attribute.name == "perm" for dim in attribute.ints]


def _exchange(graph: onnx.GraphProto, casts: dict[int, onnx.NodeProto], taken: set[str]) -> None:
    import onnx

    nodes: list[onnx.NodeProto] = []
    for number, node in enumerate(graph.node):
        nodes.append(node)
        if number in casts:
            before, result = casts[number], node.output[0]
            behind = onnx.NodeProto()
            behind.CopyFrom(before)
            node.input[0] = before.input[0]
            node.output[0] = behind.input[0] = fresh_name(f"{result}_cast", taken)
            behind.output[0] = result
            behind.name = fresh_name(f"{result}_transposed", taken)
            nodes.append(behind)
    used = {value.name for value in graph.output}
    for node in nodes:
        used.update(node.input, captured_names(node) if node.attribute else ())
    gone = {node.output[0] for node in casts.values()} - used
    replace_nodes(graph, [node for node in nodes if gone.isdisjoint(node.output)])
    for number in reversed(range(len(graph.value_info))):
        if graph.value_info[number].name in gone:
            del graph.value_info[number]
