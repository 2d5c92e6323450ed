"""Extents below 0, of which ONNX's inference of a Slice aborts the process (an assertion in C++; onnx 1.22 and 1.23).

They come into a model in two ways. Converters write -1 for an extent that only the run time knows: inference does not
see those. And an Expand, ConstantOfShape or Tile may be given a constant shape with one, which no runtime takes:
inference does not see such a node. Extents below 0 that are computed from the shapes of other values are not met here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.subgraphs import is_graph

if TYPE_CHECKING:
    import onnx

    from layout_ir.frontends.onnx.subgraphs import Body

_SHAPE_INPUT = {"Expand": 1, "Tile": 1, "ConstantOfShape": 0}
"""Which input of an operator makes the extents of its result."""


_NEGATIVE_NUMBER = re.compile(rb"[\x80-\xff]{9}\x01")
"""What a number below 0 is in the bytes of a message, which are looked at faster than dims are."""


def has_negative_extent(type: onnx.TypeProto) -> bool:
    """Whether a tensor is said to have an extent below 0."""
    return any(dim.dim_value < 0 for dim in type.tensor_type.shape.dim)


def values_with_negative_extents(bodies: Sequence[Body]) -> list[onnx.ValueInfoProto]:
    """The declarations of tensors with an extent below 0."""
    return [
        value
        for body in bodies
        if is_graph(body)
        for value in (*body.input, *body.value_info, *body.output)
        if _NEGATIVE_NUMBER.search(value.SerializeToString()) and has_negative_extent(value.type)
    ]


def forget_negative_extents(value: onnx.ValueInfoProto) -> None:
    """Makes the extents below 0 of a declaration unknown, in place."""
    for dim in value.type.tensor_type.shape.dim:
        if dim.dim_value < 0:
            dim.ClearField("dim_value")


def nodes_with_negative_shapes(bodies: Sequence[Body]) -> list[onnx.NodeProto]:
    """The nodes whose result a constant gives an extent below 0."""
    makers = [
        node for body in bodies for node in body.node if node.op_type in _SHAPE_INPUT and not node.domain
    ]
    if not makers:
        return []
    used = {node.input[place] for node in makers if len(node.input) > (place := _SHAPE_INPUT[node.op_type])}
    negative: set[str] = set()
    for body in bodies:
        tensors = [(tensor.name, tensor) for tensor in body.initializer] if is_graph(body) else []
        for node in body.node:
            if node.op_type == "Constant" and node.output and node.output[0] in used:
                tensors += [(node.output[0], each.t) for each in node.attribute if each.name == "value"]
                lists = [each.ints for each in node.attribute if each.name == "value_ints"]
                negative.update(node.output[0] for ints in lists if min(ints, default=0) < 0)
        negative |= {name for name, tensor in tensors if name in used and _is_negative(tensor)}
    return [node for node in makers if not negative.isdisjoint(node.input)]


def _is_negative(tensor: onnx.TensorProto) -> bool:
    import onnx
    import onnx.numpy_helper

    if tensor.data_type != onnx.TensorProto.INT64 or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return False
    return bool((onnx.numpy_helper.to_array(tensor) < 0).any())
