"""GridSample as gathers: the neighbours of each position are rows of channels, of which a weighed sum is taken.

Positions are computed as `backends/reference/grid_sample` does. A neighbour is found by its place in the row of all
pixels, and its weight is the product of one number per dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array

_MODES = {
    "linear": "linear", "bilinear": "linear", "nearest": "nearest", "cubic": "cubic", "bicubic": "cubic"
}  # fmt: skip
"""The modes by the names that ONNX has for them, before opset 20, too."""

_CUBIC = -0.75
"""The coefficient a of cubic interpolation, as ONNX has it here."""


def sampled(node: OpaqueNode) -> SSAValue:
    """The result of a GridSample node on f32; of cubic interpolation, in two dims at most."""
    x, grid = node.input(0), node.input(1)
    shape, places = shape_of(x), shape_of(grid)
    mode = _MODES.get(node.attribute("mode", "linear"))
    padding = node.attribute("padding_mode", "zeros")
    if mode is None or padding not in ("zeros", "border", "reflection"):
        raise Unsupported
    if {dtype_of(x.type), dtype_of(grid.type)} != {"f32"} or not prod(shape) or not prod(places):
        raise Unsupported
    batch, channels, *extents = shape
    rank = len(extents)
    if mode == "cubic" and rank > 2:
        raise Unsupported  # 4 neighbours along each dim
    if not rank or len(places) != rank + 2 or places[0] != batch or places[-1] != rank:
        raise Unsupported
    positions = Positions(node, padding, bool(node.attribute("align_corners", 0)))
    taps: list[list[tuple[SSAValue, SSAValue | None]]] = []
    for dim, extent in enumerate(extents):
        lead = (0,) * (rank + 1)
        column = node.apply(nn.SliceOp, grid, starts=(*lead, rank - 1 - dim), sizes=(*places[:-1], 1))
        taps.append(positions.taps(node.insert(ReshapeOp(column, places[:-1])), extent, mode))
    pixels = node.insert(PermuteOp(x, (0, *range(2, rank + 2), 1)))
    rows = node.insert(ReshapeOp(pixels, (batch * prod(extents), channels)))
    first = np.arange(batch).reshape(batch, *(1,) * rank) * prod(extents)
    total = weighed_sum(node, rows, taps, first, extents, places[:-1])
    return node.insert(PermuteOp(total, (0, rank + 1, *range(1, rank + 1))))


def weighed_sum(
    node: OpaqueNode,
    rows: SSAValue,
    taps: Sequence[Sequence[tuple[SSAValue, SSAValue | None]]],
    first: Array,
    extents: Sequence[int],
    places: Sequence[int],
) -> SSAValue:
    """The sum over all neighbours of positions, (places, channels): `taps` has those along each dim of images of
    `extents`, whose pixels are `rows` of channels, and `first` the row with which the image of a position begins."""
    total: SSAValue | None = None
    for neighbour in product(*taps):
        place = node.constant(first, "i64")
        for dim, (index, _) in enumerate(neighbour):
            stride = node.constant(np.array(prod(extents[dim + 1 :])), "i64")
            place = node.apply(nn.AddOp, place, node.apply(nn.MulOp, index, stride))
        found = node.apply(nn.GatherOp, rows, place, axis=0)
        weights = [weight for _, weight in neighbour if weight is not None]
        for number, weight in enumerate(weights[1:], 1):
            weights[number] = node.apply(nn.MulOp, weights[number - 1], weight)
        if weights:
            column = node.insert(ReshapeOp(weights[-1], (*places, 1)))
            found = node.apply(nn.MulOp, found, column)
        total = found if total is None else node.apply(nn.AddOp, total, found)
    assert total is not None
    return total


class Positions:
    """Which elements a position along a dim is made of."""

    def __init__(self, node: OpaqueNode, padding: str, align_corners: bool = False) -> None:
        self._node = node
        self._padding = padding
        self._align_corners = align_corners

    def taps(self, grid: SSAValue, extent: int, mode: str) -> list[tuple[SSAValue, SSAValue | None]]:
        """The indices (i64) of the elements, each with its weight; None is 1."""
        node, number = self._node, self._number
        place = node.apply(nn.AddOp, grid, number(1))
        if self._align_corners:
            place = node.apply(nn.MulOp, place, number((extent - 1) / 2))
        else:
            place = node.apply(
                nn.MulOp,
                node.apply(nn.SubOp, node.apply(nn.MulOp, place, number(extent)), number(1)),
                number(0.5),
            )
        if mode == "cubic":
            return self._cubic(place, extent)
        if mode == "nearest":
            place = node.apply(nn.RoundOp, place)
        if self._padding == "border":
            place = self._clipped(place, extent)
        elif self._padding == "reflection":
            place = self._mirrored(place, extent)
        if mode == "nearest":
            # Half way between two, what is mirrored is rounded once more.
            return [self._tap(node.apply(nn.RoundOp, place), None, extent)]
        return self.around(place, extent)

    def around(self, place: SSAValue, extent: int) -> list[tuple[SSAValue, SSAValue | None]]:
        """The two elements around a place that counts elements."""
        node, number = self._node, self._number
        low = node.apply(nn.FloorOp, place)
        rest = node.apply(nn.SubOp, place, low)
        high = node.apply(nn.AddOp, low, number(1))
        return [
            self._tap(low, node.apply(nn.SubOp, number(1), rest), extent),
            self._tap(high, rest, extent),
        ]

    def _cubic(self, place: SSAValue, extent: int) -> list[tuple[SSAValue, SSAValue | None]]:
        """The four elements around a place: it is they that are moved inside, not what lies between them."""
        node, number = self._node, self._number
        low = node.apply(nn.FloorOp, place)
        rest = node.apply(nn.SubOp, place, low)
        other = node.apply(nn.SubOp, number(1), rest)
        weights = self._far(rest), self._near(rest), self._near(other), self._far(other)
        taps: list[tuple[SSAValue, SSAValue | None]] = []
        for step, weight in enumerate(weights, -1):
            index = node.apply(nn.AddOp, low, number(step))
            if self._padding == "reflection":
                index = node.apply(nn.RoundOp, self._mirrored(index, extent))
            taps.append(self._tap(index, weight, extent))
        return taps

    def _near(self, distance: SSAValue) -> SSAValue:
        """The weight of an element at a distance up to 1: ((a + 2) d - (a + 3)) d^2 + 1."""
        node, number = self._node, self._number
        square = node.apply(nn.MulOp, distance, distance)
        found = node.apply(nn.MulOp, distance, number(_CUBIC + 2))
        found = node.apply(nn.MulOp, node.apply(nn.SubOp, found, number(_CUBIC + 3)), square)
        return node.apply(nn.AddOp, found, number(1))

    def _far(self, distance: SSAValue) -> SSAValue:
        """The weight of an element at a distance of 1 more: a d (1 - d)^2."""
        node, number = self._node, self._number
        other = node.apply(nn.SubOp, number(1), distance)
        found = node.apply(nn.MulOp, distance, node.apply(nn.MulOp, other, other))
        return node.apply(nn.MulOp, found, number(_CUBIC))

    def _tap(self, index: SSAValue, weight: SSAValue | None, extent: int) -> tuple[SSAValue, SSAValue | None]:
        node, number = self._node, self._number
        if self._padding == "zeros":
            weight = number(1) if weight is None else weight
            below = node.apply(nn.LessOp, index, number(0))
            above = node.apply(nn.GreaterOp, index, number(extent - 1))
            weight = node.apply(nn.WhereOp, node.apply(nn.OrOp, below, above), number(0), weight)
        inside = self._clipped(index, extent)
        return node.apply(nn.CastOp, inside, result_type=TensorType(i64, shape_of(inside))), weight

    def _clipped(self, place: SSAValue, extent: int) -> SSAValue:
        """Within the dim; what is no number, at its begin."""
        node, zero, last = self._node, self._number(0), self._number(extent - 1)
        above = node.apply(nn.WhereOp, node.apply(nn.GreaterOp, place, zero), place, zero)
        return node.apply(nn.WhereOp, node.apply(nn.LessOp, above, last), above, last)

    def _mirrored(self, place: SSAValue, extent: int) -> SSAValue:
        """Mirrored at the borders, as often as it takes."""
        node, number = self._node, self._number
        low, size = (0.0, extent - 1.0) if self._align_corners else (-0.5, float(extent))
        if not size:
            return node.apply(nn.MulOp, place, number(0))
        beyond = node.apply(nn.SubOp, place, number(low))
        turns = node.apply(nn.FloorOp, node.apply(nn.MulOp, beyond, number(1 / (2 * size))))
        turned = node.apply(nn.SubOp, beyond, node.apply(nn.MulOp, turns, number(2 * size)))
        back = node.apply(nn.SubOp, number(2 * size), turned)
        inside = node.apply(nn.MinOp, turned, back)
        return node.apply(nn.AddOp, inside, number(low))

    def _number(self, value: float) -> SSAValue:
        return self._node.constant(np.array(value, np.float32))
