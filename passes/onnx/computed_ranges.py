"""Extents of what counts from 0 to an extent, as positions in a sequence are made.

ONNX's inference knows how long a Range is where constants say it. Positions are counted to an extent of the run time:
`Range(0, Gather(Shape(tokens), 1), 1)` is as long as the tokens are many, and all that they are added to, the rotary
embeddings of an attention say, keeps the name of that extent only if this is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.functions import domain_of, fresh_name

if TYPE_CHECKING:
    import onnx

_INT32, _INT64 = 6, 7
"""Integers, as TensorProto numbers element types."""


def write_out_ranges(graph: onnx.GraphProto, opset: int) -> None:
    """Puts, in a graph whose types are to be inferred, a tensor of as many elements in the place of each Range from 0
    in steps of 1 to an integer that is computed: its extent follows from that integer, by the propagation of data that
    inference does for shapes, through the operators of version 13 on."""
    if opset < 13 or all(node.op_type != "Range" for node in graph.node):
        return
    import onnx.numpy_helper

    scalars: dict[str, tuple[int, int | float]] = {}
    stored = [(tensor.name, tensor) for tensor in graph.initializer]
    for node in graph.node:
        if node.op_type == "Constant":
            stored += [(node.output[0], a.t) for a in node.attribute if a.name == "value"]
    for name, tensor in stored:
        if not tensor.dims and tensor.data_type in (_INT32, _INT64):
            scalars[name] = tensor.data_type, onnx.numpy_helper.to_array(tensor).item()
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    taken.update(value.name for value in (*graph.input, *graph.initializer))
    nodes: list[onnx.NodeProto] = []

    def add(op_type: str, names: list[str], result: str) -> onnx.NodeProto:
        node = type(graph.node[0])(op_type=op_type, input=names, output=[result])
        nodes.append(node)
        return node

    for node in graph.node:
        ends = [scalars.get(name) for name in node.input]
        if node.op_type != "Range" or domain_of(node.domain) or len(ends) != 3:
            nodes.append(node)
            continue
        start, limit, step = ends
        if limit is not None or start is None or step is None or (start[1], step[1]) != (0, 1):
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
        add("Cast", [zeros], result).attribute.add(name="to", type=2, i=start[0])
    del graph.node[:]
    graph.node.extend(nodes)
