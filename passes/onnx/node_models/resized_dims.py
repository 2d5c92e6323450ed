"""Resize and Upsample: which dims they resize, and on which places kernels are made for that.

To the nearest element any dims are resized. What weighs neighbours is there for tensors in which all resized dims are
behind the first two, as in N, C, space; and, linearly, for images in N, H, W, C.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from layout_ir.passes.onnx.graph_output import NodeWriter, set_attribute, set_input
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.node_option import Candidates, NodeModel, NodeOption, all_of
from layout_ir.passes.onnx.node_models.same_order import SameOrder, known_entries
from layout_ir.passes.onnx.orders import Order, inverse

if TYPE_CHECKING:
    import onnx

_FLOAT = 1
"""FLOAT, as TensorProto numbers element types."""


class Resize(SameOrder):
    """On any places to the nearest element, else on those for which there are kernels.

    Those of ONNX Runtime 1.32 for space behind N and C and for images in N, H, W, C compute the same on floats, to
    the bit; integers they round otherwise, so that these stay with theirs. The one for images takes a third of the
    time for 64 channels, and two to six times as long for one to four; that runtime moves Transposes out of its way
    all the same.
    """

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """The orders in which the dims that are resized lie where a kernel takes them."""
        if not _lists_are_known(node):
            return
        resized, rank = _resized(node), len(node.shape(0) or ())
        own = _kernel(resized, rank)
        kernels = ("space", "image") if own is not None and _is_linear_image(node) else (own,)
        is_nearest = node.text("mode", "nearest") == "nearest"
        if own is None and not is_nearest and not _is_known(node, resized):
            return  # what runs it takes the dims, whichever they are, only where they are
        for option in super().options(node, ins, outs):
            places = [option.outs[0].index(dim) for dim in resized]
            has_kernel = set(places) == set(resized) if own is None else _kernel(places, rank) in kernels
            if is_nearest or has_kernel:
                yield option

    def looks_at(self, node: Node) -> Hashable:
        """All of the node, and which dims it resizes, which floats may say."""
        return all_of(node), tuple(_resized(node))

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node with its scales, sizes and regions in the new order."""
        proto = writer.copy()
        _adjust(writer, proto, option.outs[0])
        return proto


RESIZES: dict[str, NodeModel] = dict.fromkeys(("Resize", "Upsample"), Resize())


def _kernel(places: Collection[int], rank: int) -> Literal["space", "image"] | None:
    """What resizes the dims in these places; None where nothing does, or where that is not known."""
    if all(place >= 2 for place in places):
        return "space"
    return "image" if rank == 4 and all(place in (1, 2) for place in places) else None


def _is_linear_image(node: Node) -> bool:
    """Whether both kernels compute what a node does."""
    return (
        node.op_type == "Resize"
        and node.opset >= 11
        and len(node.shape(0) or ()) == 4
        and node.text("mode", "nearest") == "linear"
        and node.text("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize"
        and not node.int("antialias", 0)
        and node.graph.element_type(node.inputs[0]) == _FLOAT
    )


def _resized(node: Node) -> list[int]:
    """The dims of which it is not known that they stay as they are."""
    before, after = node.shape(0) or (), node.result_shape() or ()
    rank = len(before)
    if not rank:
        return []
    axes = node.ints("axes")
    dims = range(rank) if axes is None else [node.dim(axis, rank) for axis in axes]
    scales = _scales(node)
    if scales is not None and len(scales) == len(dims):
        return [dim for dim, scale in zip(dims, scales, strict=True) if scale != 1]
    return [dim for dim in dims if before[dim] is None or len(after) != rank or before[dim] != after[dim]]


def _is_known(node: Node, dims: Sequence[int]) -> bool:
    """Whether all of these dims are resized: scales say so, or extents that are numbers."""
    before, after = node.shape(0) or (), node.result_shape() or ()
    return _scales(node) is not None or (
        len(before) == len(after)
        and all(isinstance(before[dim], int) and isinstance(after[dim], int) for dim in dims)
    )


def _scales(node: Node) -> Sequence[float] | None:
    """The scales, where the node says them and they are known."""
    if node.op_type == "Upsample" and "scales" in node.attributes:
        return node.attributes["scales"].floats
    name = node.input(1 if _takes_scales_first(node) else 2)
    array = node.graph.small_constant(name) if name else None
    return None if array is None or not array.size else array.ravel().tolist()


def _takes_scales_first(node: Node) -> bool:
    """Whether the scales are input 1, as up to opset 10."""
    return node.opset < 11 or node.op_type == "Upsample"


# Lists with an entry per dim --------------------------------------------------------------------------------------


def _lists_are_known(node: Node) -> bool:
    """Whether it is known how many entries lists have, so that they can be put into another order."""
    if _takes_scales_first(node) or "axes" in node.attributes:
        return True
    return all(not node.input(k) or known_entries(node, k) is not None for k in (1, 2, 3))


def _adjust(writer: NodeWriter, proto: onnx.NodeProto, order: Order) -> None:
    """Scales, sizes and regions per dim, or per axis."""
    node, rank = writer.node, len(order)
    axes = node.ints("axes")
    if axes is not None:
        places = inverse(order)
        set_attribute(proto, "axes", [places[node.dim(a, rank)] for a in axes])
        return
    if _takes_scales_first(node):
        if node.input(1):
            set_input(proto, 1, _picked_floats(writer, 1, order))
        else:
            set_attribute(proto, "scales", [node.attributes["scales"].floats[d] for d in order])
        return
    both = [*order, *(dim + rank for dim in order)]
    for number, entries, places in ((1, 2 * rank, both), (2, rank, order), (3, rank, order)):
        name = node.input(number)
        # An input that is left out may be given as an empty list.
        if name and known_entries(node, number) == entries:
            set_input(proto, number, _picked_floats(writer, number, places))


def _picked_floats(writer: NodeWriter, number: int, places: Sequence[int]) -> str:
    import onnx.numpy_helper

    node = writer.node
    array = node.graph.small_constant(node.input(number))
    if array is None:
        return writer.gathered(writer.inputs[number], places)
    name = writer.out.fresh(f"{node.input(number)}_permuted")
    writer.out.initializers.append(onnx.numpy_helper.from_array(array[list(places)], name))
    return name
