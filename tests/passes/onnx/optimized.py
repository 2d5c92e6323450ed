"""What has to hold of every model that is optimized: ONNX Runtime computes the same, and nothing is left to win."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
from numpy.typing import NDArray

import layout_ir as li
from layout_ir.frontends.onnx.subgraphs import graphs_of, used_names
from layout_ir.passes.onnx.optimized_model import OptimizedModel
from tests.frontends.onnx.onnxruntime_oracle import session_results

FLOAT = onnx.TensorProto.FLOAT
_WORTH = 2 << 10
"""Bytes that may be moved more where there is a Transpose less: of tensors of this size nobody feels a copy."""
Feeds = Mapping[str, NDArray[Any]]


def value(name: str, *shape: int | str | None, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    """An input or output of a graph, of extents that are numbers, names or not known."""
    return oh.make_tensor_value_info(name, dtype, list(shape))


def transpose(x: str, y: str, *perm: int) -> onnx.NodeProto:
    """A Transpose from value `x` to value `y`."""
    return oh.make_node("Transpose", [x], [y], perm=perm)


def initializer(name: str, array: Any) -> onnx.TensorProto:
    """A constant; of single precision where it is made of Python floats."""
    given = np.asarray(array)
    return onnx.numpy_helper.from_array(
        given.astype(np.float32) if given.dtype == np.float64 else given, name
    )


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    initializers: list[onnx.TensorProto] | None = None,
    *,
    opset: int = 18,
    ir_version: int = 9,
    functions: list[onnx.FunctionProto] | None = None,
) -> onnx.ModelProto:
    """A model that may use the domains of ONNX, of ONNX Runtime, and `my`."""
    graph = oh.make_graph(nodes, "graph", inputs, outputs, initializers or [])
    imports = [oh.make_opsetid("", opset), oh.make_opsetid("com.microsoft", 1), oh.make_opsetid("my", 1)]
    return oh.make_model(graph, opset_imports=imports, ir_version=ir_version, functions=functions or [])


def random_feeds(model: onnx.ModelProto, **extents: int) -> dict[str, NDArray[Any]]:
    """Random inputs for those that are floats; `extents` are those of named dims."""
    random = np.random.default_rng(len(model.graph.node))
    feeds: dict[str, NDArray[Any]] = {}
    for each in model.graph.input:
        shape = [
            extents[dim.dim_param] if dim.dim_param else dim.dim_value
            for dim in each.type.tensor_type.shape.dim
        ]
        dtype = oh.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type)
        feeds[each.name] = random.standard_normal(shape).astype(dtype)
    return feeds


def op_types(model: onnx.ModelProto) -> list[str]:
    """The operators of the nodes of the graph, in order."""
    return [node.op_type for node in model.graph.node]


def count_transposes(graph: onnx.GraphProto) -> int:
    """The Transposes of a graph and its subgraphs."""
    inner = sum(count_transposes(g) for node in graph.node for g in graphs_of(node))
    return inner + sum(node.op_type == "Transpose" for node in graph.node)


def check_optimized(
    model: onnx.ModelProto,
    feeds: Feeds | None = None,
    target: str = "onnx",
    *,
    tolerance: float = 1e-4,
    compares_bytes: bool = True,
    **options: Any,
) -> OptimizedModel:
    """Optimizes a model and asserts what holds of every result, which it returns.

    The model that was given is as it was; ONNX Runtime without its optimizations gives the same outputs, floats within
    `tolerance` of the largest element; the checker has nothing to say; the report counts the Transposes that are there;
    they are no more, and for `compares_bytes` (where sizes are known) do not move more for that; no constant is left
    over that somebody used before; a second time changes nothing.
    """
    given = model.SerializeToString(deterministic=True)
    result = li.optimize_onnx(model, target, **options)
    assert model.SerializeToString(deterministic=True) == given
    new = result.model
    if target == "onnx":
        onnx.checker.check_model(new, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    assert count_transposes(new.graph) == result.after.count == len(result.remaining)
    assert result.after.count <= result.before.count
    fewer = result.before.count - result.after.count
    assert result.after.nbytes <= result.before.nbytes + _WORTH * fewer or not compares_bytes
    assert idle_constants(new.graph) <= idle_constants(model.graph)
    compare(model, new, random_feeds(model) if feeds is None else feeds, result, tolerance)
    if not result.obligations:
        again = li.optimize_onnx(new, target, **options).model
        assert again.SerializeToString(deterministic=True) == new.SerializeToString(deterministic=True)
    return result


def idle_constants(graph: onnx.GraphProto) -> set[str]:
    """The initializers and results of Constants that nothing in a graph uses."""
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {name for node in graph.node if node.op_type == "Constant" for name in node.output}
    used = {name for node in graph.node for name in used_names(node)}
    return constants - used - {value.name for value in graph.output}


def compare(
    model: onnx.ModelProto, new: onnx.ModelProto, feeds: Feeds, result: OptimizedModel, tolerance: float
) -> None:
    """Asserts that both models give the same in ONNX Runtime, where callers meet the obligations of `result`."""
    orders = {entry.name: entry.order for entry in result.obligations}
    turned = {name: x.transpose(orders[name]) if name in orders else x for name, x in feeds.items()}
    pairs = zip(session_results(model, feeds), session_results(new, turned), strict=True)
    for output, (wanted, found) in zip(model.graph.output, pairs, strict=True):
        wanted = wanted.transpose(orders[output.name]) if output.name in orders else wanted
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        if wanted.dtype.kind != "f":
            np.testing.assert_array_equal(found, wanted)
            continue
        finite = np.abs(wanted[np.isfinite(wanted)].astype(np.float64)).max(initial=1e-3)
        np.testing.assert_allclose(
            found.astype(np.float64), wanted.astype(np.float64), rtol=0, atol=tolerance * finite
        )
