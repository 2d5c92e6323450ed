"""Extents of what counts from 0 to an extent, as positions in a sequence are made.

ONNX's inference knows how long a Range is where constants say it. Positions are counted to an extent of the run time:
`Range(0, Gather(Shape(tokens), 1), 1)` is as long as the tokens are many, and all that they are added to, the rotary
embeddings of an attention say, keeps the name of that extent only if this is known.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.functions import domain_of, fresh_name

if TYPE_CHECKING:
    import onnx

_INT32, _INT64 = 6, 7
"""Integers, as TensorProto numbers element types."""


def write_out_ranges(graph: onnx.GraphProto, opset: int) -> frozenset[str]:
    """Puts, in a graph whose types are to be inferred, a tensor of as many elements in the place of each Range from 0
    in steps of 1 to an integer that is computed: its extent follows from that integer, by the propagation of data that
    inference does for shapes, through the operators of version 13 on.

    Returns the values that decide for which Ranges: their operands.
    """
    if opset < 13:
        return frozenset()
    ranges = [
        n for n in graph.node[:] if n.op_type == "Range" and not domain_of(n.domain) and len(n.input) == 3
    ]
    operands = frozenset(name for node in ranges for name in node.input)
    scalars = _integers(graph, operands)
    types: dict[str, int] = {}
    for node in ranges:
        start, limit, step = [scalars.get(name) for name in node.input]
        if limit is None and start is not None and step is not None and (start[1], step[1]) == (0, 1):
            types[node.output[0]] = start[0]
    if not types:
        return operands
    taken = {value.name for value in (*graph.input, *graph.initializer)}
    for node in graph.node[:]:
        taken.update(node.input[:], node.output[:])
    nodes: list[onnx.NodeProto] = []

    def add(op_type: str, names: list[str], result: str) -> onnx.NodeProto:
        node = type(graph.node[0])(op_type=op_type, input=names, output=[result])
        nodes.append(node)
        return node

    for node in graph.node[:]:
        if node.op_type != "Range" or node.output[0] not in types:
            nodes.append(node)
            continue
        result = node.output[0]
        count, extents, zeros = (
            fresh_name(f"{result} {what}", taken) for what in ("count", "extents", "zeros")
        )
        add("Cast", [node.input[1]], count).attribute.add(name="to", type=2, i=_INT64)
        axes = fresh_name(f"{result} axes", taken)
        graph.initializer.add(name=axes, data_type=_INT64, dims=[1], int64_data=[0])
        add("Unsqueeze", [count, axes], extents)
        add("ConstantOfShape", [extents], zeros)
        add("Cast", [zeros], result).attribute.add(name="to", type=2, i=types[result])
    del graph.node[:]
    graph.node.extend(nodes)
    return operands


def _integers(graph: onnx.GraphProto, names: Container[str]) -> dict[str, tuple[int, int]]:
    """The element types and values of the single integers among the constants of a graph that have one of `names`."""
    import onnx.numpy_helper

    stored = [(tensor.name, tensor) for tensor in graph.initializer[:] if tensor.name in names]
    for node in graph.node[:]:
        if node.op_type == "Constant" and node.output[0] in names:
            stored += [(node.output[0], a.t) for a in node.attribute if a.name == "value"]
    return {
        name: (tensor.data_type, int(onnx.numpy_helper.to_array(tensor).item()))
        for name, tensor in stored
        if not tensor.dims and tensor.data_type in (_INT32, _INT64)
    }
