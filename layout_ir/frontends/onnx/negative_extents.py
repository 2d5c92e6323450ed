"""Extents below 0, of which ONNX's inference of a Slice aborts the process (an assertion in C++; onnx 1.22 and 1.23).

They come into a model in three ways. Converters write -1 for an extent that only the run time knows: inference does not
see those. An Expand, ConstantOfShape or Tile may be given a constant shape with one, which no runtime takes: inference
does not see such a node. And windows may be larger than what they move over, parts more than there is, and the shape of
an Expand may be computed (`propagated_numbers`): inference computes what is below 0. So a Slice behind such an operator
is seen once what it cuts is known to be none of those, unless the operator is one that makes no extent below 0 of any
that is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

from layout_ir.frontends.onnx.propagated_numbers import PropagatedNumbers
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

COMPUTING_EXTENTS = frozenset((
    "AveragePool", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "Expand", "LpPool", "MaxPool", "MaxUnpool",
    "Pad", "QLinearConv", "Resize", "RoiAlign", "Split", "Upsample",
))  # fmt: skip
"""The operators of whose result inference may compute an extent below 0 from extents that are not: those of onnx 1.23
that do so for windows, pads, scales or parts that do not fit, or for a shape that is computed."""

_BY_INPUTS = frozenset(("Pad", "Resize", "Upsample"))
"""The operators among them that are told the extents of their result, or how they differ, by inputs."""


_NEGATIVE_NUMBER = re.compile(rb"[\x80-\xff]{9}\x01")
"""What a number below 0 is in the bytes of a message, which are looked at faster than dims are."""


def has_negative_extent(type: onnx.TypeProto) -> bool:
    """Whether a tensor is said to have an extent below 0."""
    return bool(_NEGATIVE_NUMBER.search(type.SerializeToString())) and any(
        dim.dim_value < 0 for dim in type.tensor_type.shape.dim
    )


def values_with_negative_extents(bodies: Sequence[Body]) -> list[onnx.ValueInfoProto]:
    """The declarations of tensors with an extent below 0."""
    return [
        value
        for body in bodies
        if is_graph(body)
        for value in (*body.input, *body.value_info, *body.output)
        if has_negative_extent(value.type)
    ]


def forget_negative_extents(value: onnx.ValueInfoProto) -> None:
    """Makes the extents below 0 of a declaration unknown, in place."""
    for dim in value.type.tensor_type.shape.dim:
        if dim.dim_value < 0:
            dim.ClearField("dim_value")


def nodes_with_negative_shapes(bodies: Sequence[Body]) -> list[onnx.NodeProto]:
    """The nodes whose result a constant gives an extent below 0."""
    asked = [
        (node, node.input[place])
        for body in bodies
        for node in body.node
        if (place := _SHAPE_INPUT.get(node.op_type)) is not None
        and not node.domain
        and len(node.input) > place
    ]
    negative = _constants(bodies, {name for _, name in asked}) if asked else {}
    return [node for node, name in asked if negative.get(name)]


def _constants(bodies: Sequence[Body], used: Set[str]) -> dict[str, bool]:
    """The constants among the values `used`, and whether each has a number below 0; none of another file."""
    found: dict[str, bool] = {}
    for body in bodies:
        tensors = [(tensor.name, tensor) for tensor in body.initializer] if is_graph(body) else []
        for node in body.node:
            if node.op_type == "Constant" and node.output and (name := node.output[0]) in used:
                tensors += [(name, each.t) for each in node.attribute if each.name == "value"]
                for each in node.attribute:
                    if each.name in ("value_ints", "value_floats"):
                        found[name] = found.get(name, False) or min((*each.ints, *each.floats), default=0) < 0
        for name, tensor in tensors:
            if name in used and (is_negative := _is_negative(tensor)) is not None:
                found[name] = found.get(name, False) or is_negative
    return found


def slices_of_functions(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The Slices in functions of a model in which anything may compute an extent below 0: nobody is told what is
    inferred in a function."""
    inner = [graph for function in model.functions for node in function.node for graph in graphs_of(node)]
    bodies = [*model.functions, *(body for graph in inner for body in graphs_within(graph))]
    slices = [node for body in bodies for node in body.node if node.op_type == "Slice"]
    if not slices:
        return []
    bodies += graphs_within(model.graph)
    numbers = _constants_of_shapes(bodies), PropagatedNumbers(bodies)
    may_compute = any(_may_compute(node, *numbers) for body in bodies for node in body.node)
    return slices if may_compute else []


class Looks(NamedTuple):
    """How often inference has to look at other nodes of a model before it may see one."""

    of_nodes: list[int]
    """The number of looks of each node of the graph of the model, with what is in its subgraphs."""
    of_slices: list[tuple[onnx.NodeProto, int]]
    """The Slices of the graph and its subgraphs, each with its number of looks."""


