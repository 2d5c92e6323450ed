"""Extents below 0, of which ONNX's inference of a Slice aborts the process (an assertion in C++; onnx 1.22 and 1.23).

They come into a model in three ways. Converters write -1 for an extent that only the run time knows: inference does not
see those. An Expand, ConstantOfShape or Tile may be given a constant shape with one, which no runtime takes: inference
does not see such a node. And windows may be larger than what they move over, parts more than there is: inference
computes what is below 0. So a Slice behind such an operator is seen once what it cuts is known to be none of those.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.subgraphs import graphs_of, graphs_within, is_graph

if TYPE_CHECKING:
    import onnx

    from layout_ir.frontends.onnx.subgraphs import Body

_SHAPE_INPUT = {
    "AffineGrid": 1,
    "CenterCropPad": 1,
    "Col2Im": 1,
    "ConstantOfShape": 0,
    "DFT": 1,
    "Expand": 1,
    "Split": 1,
    "Tile": 1,
    "TopK": 1,
}
"""Which input of an operator makes the extents of its result."""

WITH_WINDOWS = frozenset((
    "AveragePool", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "LpPool", "MaxPool", "MaxUnpool", "Pad",
    "QLinearConv", "Resize", "RoiAlign", "Split", "Upsample",
))  # fmt: skip
"""The operators of whose result inference may compute an extent below 0 from extents that are not: those of onnx 1.23
that do so for windows, pads, scales or parts that do not fit."""


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
    return _with_negative_constants(bodies, _SHAPE_INPUT)


def _with_negative_constants(bodies: Sequence[Body], places: Mapping[str, int]) -> list[onnx.NodeProto]:
    """The nodes with a constant that has a number below 0 in the place that `places` has for their operators."""
    makers = [node for body in bodies for node in body.node if node.op_type in places and not node.domain]
    if not makers:
        return []
    used = {node.input[place] for node in makers if len(node.input) > (place := places[node.op_type])}
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


def slices_by_look(graph: onnx.GraphProto) -> list[list[onnx.NodeProto]]:
    """The Slices of a graph and its subgraphs, by how often inference has to look at the others before.

    The first may be seen at once: nothing before them computes extents. Each of the next is behind an operator of
    `WITH_WINDOWS`, the one behind those with another such operator between the two, and so on.
    """
    crops = _with_negative_constants(list(graphs_within(graph)), {"Pad": 1})
    cropped = {name for node in crops for name in node.output}
    found: list[list[onnx.NodeProto]] = [[]]

    def visit(graph: onnx.GraphProto, known: dict[str, tuple[int, bool]]) -> tuple[int, bool]:
        """The look in which what the nodes of a graph give is inferred, and whether its extents are computed."""
        all_of_it = 0, False
        for node in graph.node:
            of_all = max((known[name] for name in node.input if name in known), default=(0, False))
            for inner in graphs_of(node) if node.attribute else ():
                inputs = dict.fromkeys((value.name for value in inner.input), of_all)
                of_all = max(of_all, visit(inner, known | inputs))
            look, is_computed = of_all
            if node.op_type == "Slice":
                look += is_computed
                is_computed = False
                found.extend([] for _ in range(look + 1 - len(found)))
                found[look].append(node)
            elif _may_compute(node, not cropped.isdisjoint(node.output)):
                is_computed = True
            known.update(dict.fromkeys(node.output, (look, is_computed)))
            all_of_it = max(all_of_it, (look, is_computed))
        return all_of_it

    visit(graph, {})
    return found


def _may_compute(node: onnx.NodeProto, is_cropping: bool) -> bool:
    """Whether inference may compute an extent below 0 for the result of a node."""
    if node.op_type not in WITH_WINDOWS:
        return False
    if node.op_type == "Split":  # in two parts, one is as long as the other or one less
        return len(node.output) > 2 and len(node.input) < 2
    if node.op_type == "Pad":
        return is_cropping or len(node.input) < 2
    kernel = next((each.ints for each in node.attribute if each.name == "kernel_shape"), (0,))
    return node.op_type == "ConvTranspose" or any(extent != 1 for extent in kernel)


def makers_of_negative_extents(model: onnx.ModelProto, found: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes of `model` for whose results inference, which made `found` of it, has computed an extent below 0."""
    bodies = list(graphs_within(found.graph))
    names = {value.name for value in values_with_negative_extents(bodies)}
    if not names:
        return []
    nodes = (node for body in graphs_within(model.graph) for node in body.node)
    return [node for node in nodes if not names.isdisjoint(node.output)]


def _is_negative(tensor: onnx.TensorProto) -> bool:
    import onnx
    import onnx.numpy_helper

    if tensor.data_type != onnx.TensorProto.INT64 or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return False
    return bool((onnx.numpy_helper.to_array(tensor) < 0).any())
