"""What callers and runtimes see of a model beside its nodes: its inputs and outputs, and the domains of its
operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from layout_ir.passes.onnx.blocked_channels import NCHWC_DOMAIN
from layout_ir.passes.onnx.model_graph import Graph
from layout_ir.passes.onnx.order_plan import Plan
from layout_ir.passes.onnx.orders import Order, is_identity

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class BoundaryChange:
    """An input or output that callers give or take in another order of dims than in the model that came in."""

    name: str
    order: Order
    nbytes: int
    """Bytes that a caller reads and writes who has the order of the model."""


def free_names(graph: Graph) -> tuple[list[str], list[str]]:
    """The inputs and the outputs of a graph that may have another order: those that have nobody else's name.

    A subgraph takes a value by its name in the order of the model, a default is stored in that order, and a value that
    is input and output would have two.
    """
    fixed = {name for node in graph.nodes for name in node.captures}
    fixed.update(tensor.name for tensor in graph.proto.initializer)
    inputs = [value.name for value in graph.proto.input]
    outputs = [value.name for value in graph.proto.output]
    fixed.update(name for name in outputs if name in inputs or outputs.count(name) > 1)
    return [n for n in inputs if n not in fixed], [n for n in outputs if n not in fixed]


def boundary_changes(plan: Plan) -> list[BoundaryChange]:
    """What callers have to give or take in another order than that of the model."""
    found: list[BoundaryChange] = []
    graph = plan.graph
    for value in graph.proto.input:
        order = plan.made.get(value.name)
        if order is not None and not is_identity(order) and value.name not in graph.constants:
            found.append(BoundaryChange(value.name, order, 2 * graph.nbytes(value.name)))
    for value in graph.proto.output:
        order = plan.result_order(value.name)
        if not is_identity(order):
            found.append(BoundaryChange(value.name, order, 2 * graph.nbytes(value.name)))
    return found


def change_boundary(graph: onnx.GraphProto, changes: Sequence[BoundaryChange]) -> None:
    """Puts the extents of inputs and outputs into the orders that callers have them in from now on."""
    orders = {change.name: change.order for change in changes}
    for value in (*graph.input, *graph.output):
        order = orders.get(value.name)
        if order is not None and value.type.tensor_type.HasField("shape"):
            shape = value.type.tensor_type.shape
            dims = [shape.dim[d] for d in order]
            new = type(shape)(dim=dims)
            shape.CopyFrom(new)


def import_domains(model: onnx.ModelProto, graphs: Sequence[Graph]) -> None:
    """States the version of ONNX Runtime's operators, where the nodes that were written are of those."""
    known = {entry.domain for entry in model.opset_import}
    used = {node.domain for graph in graphs for node in graph.proto.node}
    for domain in ("com.microsoft", NCHWC_DOMAIN):
        if domain in used and domain not in known:
            model.opset_import.add(domain=domain, version=1)


def constant_inputs(model: onnx.ModelProto) -> set[str]:
    """The initializers of a model in whose version of the format they had to be inputs as well; else none."""
    return set[str]() if model.ir_version >= 4 else {tensor.name for tensor in model.graph.initializer}


def drop_inputs(model: onnx.ModelProto, constants: set[str]) -> None:
    """Makes these initializers of a model no inputs any more, whether they are still there or not, and raises its
    version of the format to the first that knows such initializers."""
    if model.ir_version < 4:
        model.ir_version = 4
        kept = [value for value in model.graph.input if value.name not in constants]
        del model.graph.input[:]
        model.graph.input.extend(kept)
