"""Who runs the model that goes out: what a Transpose costs there, and what its operators can do besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from layout_ir.errors import LayoutError
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.all_models import MODELS
from layout_ir.passes.onnx.node_models.node_option import NodeModel
from layout_ir.passes.onnx.node_models.products import FusedMatMul, Gemm
from layout_ir.passes.onnx.orders import Order, Shape, same_memory

KIBIBYTE = 1 << 12
"""The cost of reading and writing a kibibyte in another order, and of a Transpose besides: of choices that move as many
bytes, the one with fewest Transposes is taken."""
SMALL_NODE = 1 << 4
"""The cost of a node that moves next to nothing: a Reshape, a Gather of a shape."""
CHANGED_NODE = 1
"""The cost of a node on other dims than it came with: of equal choices, the one nearest to the model is taken."""


@dataclass(frozen=True)
class Consumer:
    """A runtime, or the standard alone."""

    name: str
    summary: str
    models: Mapping[str, NodeModel]
    """The models of its operators, by name, with the domain in front where that is not ONNX's own."""

    def reorder_cost(self, source: Order, target: Order, shape: Shape | None, nbytes: int) -> int:
        """The cost of moving `nbytes` bytes, read and written, from one order of dims to another."""
        if source == target:
            return 0
        if shape is not None and same_memory(source, target, shape):
            return SMALL_NODE
        return self.transpose_cost(nbytes)

    def transpose_cost(self, nbytes: int) -> int:
        """The cost of a Transpose that reads and writes `nbytes` bytes."""
        return (-(-nbytes // 1024) + 1) * KIBIBYTE

    def model_of(self, node: Node) -> NodeModel | None:
        """The model of a node; None where it is known on the dims of the file only."""
        if node.captures or (node.domain, node.op_type) in node.graph.functions:
            return None
        return self.models.get(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)


CONSUMERS = {
    consumer.name: consumer
    for consumer in (
        Consumer("onnx", "any runtime of the ONNX standard", MODELS),
        Consumer(
            "ort-cpu",
            "ONNX Runtime's kernels for CPUs",
            {**MODELS, "MatMul": FusedMatMul(), "Gemm": Gemm(packs_constants=True)},
        ),
    )
}


def consumer_named(name: str) -> Consumer:
    """The consumer of this name. Raises LayoutError where there is none."""
    if name not in CONSUMERS:
        raise LayoutError(f"no consumer is called '{name}': there are {', '.join(CONSUMERS)}")
    return CONSUMERS[name]
