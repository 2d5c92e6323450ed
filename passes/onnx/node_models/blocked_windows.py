"""Pools and upsampling on ONNX Runtime's blocked channels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, cast

from layout_ir.passes.onnx.blocked_channels import BLOCKED, NCHWC_DOMAIN, is_known, padded_channels
from layout_ir.passes.onnx.graph_output import NodeWriter
from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.blocked_model import FLOAT, NOT_LEFT_PLAIN, sized_extents
from layout_ir.passes.onnx.node_models.node_option import COST_PER_NS, NodeOption, option_of
from layout_ir.passes.onnx.node_models.same_order import REDUCTIONS, known_axes
from layout_ir.passes.onnx.orders import Order, Shape

if TYPE_CHECKING:
    import onnx

_POOLS = ("auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides")


def _is_on_floats(node: Node) -> bool:
    """Whether operand and result have four dims of floats, and the node one result."""
    names = (node.input(0), node.outputs[0])
    return (
        is_known(node.shape(0))
        and is_known(node.result_shape())
        and all(node.graph.element_type(name) == FLOAT for name in names)
        and not any(node.outputs[1:])
    )


class BlockedPool:
    """MaxPool, AveragePool and the global ones; a mean over both spatial dims is a global pool.

    ONNX Runtime puts pools of whole blocks of channels into blocks by itself, with a reorder on each side; global ones
    only of an input of the graph.
    """

    def __init__(self, block: int):
        self.block = block

    def options(self, node: Node, orders: Sequence[Order]) -> Iterator[NodeOption]:
        """Blocked operand and result."""
        if self._is_possible(node) and (BLOCKED in orders or self._is_taken(node)):
            yield option_of(node, {0: BLOCKED}, {0: BLOCKED})

    @staticmethod
    def _is_possible(node: Node) -> bool:
        if not _is_on_floats(node):
            return False
        if 0 in cast(Shape, node.result_shape()):
            return False  # the blocked kernel divides by the extents of its result
        if node.op_type == "AveragePool":
            if node.int("ceil_mode", 0) and node.int("count_include_pad", 0):
                return False  # the blocked kernel counts what lies behind the pads, too
            return set(node.ints("dilations") or (1,)) == {1}  # the blocked kernel has none
        if node.op_type == "ReduceMean":
            axes = known_axes(node, REDUCTIONS["ReduceMean"])
            return (
                bool(axes)
                and sorted(node.dim(a, 4) for a in axes or ()) == [2, 3]
                and node.int("keepdims", 1) == 1
            )
        return True

    def _is_taken(self, node: Node) -> bool:
        if node.op_type.startswith("Global") and node.input(0) in node.graph.makers:
            return False
        channels = cast(Shape, node.shape(0))[1]
        return node.op_type != "ReduceMean" and isinstance(channels, int) and channels % self.block == 0

    def plain_cost(self, node: Node) -> int:
        """Nothing, or more than all moves for a pool that ONNX Runtime would not leave there."""
        return NOT_LEFT_PLAIN if self._is_possible(node) and self._is_taken(node) else 0

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node of ONNX Runtime's own domain."""
        import onnx.helper

        kind = "GlobalAveragePool" if node.op_type == "ReduceMean" else node.op_type
        proto = onnx.helper.make_node(
            kind, [writer.inputs[0]], writer.outputs, node.proto.name, domain=NCHWC_DOMAIN
        )
        if not kind.startswith("Global"):
            proto.attribute.extend(a for a in node.proto.attribute if a.name in _POOLS)
        return proto


LINEAR_NS = 1.8, 0.6
"""Nanoseconds per element of the result of a linear Resize in plain orders, and on blocked channels, pads included, in
ONNX Runtime 1.32 on one core (1.75 to 2.0, and 0.60 to 0.79, from 50000 elements on)."""
NEAREST_NS = 0.8, 0.13
"""The same of one to the nearest element (0.74 to 0.83, and 0.09 to 0.15)."""
DOUBLING_NS = 0.15, 0.14
"""The same of one by two in both dims, for which there is a kernel of its own."""


class BlockedUpsample:
    """Resize and Upsample by whole factors of the spatial dims, to the nearest element before, or linearly."""

    def __init__(self, block: int):
        self.block = block

    def options(self, node: Node, orders: Sequence[Order]) -> Iterator[NodeOption]:
        """Blocked operand and result."""
        if BLOCKED in orders and _is_on_floats(node) and (factors := self._factors(node)) is not None:
            batch, channels, *space = sized_extents(node)
            elements = batch * padded_channels(channels, self.block) * prod(space)
            cost = int(elements * self._rates(node, factors)[1] * COST_PER_NS)
            yield option_of(node, {0: BLOCKED}, {0: BLOCKED}, cost=cost)

    @staticmethod
    def _rates(node: Node, factors: tuple[int, int]) -> tuple[float, float]:
        """Nanoseconds per element in plain orders and on blocked channels."""
        if node.text("mode", "nearest") == "linear":
            return LINEAR_NS
        return DOUBLING_NS if factors == (2, 2) else NEAREST_NS

    @staticmethod
    def _factors(node: Node) -> tuple[int, int] | None:
        before, after = node.shape(0) or (), node.result_shape() or ()
        if (
            before[:2] != after[:2]
            or node.op_type == "Upsample"
            or node.opset < 11
            or "axes" in node.attributes
        ):
            return None
        factors: list[int] = []
        for small, large in zip(before[2:], after[2:], strict=True):
            if not isinstance(small, int) or not isinstance(large, int) or not small or large % small:
                return None
            factors.append(large // small)
        scales = node.graph.small_constant(node.input(2)) if node.input(2) else None
        if node.input(2) and (scales is None or (scales.size and scales.tolist()[2:] != factors)):
            return None
        coordinates = node.text("coordinate_transformation_mode", "half_pixel")
        if node.int("antialias", 0) or node.int("exclude_outside", 0):
            return None
        match node.text("mode", "nearest"):
            case "nearest":
                rounds = node.text("nearest_mode", "round_prefer_floor")
                found = coordinates == "asymmetric" and rounds == "floor"
            case "linear":
                found = coordinates in ("asymmetric", "align_corners", "half_pixel")
            case _:
                found = False
        return (factors[0], factors[1]) if found else None

    def plain_cost(self, node: Node) -> int:
        """What the kernel for plain orders takes, where there is a blocked one."""
        factors = self._factors(node) if _is_on_floats(node) else None
        if factors is None:
            return 0
        return int(prod(sized_extents(node)) * self._rates(node, factors)[0] * COST_PER_NS)

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node of ONNX Runtime's own domain."""
        import onnx.helper

        factors = self._factors(node)
        assert factors is not None
        return onnx.helper.make_node(
            "Upsample", [writer.inputs[0]], writer.outputs, node.proto.name, domain=NCHWC_DOMAIN,
            scales=[1, 1, *factors], mode=node.text("mode", "nearest"),
            coordinate_transformation_mode=node.text("coordinate_transformation_mode", "half_pixel"),
        )  # fmt: skip
