"""What an ONNX model moves only to have it elsewhere: its Transposes, and the reorders of ONNX Runtime's blocks.

    moves, outputs = count_moves(model, feeds, block=16)      # moves: 48 transposes, 9 MB

Bytes are those read plus those written. Shapes are those that the values have when the model is run on `feeds`, so that
models with symbolic sizes and with ops that shape inference does not know are counted like all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Optional dependencies without type information.
onnx: Any = import_module("onnx")

Arrays = dict[str, NDArray[Any]]

_REORDERS = ("ReorderInput", "ReorderOutput")


@dataclass(frozen=True)
class Moves:
    transposes: int
    """Transposes, wherever they stand, and every Einsum that is nothing else."""
    reorders: int
    """ReorderInput and ReorderOutput of ONNX Runtime."""
    nbytes: int
    """Bytes that all of them read and write in one run, blocks with their pads."""
    unsized: int
    """How many of them are not in `nbytes`: those in the body of a loop, a branch or a function."""


def count_moves(model: Any, feeds: Mapping[str, NDArray[Any]], block: int) -> tuple[Moves, Arrays]:
    """The moves of a model, and the outputs that it gives for `feeds`.

    Runs the model as it stands, without optimizations; raises what ONNX Runtime raises. `block` is how many channels
    ONNX Runtime has in a block on this machine.
    """
    moving = [node for node in model.graph.node if _moves(node)]
    everywhere = [node for node in nodes_of(model) if _moves(node)]
    values = {_plain_side(node) for node in moving}
    outputs, arrays = run_with(model, feeds, values)
    nbytes = sum(_nbytes(node, arrays[_plain_side(node)], block) for node in moving)
    reorders = sum(node.op_type in _REORDERS for node in everywhere)
    return Moves(len(everywhere) - reorders, reorders, nbytes, len(everywhere) - len(moving)), outputs


def nodes_of(model: Any) -> Iterator[Any]:
    """All nodes of a model: of the graph, of the graphs inside its nodes, of its functions."""
    yield from _nested(model.graph.node)
    for function in model.functions:
        yield from _nested(function.node)


def _nested(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nested(inner.node)


def _moves(node: Any) -> bool:
    if node.op_type in _REORDERS:
        return node.domain == "com.microsoft.nchwc"
    if node.domain not in ("", "ai.onnx"):
        return False
    return node.op_type == "Transpose" or (node.op_type == "Einsum" and _permutes(node))


def _permutes(node: Any) -> bool:
    """Whether an Einsum has one operand and only names its dims in another order."""
    (equation,) = (a.s.decode().replace(" ", "") for a in node.attribute if a.name == "equation")
    operand, arrow, result = equation.partition("->")
    return bool(arrow) and "," not in operand and sorted(operand) == sorted(result)


def _plain_side(node: Any) -> str:
    """The operand or the result of a move, whichever is not in blocks."""
    return node.input[0] if node.op_type == "ReorderInput" else node.output[0]


def _nbytes(node: Any, array: NDArray[Any], block: int) -> int:
    if node.op_type not in _REORDERS:
        return 2 * array.nbytes
    attributes = {a.name: a.i for a in node.attribute}
    channels = array.shape[-1] if attributes.get("channels_last") else array.shape[1]
    blocked = array.nbytes // channels * (-(-channels // block) * block) if array.nbytes else 0
    return array.nbytes + blocked


def run_with(model: Any, feeds: Mapping[str, NDArray[Any]], names: set[str]) -> tuple[Arrays, Arrays]:
    """The outputs of a model for `feeds`, and its values of these names."""
    onnxruntime: Any = import_module("onnxruntime")
    known = [value.name for value in model.graph.output]
    inside = sorted(names - set(known) - set(feeds))
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    for name in inside:
        watched.graph.output.add().name = name
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        watched.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    wanted = {value.name for value in session.get_inputs()}
    results = session.run(None, {name: array for name, array in feeds.items() if name in wanted})
    found = dict(zip([*known, *inside], results, strict=True))
    return {name: found[name] for name in known}, {**feeds, **found}


def random_feeds(graph: Any, extent: int = 2, seed: int = 0) -> Arrays:
    """Inputs for a graph of which nothing else is known: normal numbers, zeros for integers, every symbolic size
    `extent`."""
    random = np.random.default_rng(seed)
    weights = {tensor.name for tensor in graph.initializer}
    feeds: Arrays = {}
    for value in graph.input:
        if value.name in weights:
            continue
        kind = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        shape = [dim.dim_value if dim.HasField("dim_value") else extent for dim in kind.shape.dim]
        normal = np.dtype(dtype).kind == "f"
        feeds[value.name] = (random.standard_normal(shape) if normal else np.zeros(shape)).astype(dtype)
    return feeds


def largest_difference(found: Mapping[str, NDArray[Any]], wanted: Mapping[str, NDArray[Any]]) -> float:
    """The largest difference of outputs, relative to the largest number of each; infinite where names, shapes or types
    differ."""
    if found.keys() != wanted.keys():
        return float("inf")
    worst = 0.0
    for name, want in wanted.items():
        got = found[name]
        if not isinstance(want, np.ndarray):
            continue  # sequences and optionals
        if got.shape != want.shape or got.dtype != want.dtype:
            return float("inf")
        if want.dtype.kind not in "fiub" or not want.size:
            continue
        one, other = got.astype(np.float64), want.astype(np.float64)
        finite = np.isfinite(other)
        # NaNs and infinities stay where they are; only numbers may be a little different.
        if (
            not np.array_equal(one[~finite], other[~finite], equal_nan=True)
            or not np.isfinite(one[finite]).all()
        ):
            return float("inf")
        scale = max(float(np.abs(other[finite]).max(initial=0.0)), 1e-30)
        worst = max(worst, float(np.abs(one[finite] - other[finite]).max(initial=0.0)) / scale)
    return worst
