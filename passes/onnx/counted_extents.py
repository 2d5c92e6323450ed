"""What computed extents count as that shape inference has no number for, where bytes are compared.

Extents of inputs count as agreed (`model_graph.UNKNOWN_EXTENT`), and what is computed from them as what inference makes
of inputs of that size. It makes nothing of some, as of the windows of a picture, cut by extents that nodes compute. But
a Reshape keeps the number of elements: with (batch, 2, 2, 64, 384) reshaped to (unk__0, 64, 384), `unk__0` is 4 for a
batch of one, wherever the name stands, as in what a product makes of the windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING

from layout_ir.passes.onnx.orders import Extent, Shape, is_static

if TYPE_CHECKING:
    from layout_ir.passes.onnx.model_graph import Graph


def with_quotients(graph: Graph) -> Mapping[Extent, int]:
    """What extents of a graph count as (`Graph.counted`), and those that follow from Reshapes on which no other is
    open, and from those that follow."""
    counted = dict(graph.counted)

    def numbers(shape: Shape) -> list[int | None]:
        stated = graph.input_extents
        return [
            graph.counted_extent(n) if isinstance(n, int) or n in stated else counted.get(n) for n in shape
        ]

    reshapes = list(_reshapes(graph))
    size = -1
    while size != len(counted):
        size = len(counted)
        for source, target in reshapes:
            for whole, other in ((source, target), (target, source)):
                elements, factors = numbers(whole), numbers(other)
                if None in elements or factors.count(None) != 1:
                    continue
                name = other[factors.index(None)]
                total = prod(n for n in elements if n is not None)
                rest = prod(n for n in factors if n is not None)
                if isinstance(name, str) and rest and not total % rest:
                    counted[name] = total // rest
    return counted


def _reshapes(graph: Graph) -> Iterator[tuple[Shape, Shape]]:
    """The shapes of operands and results of Reshapes that are not numbers alone."""
    for node in graph.nodes_of_model:
        if node.op_type == "Reshape" and not node.domain:
            source, target = node.shape(0), node.result_shape(0)
            if source is not None and target is not None and not (is_static(source) and is_static(target)):
                yield source, target
