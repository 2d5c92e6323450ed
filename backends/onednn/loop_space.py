"""The tensors of the loop of an op, as they are found: where each index of each dim of the loop finds its element."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.loops.expression import Symbolic, SymbolicNumPy
from layout_ir.backends.llvm.loops.loop_nest import DimOffsets, Nest
from layout_ir.backends.llvm.loops.loop_program import LoopProgram, LoopTensor, pad_nests
from layout_ir.backends.reference.semantics import layout_at_run_time
from layout_ir.backends.reference.tensor import policy_element
from layout_ir.dialects.layout import dtype_of
from layout_ir.elements.numpy_types import Array
from layout_ir.elements.scalar_type import computed_dtype
from layout_ir.errors import LayoutError

Found = tuple[LoopProgram, tuple[SSAValue, ...]]
"""A loop, and the values whose buffers it takes, the result left out."""


def offsets_of(layout: Layout) -> list[Array]:
    """Per dim, the offset of each index."""
    return [layout.offsets(dim) for dim in range(layout.rank)]


def loop_tensor(offsets: Iterable[Array], start: int, dtype: str, **options: Any) -> LoopTensor:
    """A tensor of a loop whose elements lie at the sum of one offset per dim, and `start`."""
    return LoopTensor(
        tuple(np.asarray(row, np.int64).reshape(1, -1) for row in offsets), start, dtype, **options
    )


def _broadcast_offsets(layout: Layout, shape: Sequence[int]) -> list[Array]:
    """The offsets of a layout broadcast to a shape."""
    first = len(shape) - layout.rank
    offsets = [np.zeros(extent, np.int64) for extent in shape]
    for dim, row in enumerate(offsets_of(layout)):
        if layout.shape[dim] == shape[first + dim]:
            offsets[first + dim] = row
        else:  # its one index, of the padded box the first that is an element
            offsets[first + dim] = np.full(shape[first + dim], row[0], np.int64)
    return offsets


def _fills(layout: Layout, dtype: str) -> tuple[tuple[Nest, int], ...]:
    """The pads of a result, and what its type says that they hold."""
    if not layout.is_padded or layout.pad == "undef":
        return ()
    offsets: list[DimOffsets] = [
        layout.offsets(dim, padded=True).reshape(1, -1) for dim in range(layout.rank)
    ]
    bits = bits_of_element(policy_element(layout, dtype))
    return tuple((nest, bits) for nest in pad_nests(offsets, layout.lo, layout.shape, layout.offset))


def bits_of_element(element: Any) -> int:
    """The bits of a stored element, as a signed integer."""
    array = np.asarray(element)
    return int(array.view(f"i{array.dtype.itemsize}") if array.dtype != np.bool_ else int(array))


@dataclass
class LoopSpace:
    """The tensors of a loop, as they are found."""

    shape: tuple[int, ...]
    tensors: list[LoopTensor] = field(default_factory=list[LoopTensor])
    operands: list[SSAValue] = field(default_factory=list[SSAValue])
    np: Any = field(default_factory=SymbolicNumPy)

    def add(
        self, value: SSAValue, offsets: Iterable[Array] | None = None, start: int = 0, **options: Any
    ) -> Symbolic:
        """An operand, which lies as `offsets` say (None: as its layout, broadcast), `start` elements further."""
        layout, dtype = layout_at_run_time(value.type), dtype_of(value.type)
        found = _broadcast_offsets(layout, self.shape) if offsets is None else offsets
        self.tensors.append(loop_tensor(found, layout.offset + start, dtype, **options))
        self.operands.append(value)
        return Symbolic(computed_dtype(dtype), operand=len(self.tensors) - 1, shape=layout.shape)

    def loop(
        self, op: Operation, graph: Symbolic, offsets: Iterable[Array] | None = None, *,
        axes: Iterable[int] = (), fills: Sequence[tuple[Nest, int]] = (),
    ) -> Found:  # fmt: skip
        """The loop that writes `graph` to the result of `op`, which lies as `offsets` say (None: as its layout)."""
        value = op.results[0]
        layout, dtype = layout_at_run_time(value.type), dtype_of(value.type)
        if layout.is_injective() is not True:
            raise LayoutError(f"{layout} may have two elements at one address")
        result = loop_tensor(offsets_of(layout) if offsets is None else offsets, layout.offset, dtype)
        found = (*_fills(layout, dtype), *fills)
        program = LoopProgram((*self.tensors, result), graph, frozenset(axes), found)
        return program, tuple(self.operands)
