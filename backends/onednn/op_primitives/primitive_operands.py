"""What a primitive for an op is asked with: its operands, what is known of them, and in which orders they may come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.backends.onednn import memory_descriptors as descriptors
from layout_ir.backends.onednn.library import Library, Refused
from layout_ir.backends.onednn.memory_descriptors import MemoryDescriptor
from layout_ir.backends.onednn.primitives import (
    Argument,
    PostOp,
    Quantization,
    Request,
)
from layout_ir.backends.reference.semantics import SEMANTICS, layout_at_run_time, literal_array
from layout_ir.backends.reference.tensor import same_box
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, dtype_of
from layout_ir.elements.numpy_types import Array, widen
from layout_ir.errors import LayoutError


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """An argument of an execution: a value of the program, or a constant that is packed as the primitive asks."""

    value: SSAValue | None
    descriptor: MemoryDescriptor | None
    """How the value lies; of a constant None where the primitive is to choose."""
    constant: Array | None = None
    """The elements of a constant, in the extents that the primitive knows."""
    order: tuple[int, Array] | None = None
    """Where a constant is not to lie as `constant` does: a dim, and which index of it comes at each place. Weights may
    be as large as all else together, so they are put in order when they are packed, not before."""
    moved: Layout | None = None
    """The layout into which the value is brought first, where the primitive does not take it as it lies."""


@dataclass(frozen=True, slots=True, eq=False)
class OpPrimitive:
    """A primitive for an op: what to ask the library for, and its arguments by number, the result left out."""

    request: Request
    operands: dict[int, Operand]
    result: MemoryDescriptor
    extents: tuple[int, ...]
    """The extents of the result, as the primitive knows them: a matmul may take all batches as rows. Empty where its
    dims stand in another order, so that no constant is broadcast to it."""
    post_ops: tuple[PostOp, ...] = ()
    quantization: tuple[Quantization, ...] = ()
    """Scales and zero points, which are arguments among the operands."""
    more_results: tuple[tuple[Argument, SSAValue, MemoryDescriptor], ...] = ()
    """What else it writes: the other results of the op."""

    @property
    def is_on_integers(self) -> bool:
        """Whether its operands are integers: then each has a scale. A product of floats may have one, as a factor."""
        return len(self.quantization) > 1


class Values:
    """What is known of values at compile time: layouts, element types, constants."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._converted: dict[SSAValue, Array] = {}
        self._rows: dict[SSAValue, frozenset[int]] = {}

    def layout(self, value: SSAValue) -> Layout:
        """The layout in which a value lies."""
        return layout_at_run_time(value.type)

    def dtype(self, value: SSAValue) -> str:
        """The type of the elements of a value."""
        return dtype_of(value.type)

    def rows_of_products(self, value: SSAValue) -> frozenset[int]:
        """The numbers of rows of the products that a value is the right operand of.

        They are counted once: a step of a network that is written out many times has as many products by one value.
        """
        if value not in self._rows:
            ops = (use.operation for use in value.uses)
            products = [op for op in ops if isinstance(op, nn.MatmulOp | nn.GemmOp) and op.b is value]
            self._rows[value] = frozenset(prod(self.layout(op.result).shape[:-1]) for op in products)
        return self._rows[value]

    def constant(self, value: SSAValue) -> Array | None:
        """The elements of a constant in their shape, and those of one that is reordered; floats of 16 bits as f32.

        None for any other value."""
        op = value.owner
        if isinstance(op, ReorderOp) and isinstance(op.input.owner, nn.ConstantOp):
            if value not in self._converted:
                stored = SEMANTICS[nn.ConstantOp](op.input.owner)
                self._converted[value] = widened(
                    SEMANTICS[ReorderOp](op, stored).logical(), dtype_of(value.type)
                )
            return self._converted[value]
        if not isinstance(op, nn.ConstantOp):
            return None
        elements = widened(literal_array(op), dtype_of(value.type))
        return np.broadcast_to(elements, self.layout(value).shape)

    def scalar(self, value: SSAValue) -> float | None:
        """The number that all elements of a constant are, where it has one element or is a splat."""
        op = value.owner
        if not isinstance(op, nn.ConstantOp):
            return None
        array = literal_array(op)
        return float(widened(array.reshape(-1)[:1], dtype_of(value.type))[0]) if array.size == 1 else None

    def descriptor(
        self, value: SSAValue, shape: Sequence[int] | None = None, *, writes: bool = False
    ) -> MemoryDescriptor:
        """The descriptor of `value`, seen as `shape`. Raises Refused where there is none, or its pads are not zero."""
        layout = self.layout(value)
        if layout.is_padded and layout.pad != "zero" and not (writes and layout.pad == "undef"):
            raise Refused(f"the pads of {layout} are not zero")
        if shape is not None and tuple(shape) != layout.shape:
            try:
                layout = layout.reshape(shape)
            except LayoutError as error:
                raise Refused(str(error)) from None
        return descriptors.descriptor_of(self.library, layout, self.dtype(value))

    def operand(
        self, value: SSAValue, shape: Sequence[int] | None = None, *, chosen: bool = False
    ) -> tuple[Operand, MemoryDescriptor]:
        """An operand seen as `shape`, and its descriptor; `chosen`: a constant lies as the primitive likes, else
        row-major."""
        constant = self.constant(value)
        if constant is None:
            found = self.descriptor(value, shape)
            return Operand(value, found), found
        seen = constant.reshape(shape if shape is not None else constant.shape)
        return self.packed(seen, chosen=chosen, dtype=self.dtype(value))

    def packed(
        self, constant: Array, *, chosen: bool = False, dtype: str | None = None
    ) -> tuple[Operand, MemoryDescriptor]:
        """A constant operand, stored as elements of `dtype`, and its descriptor."""
        make = descriptors.any_format if chosen else descriptors.row_major
        found = make(self.library, constant.shape, dtype or descriptors.dtype_of_array(constant))
        return Operand(None, None if chosen else found, constant), found


def widened(elements: Array, dtype: str) -> Array:
    """Stored elements, of floats of 16 bits as f32: what constants are scaled and compared in."""
    return widen(elements, dtype).astype(np.float32) if dtype in ("f16", "bf16") else elements


Candidates = Iterator[OpPrimitive]


FLOATS = ("f32", "bf16", "f16")
"""Element types that primitives compute on; which of them a library has, `Library.computes` says."""


def sources_of(op: nn.ConvOp | nn.ConvTransposeOp | nn.ResizeOp, values: Values) -> Iterator[Operand]:
    """The operand as it lies; where no kernel takes that beside the result, with it brought into the order of the
    result first, or into row-major order."""
    with suppress(Refused):
        yield Operand(op.x, values.descriptor(op.x))
    x = values.layout(op.x)
    for fmt in (values.layout(op.result).format, Format.row_major(x.names)):
        with suppress(Refused, LayoutError):
            moved = fmt.with_pad("undef").bind(x.shape)
            moved = fmt.with_pad("zero").bind(x.shape) if moved.is_padded else moved
            descriptor = descriptors.descriptor_of(values.library, moved, values.dtype(op.x))
            # Dims of one element may stand anywhere: the same memory, which kernels take in one of the orders alone.
            same = moved.same_map(x) and not x.is_padded and not moved.is_padded
            yield Operand(op.x, descriptor, moved=None if same else moved)


def lie_alike(first: Layout, second: Layout) -> bool:
    """Whether two layouts are one dense box, so that an elementwise op may run over the whole buffers."""
    return (
        same_box(first, second) and first.is_dense() and first.swizzle is None and first.extent == first.span
    )
