"""Transposes of values that constants alone decide, computed now.

Other nodes of constants stay: what is computed from an initializer may be larger than that, and a runtime folds it
anyway. So a Transpose is folded where all that leads to it are small nodes on constants and its result is no larger
than those; one behind a DequantizeLinear is not, or the weights would not be quantized any more.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, cast

from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.budget import STEPS_PER_ELEMENT, Budget
from layout_ir.frontends.onnx.folding import fold
from layout_ir.frontends.onnx.functions import Call, node_title
from layout_ir.frontends.onnx.node import Node as FoldedNode
from layout_ir.frontends.onnx.values import Constant
from layout_ir.passes.onnx.inferred_types import SMALL
from layout_ir.passes.onnx.model_graph import Graph, Node, transpose_perm
from layout_ir.passes.onnx.orders import Shape, is_static

if TYPE_CHECKING:
    from numpy.typing import NDArray

_QUANTIZATION = ("DequantizeLinear", "QuantizeLinear")
_PARTS = ("Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose result is their operand, or a part of it, in another shape."""


def fold_constant_transposes(graph: Graph) -> None:
    """Makes constants of the Transposes of `graph` that constants decide, and drops what only led to them."""
    if not any(_is_candidate(node, graph) for node in graph.nodes):
        return
    wanted = {node.outputs[0] for node in graph.nodes if _is_candidate(node, graph)}
    evaluation = _evaluated(graph, wanted)
    found = {
        name: array
        for name in wanted
        if (array := evaluation.arrays.get(name)) is not None
        and array.nbytes <= max(sum(map(graph.nbytes, evaluation.sources[name])), 8 * SMALL)
    }
    graph.make_constant(found)


def decided_integers(graph: Graph) -> dict[str, NDArray[Any]]:
    """The lists of integers, and single ones, that constants and known shapes decide: shapes, axes, starts.

    Only those that a node reads of whose results not all extents are known; shape inference may know more with them.
    """
    unknown = [
        node for node in graph.nodes if any(_is_open(graph.shape(name)) for name in node.outputs if name)
    ]
    wanted = {name for node in unknown for name in node.inputs[1:]} - graph.constants.keys()
    arrays = _evaluated(graph, wanted).arrays if wanted else {}
    return {
        name: array
        for name, array in arrays.items()
        if name in wanted and array.dtype.kind in "iu" and array.ndim < 2 and array.size <= SMALL
    }


def _evaluated(graph: Graph, wanted: set[str]) -> _Evaluation:
    """The values of these names that constants and known shapes decide, and those that lead to them."""
    decided: dict[str, Node] = {}
    for node in graph.nodes:
        if _is_decided(node, graph, decided):
            decided[node.outputs[0]] = node
    leading = wanted & decided.keys()
    for name, node in reversed(decided.items()):
        if name in leading and node.op_type != "Shape":
            leading.update(node.inputs)
    evaluation = _Evaluation(graph)
    for name, node in decided.items():
        if name in leading:
            evaluation.add(node)
    return evaluation


def _is_open(shape: Shape | None) -> bool:
    return shape is None or not is_static(shape)


def _is_candidate(node: Node, graph: Graph) -> bool:
    return transpose_perm(node) is not None and node.inputs[0] not in graph.constants


def _is_decided(node: Node, graph: Graph, decided: dict[str, Node]) -> bool:
    """Whether constants and known shapes alone decide the one output of a node."""
    has_subgraph = any(attribute.HasField("g") or attribute.graphs for attribute in node.proto.attribute)
    if (
        node.domain
        or node.op_type in _QUANTIZATION
        or has_subgraph
        or len(node.outputs) != 1
        or not node.outputs[0]
    ):
        return False
    if node.op_type == "Shape":
        shape = node.shape(0)
        return shape is not None and is_static(shape) and not node.proto.attribute
    names = [name for name in node.inputs if name]
    return bool(names) and all(name in graph.constants or name in decided for name in names)


class _Evaluation:
    """The elements of values, as far as they could be computed, and the constants that each was computed from."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.budget = Budget()
        self.arrays: dict[str, NDArray[Any]] = {}
        self.sources: dict[str, frozenset[str]] = {}

    def add(self, node: Node) -> None:
        """Computes the output of a node; leaves it out where an input is missing, or it would cost too much."""
        try:
            array = self._computed(node)
        except LayoutError:
            return  # what is wrong with the node is not for us to say
        if array is not None:
            name = node.outputs[0]
            self.arrays[name] = array
            own = [self.sources.get(source, frozenset([source])) for source in node.inputs if source]
            self.sources[name] = frozenset() if node.op_type == "Shape" else frozenset[str]().union(*own)

    def _computed(self, node: Node) -> NDArray[Any] | None:
        import numpy as np

        if node.op_type == "Shape":
            return np.array(node.shape(0), np.int64)
        arrays: list[NDArray[Any] | None] = []
        for name in node.inputs:
            array = None
            if name:
                array = self.graph.elements(name) if name in self.graph.constants else self.arrays.get(name)
                if array is None:
                    return None
            arrays.append(array)
        result = node.result_shape()
        few = result is not None and is_static(result) and prod(cast("tuple[int, ...]", result)) <= SMALL
        if node.op_type in _PARTS or (few and all(a is None or a.size <= SMALL for a in arrays)):
            return self._by_reference(node, arrays)
        call = Call(node.proto, node_title(node.proto, 0), self.graph.opsets)
        results = fold(
            FoldedNode(call, [None if a is None else Constant(a, "") for a in arrays], self.budget)
        )
        return None if results is None else results[0]

    def _by_reference(self, node: Node, arrays: list[NDArray[Any] | None]) -> NDArray[Any] | None:
        import numpy as np
        import onnx
        import onnx.helper
        from onnx.reference import ReferenceEvaluator

        given = {name: a for name, a in zip(node.inputs, arrays, strict=True) if a is not None}
        size = max((array.size for array in given.values()), default=0)
        if self.budget.spend(size * 8, STEPS_PER_ELEMENT * size) is not None:
            return None
        unknown = onnx.TypeProto()
        graph = onnx.helper.make_graph(
            [node.proto],
            "part",
            [onnx.helper.make_value_info(name, unknown) for name in given],
            [onnx.helper.make_value_info(node.outputs[0], unknown)],
        )
        imports = [onnx.helper.make_opsetid("", self.graph.opsets.get("", 1))]
        evaluator: Any = ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=imports))
        try:
            (result,) = evaluator.run(None, given)
        except Exception:
            return None  # whatever the reference raises for inputs that do not fit
        return cast("NDArray[Any]", result) if isinstance(result, np.ndarray) else None