def looks_at_nodes(model: onnx.ModelProto, graphs: Sequence[onnx.GraphProto]) -> Looks | None:
    """When inference may see the nodes of a model whose graph and subgraphs are `graphs`; None where it may see all of
    them at once.

    What nothing computes extents for may be seen at once. The results of operators of `COMPUTING_EXTENTS` and of
    functions have to be known before a Slice of them, or of what follows from them, is seen, and before all that is
    behind that Slice.
    """
    nodes = [node for graph in graphs for node in graph.node]
    known_numbers = _constants_of_shapes(graphs), PropagatedNumbers(graphs)
    functions = {(function.domain, function.name) for function in model.functions}
    if not functions and not any(
        node.op_type in COMPUTING_EXTENTS and _may_compute(node, *known_numbers) for node in nodes
    ):
        return None
    slices: list[tuple[onnx.NodeProto, int]] = []
    is_nested = len(graphs) > 1

    def visit(graph: onnx.GraphProto, known: dict[str, int]) -> list[int]:
        """Per node of a graph, twice the look in which it is inferred, and 1 more where the extents of its results are
        computed; `known` has the same of values by name, and gets those of the graph."""
        found: list[int] = []
        for node in graph.node[:]:
            of_all = max([known.get(name, 0) for name in node.input[:]], default=0)
            for inner in graphs_of(node) if is_nested and node.attribute else ():
                inside = known | dict.fromkeys((value.name for value in inner.input), of_all)
                of_all = max([of_all, *visit(inner, inside)])
                of_all = max([of_all, *(inside.get(value.name, of_all) for value in inner.output)])
            operator = node.op_type
            if operator == "Slice":
                look = (of_all + 1) // 2
                slices.append((node, look))
                of_all = 2 * look
            elif (operator in COMPUTING_EXTENTS and _may_compute(node, *known_numbers)) or (
                functions and (node.domain, operator) in functions
            ):
                of_all |= 1
            known.update(dict.fromkeys(node.output[:], of_all))
            found.append(of_all)
        return found

    of_nodes = [both // 2 for both in visit(model.graph, {})]
    return Looks(of_nodes, slices) if any(look for _, look in slices) else None


def _constants_of_shapes(bodies: Sequence[Body]) -> dict[str, bool]:
    """The constants among inputs of operators of `_BY_INPUTS`, by `_constants`."""
    takers = (node for body in bodies for node in body.node if node.op_type in _BY_INPUTS)
    return _constants(bodies, {name for node in takers for name in node.input})


def _may_compute(node: onnx.NodeProto, constants: Mapping[str, bool], numbers: PropagatedNumbers) -> bool:
    """Whether inference may compute an extent below 0 for the result of a node from extents that are not; `constants`
    are those of `_constants_of_shapes`, `numbers` those of the same bodies."""
    match node.op_type:
        case "Expand":
            return len(node.input) > 1 and numbers.may_be_negative(node.input[1])
        case "Split":  # in two parts, one is as long as the other or one less
            return len(node.output) > 2 and len(node.input) < 2
        case "Pad" | "Resize" | "Upsample":
            given = node.input[1:2] if node.op_type == "Pad" else list(filter(None, node.input[1:]))
            return not given or any(constants.get(name, True) for name in given)
        case operator:
            return operator in COMPUTING_EXTENTS and not _fits_all(node)


def _fits_all(node: onnx.NodeProto) -> bool:
    """Whether windows fit into any extent: whether ONNX's formula for their number is 0 or more of an extent of 0.

    That is (extent + pads - window) / stride + 1 for those that are moved over what is read, and
    (extent - 1) * stride + window - pads for those over what is written.
    """
    given = {each.name: each for each in node.attribute[:]}

    def ints(name: str, default: Sequence[int]) -> Sequence[int]:
        return given[name].ints[:] if name in given else default

    kernel = ints("kernel_shape", ())
    rank = len(kernel)
    strides, dilations = ints("strides", (1,) * rank), ints("dilations", (1,) * rank)
    more = ints("output_padding", (0,) * rank)
    automatic = given["auto_pad"].s if "auto_pad" in given else b"NOTSET"
    pads = ints("pads", (0,) * 2 * rank) if automatic == b"NOTSET" else (0,) * 2 * rank
    if not rank or {len(strides), len(dilations), len(more), len(pads) / 2} != {rank}:
        return False  # what the weights say, or nothing that fits
    if "output_shape" in given or (node.op_type == "MaxUnpool" and len(node.input) > 2):
        return False
    if automatic.startswith(b"SAME"):
        return True
    windows = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    around = [begin + end for begin, end in zip(pads[:rank], pads[rank:], strict=True)]
    rows = zip(windows, around, strides, more, strict=True)
    if node.op_type in ("ConvTranspose", "MaxUnpool"):
        return all(window + extra >= pad + stride for window, pad, stride, extra in rows)
    return all(window <= pad + stride for window, pad, stride, _ in rows)


def makers_of_negative_extents(model: onnx.ModelProto, found: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes of `model` for whose results inference, which made `found` of it, has computed an extent below 0."""
    bodies = list(graphs_within(found.graph))
    names = {value.name for value in values_with_negative_extents(bodies)}
    if not names:
        return []
    nodes = (node for body in graphs_within(model.graph) for node in body.node)
    return [node for node in nodes if not names.isdisjoint(node.output)]


def _is_negative(tensor: onnx.TensorProto) -> bool | None:
    """Whether a tensor has a number below 0; None where its numbers are in another file."""
    import onnx
    import onnx.numpy_helper

    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    return bool((onnx.numpy_helper.to_array(tensor) < 0).any())
