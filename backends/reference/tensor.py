"""A value at run time: a buffer, and the layout that says at which address each element is.

The buffer is viewed with one NumPy axis per digit, each with its own stride. So a tensor in any blocked format is an
ordinary strided array, and reading or writing it is one copy; no loop runs over single elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from layout_ir.algebra.factors import MEMORY
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import pad_number
from layout_ir.elements.numpy_types import Array, poison, storage, stored_number
from layout_ir.errors import LayoutError


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A 1-D `buffer` of at least `layout.extent` elements of type `dtype` ("f32", "i8"); bf16 is stored as uint16.

    The buffer is never written after the tensor is made: views and casts share it. It may have stride 0, one
    element in memory for all of a constant.
    """

    buffer: Array
    layout: Layout
    dtype: str

    def __post_init__(self) -> None:
        if any(factor.axis != MEMORY for factor in self.layout.factors):
            raise LayoutError(
                f"{self.layout} has places on other axes than memory, one buffer cannot hold it"
            )
        if self.buffer.ndim != 1 or self.buffer.dtype != storage(self.dtype):
            raise LayoutError(
                f"a buffer of {self.dtype} is a row of {storage(self.dtype)}, not {self.buffer.ndim}-dimensional "
                f"{self.buffer.dtype}"
            )
        if self.layout.span and (self.layout.first_address < 0 or self.layout.extent > len(self.buffer)):
            raise LayoutError(
                f"{self.layout} uses addresses {self.layout.first_address} to {self.layout.extent - 1}, "
                f"the buffer has {len(self.buffer)} elements"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical extents."""
        return self.layout.shape

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer."""
        return len(self.buffer) * self.buffer.itemsize

    # Making one -----------------------------------------------------------------------------------------------

    @staticmethod
    def poisoned(layout: Layout, dtype: str) -> Tensor:
        """A tensor all of whose buffer is poison, the value that stands for undefined memory."""
        return Tensor(np.full(layout.extent, poison(dtype), storage(dtype)), layout, dtype)

    @staticmethod
    def blank(layout: Layout, dtype: str) -> Tensor:
        """A tensor whose padded box is still to be written (`write_box`); addresses outside the box hold poison."""
        if layout.is_dense() and layout.extent == layout.span:
            return Tensor(np.empty(layout.extent, storage(dtype)), layout, dtype)
        return Tensor.poisoned(layout, dtype)

    @staticmethod
    def store(array: Array, layout: Layout, dtype: str, pads: Any = None) -> Tensor:
        """The tensor whose elements are `array` (stored elements, logical shape).

        Its pads hold `pads` (a stored element), by default that of the policy of `layout`. Under policy undef they
        hold poison, as does every address outside the padded box. May share memory with `array`.
        """
        if array.shape != layout.shape:
            raise LayoutError(f"shape mismatch between array and layout: {array.shape} != {layout.shape}")
        if not layout.is_padded:
            return Tensor.store_box(array, layout, dtype)
        if pads is None:
            pads = policy_element(layout, dtype)
        box = np.full(layout.padded_shape, pads, storage(dtype))
        box[interior(layout)] = array
        return Tensor.store_box(box, layout, dtype)

    @staticmethod
    def store_box(box: Array, layout: Layout, dtype: str) -> Tensor:
        """The tensor whose padded box is `box` (stored elements); where the policy is undef its pads become poison."""
        box = np.asarray(box, storage(dtype))
        if layout.pad == "undef" and layout.is_padded:
            elements = box[interior(layout)]
            box = np.full(layout.padded_shape, poison(dtype), storage(dtype))
            box[interior(layout)] = elements
        if is_row_major(layout):
            return Tensor(np.ascontiguousarray(box).reshape(-1), layout, dtype)
        if layout.is_injective():
            target = Tensor.blank(layout, dtype)
            target.write_box(box)
            return target
        # Several positions share an address. A pad may share that of an element, elements only that of an equal one.
        target = Tensor.poisoned(layout, dtype)
        target.buffer[layout.addresses(padded=True)] = box
        elements = box[interior(layout)]
        target.buffer[layout.addresses()] = elements
        if not np.array_equal(_bits(target.logical()), _bits(elements)):
            raise LayoutError(f"{layout} keeps several elements at one address, and the values there differ")
        return target

    def write_box(self, box: Array) -> None:
        """Overwrites the padded box, pads included. Only for a tensor that no view shares yet."""
        if self.layout.swizzle is not None:
            self.buffer[self.layout.addresses(padded=True)] = box
        else:
            view = self._digits()
            view[...] = box.reshape(view.shape)

    # Reading it -----------------------------------------------------------------------------------------------

    def box(self) -> Array:
        """The padded box, stored elements, of shape `layout.padded_shape`. A view where strides allow; do not write."""
        if self.layout.swizzle is not None:
            return self.buffer[self.layout.addresses(padded=True)]
        return self._digits().reshape(self.layout.padded_shape)

    def logical(self) -> Array:
        """The elements, stored, of the logical shape. A view where strides allow; do not write."""
        return self.box()[interior(self.layout)]

    def physical(self) -> Array:
        """The padded box with one axis per factor of the layout, outermost first; a swizzle is not undone."""
        factors = self.layout.factors
        return self._strided([f.count for f in factors], [f.stride for f in factors])

    def _digits(self) -> Array:
        """The padded box with one dim per digit: the digits of dim 0 coarse to fine, then those of dim 1, ..."""
        digits = [digit for dim in self.layout.digits for digit in reversed(dim)]
        return self._strided([d.count for d in digits], [d.stride for d in digits])

    def _strided(self, counts: Sequence[int], strides: Sequence[int]) -> Array:
        if not self.layout.span:
            return np.empty(counts, self.buffer.dtype)
        step = self.buffer.strides[0]
        return as_strided(self.buffer[self.layout.offset :], counts, [s * step for s in strides])


def interior(layout: Layout) -> tuple[slice, ...]:
    """The part of the padded box that holds elements, one slice per dim."""
    return tuple(slice(low, low + extent) for low, extent in zip(layout.lo, layout.shape, strict=True))


def policy_element(layout: Layout, dtype: str) -> Any:
    """The stored element that the pad policy of `layout` promises; poison where it promises none."""
    if layout.pad == "undef":
        return poison(dtype)
    if layout.pad == "zp":
        # Without quantization parameters the zero point of an integer type is 0.
        return storage(dtype).type(0)
    number = pad_number(layout.pad)
    assert number is not None
    return stored_number(number, dtype)


def is_row_major(layout: Layout) -> bool:
    """Whether the buffer is exactly the padded box in row-major order."""
    running = 1
    for dim in reversed(range(layout.rank)):
        for digit in layout.digits[dim]:
            if digit.count > 1 and digit.stride != running:
                return False
            running *= digit.count
    return layout.offset == 0 and layout.extent == running and layout.swizzle is None


def same_box(layout: Layout, other: Layout) -> bool:
    """Whether both give every position of the padded box the same address; pad policies may differ."""
    return replace(layout, pad=other.pad, names=other.names, size=other.size) == other


def _bits(array: Array) -> Array:
    """The elements as unsigned integers, so that NaN equals itself."""
    if array.dtype == np.bool_:
        return array
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
