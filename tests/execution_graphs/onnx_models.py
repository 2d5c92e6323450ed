"""ONNX models in words, and what ONNX Runtime computes of every value in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.execution_graphs.copies import Copy, explain_copies
from layout_ir.execution_graphs.execution_graph import ExecutionGraph
from layout_ir.execution_graphs.onnx_model import read_onnx
from layout_ir.execution_graphs.optimized_copies import decide_transposes
from layout_ir.passes.onnx.optimize_model import optimize_orders
from layout_ir.passes.onnx.optimized_model import OptimizedModel

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'

LAST = (
    HEAD
    + """
m (float[1,6,10,8] x, float[8,8,1,1] w) => (float[1,6,10,8] y) {
  a = Transpose<perm = [0, 3, 1, 2]>(x)
  b = Conv(a, w)
  c = Transpose<perm = [0, 2, 3, 1]>(b)
  d = Softmax<axis = 3>(c)
  e = Transpose<perm = [0, 3, 1, 2]>(d)
  f = Conv(e, w)
  y = Transpose<perm = [0, 2, 3, 1]>(f)
}
"""
)
"""Two convolutions in a network whose tensors have their channels last."""

NORM = (
    HEAD
    + """
m (float[1,8,6,10] x, float[8,8,1,1] w, float[8] s) => (float[1,8,6,10] y) {
  b = Conv(x, w)
  c = Transpose<perm = [0, 2, 3, 1]>(b)
  d = LayerNormalization<axis = -1>(c, s)
  e = Transpose<perm = [0, 3, 1, 2]>(d)
  y = Conv(e, w)
}
"""
)
"""A norm over the last dim, the channels, between two convolutions: what both take is known."""


def parsed(text: str) -> Any:
    """The model that `text` says, in ONNX's own notation."""
    import onnx

    return onnx.parser.parse_model(text)


def decided(model: Any, target: str = "ort-cpu") -> tuple[ExecutionGraph, dict[str, Copy], OptimizedModel]:
    """The graph of a model, its copies by the names of their results, and its optimization."""
    graph = read_onnx(model, {})
    result = optimize_orders(model, target)
    copies = decide_transposes(graph, explain_copies(graph), result)
    return graph, {copy.destination.name: copy for copy in copies}, result


def computed(model: Any, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """All values of the nodes of a model, by name, as ONNX Runtime computes them without optimizing."""
    import onnx

    runtime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    told = onnx.ModelProto()
    told.CopyFrom(model)
    made = [output for node in told.graph.node for output in node.output if output]
    del told.graph.output[:]
    told.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(told.SerializeToString(), options)
    return dict(zip(made, session.run(None, inputs), strict=True))


def random_inputs(model: Any) -> dict[str, NDArray[Any]]:
    """Random numbers for the inputs of a model whose shapes are known."""
    random = np.random.default_rng(0)
    return {
        value.name: random.standard_normal([d.dim_value for d in value.type.tensor_type.shape.dim]).astype(
            np.float32
        )
        for value in model.graph.input
    }
