"""What a compiled loop computes on which memory: tensors as offsets of their indices, and a graph over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.loops.expression import Symbolic
from layout_ir.backends.llvm.loops.loop_nest import DimOffsets, Nest, nests
from layout_ir.elements.element_types import bits_of


@dataclass(frozen=True, eq=False)
class LoopTensor:
    """A tensor of a kernel: of each dim of the index space the offsets of its indices (`loop_nest`), in elements.

    One that is chosen from is `gathered`: the number of the tensor of indices, and of the dim that they are of, the
    offset of each index, 0 of the first. A result that is gathered is written at the chosen elements, one index after
    the other. One of `positions` is no memory: its elements are their own offsets.
    """

    offsets: tuple[DimOffsets, ...]
    start: int
    dtype: str
    gathered: tuple[int, NDArray[np.int64]] | None = None
    positions: bool = False

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return 1 if self.positions else max(bits_of(self.dtype) // 8, 1)


@dataclass(frozen=True, eq=False)
class LoopProgram:
    """What a kernel computes: `graph`, of which operand k is tensor k, on the index space of `tensors`.

    The last tensor is the result. Folds go over `axes`. `fills` are nests of the result alone, and the stored bits that
    all elements of each are to hold.
    """

    tensors: tuple[LoopTensor, ...]
    graph: Symbolic
    axes: frozenset[int] = frozenset()
    fills: tuple[tuple[Nest, int], ...] = ()


def pad_nests(
    offsets: Sequence[DimOffsets], lo: Sequence[int], shape: Sequence[int], start: int
) -> list[Nest]:
    """The nests over the positions of a padded box that are no element: dims before one inside of the tensor, that one
    in its pads, those behind anywhere."""
    result: list[Nest] = []
    insides = [slice(low, low + extent) for low, extent in zip(lo, shape, strict=True)]
    for dim, row in enumerate(offsets):
        ends = row[:, : lo[dim]], row[:, lo[dim] + shape[dim] :]
        for outside in ends:
            if outside.shape[1]:
                box = [r[:, inside] for r, inside in zip(offsets[:dim], insides, strict=False)]
                result += nests([*box, outside, *offsets[dim + 1 :]], [start])
    return result
