"""Extents of the run time that are equal although ONNX's shape inference gives each result names of its own.

A convolution with padded windows and steps of one has the spatial extents of its operand, an elementwise operator those
of its operands, where these are the same, and a Resize those that its scales leave as they are. ONNX counts them anew,
and what is added to a value that is two convolutions older would seem to be of another shape. The channels of a
convolution's operand are those of its weights.
"""

from __future__ import annotations

from layout_ir.passes.onnx.model_graph import Graph, Node
from layout_ir.passes.onnx.node_models.same_order import ELEMENTWISE
from layout_ir.passes.onnx.orders import Extent, Shape

_WINDOWS = {"AveragePool", "Conv", "FusedConv", "MaxPool"}
_ELEMENTWISE = {*ELEMENTWISE, "BatchNormalization", "Dropout", "FastGelu", "Gelu", "QuickGelu"}


def name_equal_extents(graph: Graph) -> None:
    """Gives results the extents of operands, node by node, where both are the same and only one has a known name."""
    for node in graph.nodes_of_model:
        _name_channels(node)
        result = node.result_shape()
        if result is None or all(isinstance(extent, int) for extent in result):
            continue
        if node.op_type in _WINDOWS:
            found = _of_windows(node, result)
        elif node.op_type in _ELEMENTWISE:
            found = _of_elements(node, result)
        elif node.op_type in ("Resize", "Upsample"):
            found = _of_scales(node, result)
        else:
            continue
        if found != result:
            graph.set_shape(node.outputs[0], found, node.outputs[0])


def _name_channels(node: Node) -> None:
    """Gives the operand of a convolution the channels that its weights say it has."""
    shape, weights = node.shape(0), node.shape(1)
    if not node.op_type.endswith("Conv") or node.op_type not in _WINDOWS or shape is None or weights is None:
        return
    if len(shape) < 3 or len(weights) != len(shape) or isinstance(shape[1], int):
        return
    if isinstance(weights[1], int):
        channels = weights[1] * node.int("group", 1)
        node.graph.set_shape(node.inputs[0], (shape[0], channels, *shape[2:]), node.inputs[0])


def _of_windows(node: Node, result: Shape) -> Shape:
    shape = node.shape(0)
    weights = node.shape(1) if node.op_type.endswith("Conv") else None
    kernel = node.ints("kernel_shape") or (weights[2:] if weights is not None else ())
    if shape is None or len(shape) != len(result) or len(kernel) != len(shape) - 2:
        return result
    rank = len(kernel)
    pads, one = node.ints("pads") or (0,) * 2 * rank, (1,) * rank
    strides, dilations = node.ints("strides") or one, node.ints("dilations") or one
    automatic = node.text("auto_pad", "NOTSET")
    found: list[Extent] = list(result)
    if isinstance(shape[0], str) and not isinstance(result[0], int):
        found[0] = shape[0]
    for k, size in enumerate(kernel):
        padded = automatic.startswith("SAME") or (
            automatic == "NOTSET"
            and isinstance(size, int)
            and pads[k] + pads[k + rank] == dilations[k] * (size - 1)
        )
        if padded and strides[k] == 1 and not isinstance(result[k + 2], int):
            found[k + 2] = shape[k + 2]
    return tuple(found)


def _of_scales(node: Node, result: Shape) -> Shape:
    name = node.input(1 if node.op_type == "Upsample" or node.opset < 11 else 2)
    scales, shape = node.graph.small_constant(name) if name else None, node.shape(0)
    if scales is None or shape is None or not scales.size == len(shape) == len(result):
        return result
    return tuple(
        extent if isinstance(extent, int) or scale != 1 or before is None else before
        for extent, before, scale in zip(result, shape, scales.flat, strict=True)
    )


def _of_elements(node: Node, result: Shape) -> Shape:
    shapes = [node.shape(k) for k, name in enumerate(node.inputs) if name]
    if node.op_type == "BatchNormalization":
        shapes = shapes[:1]
    found: list[Extent] = list(result)
    for d, extent in enumerate(result):
        theirs: set[Extent] = set()
        for shape in shapes:
            place = None if shape is None else d - len(result) + len(shape)
            if shape is None or place is None:
                return result
            if place >= 0:
                theirs.add(shape[place])
        names = theirs - {1}
        if not isinstance(extent, int) and len(names) == 1 and None not in names:
            found[d] = names.pop()
    return tuple(found)
