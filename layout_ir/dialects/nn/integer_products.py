"""Convolutions and products of integers with constant weights, as a node of the executor: all sums are exact.

The source is i16 (N, *spatial, C), its channels last, its zero point subtracted and its borders padded. The weights lie
as a kernel reads them: in panels of columns, which are output channels, and in each panel pairs of neighbouring input
channels side by side, so that one instruction multiplies two channels and adds. Where what a window covers of a row
lies in one piece, the piece counts as one tap with so many channels. The result, (N, *spatial, columns), are the sums
in i32, or what a quantization makes of them: two more inputs are then a scale and an addend for each column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np

from layout_ir.dialects.nn.tensor_types import Shape
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError

PACKED_INTEGER_CONV = "layout_ir::PackedIntegerConv"
"""The node, as `OpaqueOp.title` has it; its inputs are the source and the packed weights."""


@dataclass(frozen=True, slots=True)
class Requantization:
    """What integers of 8 bits are made of sums, in f32, rounded to even numbers; the outer bounds are those of `dtype`:

    clip(round(clip(sum * scale + addend, low, high) * factor) + zero_point)
    """

    low: float
    high: float
    factor: float
    zero_point: int
    dtype: str
    """i8 or ui8."""

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest number of `dtype`."""
        return (-128, 127) if self.dtype == "i8" else (0, 255)

    def __call__(self, sums: Array, scale: Array, addend: Array) -> Array:
        """The definition, for sums whose last dim has an index for each scale and addend."""
        single = np.float32
        real = np.clip(sums.astype(single) * scale + addend, single(self.low), single(self.high))
        steps = np.rint(real * single(self.factor)) + single(self.zero_point)
        return np.clip(steps, *self.bounds).astype(np.int8 if self.dtype == "i8" else np.uint8)


@dataclass(frozen=True, slots=True)
class PackedIntegerConv:
    """A convolution without pads; a product of matrices has no spatial dims."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    columns: int
    """Output channels."""
    panel: int
    """Columns whose weights lie side by side."""
    requantization: Requantization | None = None

    @staticmethod
    def of_node(attribute: Callable[..., Any]) -> PackedIntegerConv:
        """That of a node whose attributes are `attribute(name, default)`. Raises LayoutError where they say none."""
        lists: list[Any] = [attribute(name, ()) for name in ("kernel", "strides", "dilations")]
        counts = [attribute(name, 0) for name in ("columns", "panel")]
        dtype = attribute("dtype", "")
        numbers = [attribute(name, 0.0) for name in ("low", "high", "factor")]
        zero_point = attribute("zero_point", 0)
        is_valid = (
            all(map(_is_list, lists))
            and len(set(map(len, lists))) == 1
            and all(isinstance(n, int) and n > 0 for n in (*counts, *(n for each in lists for n in each)))
            and all(isinstance(number, float) for number in numbers)
            and isinstance(zero_point, int)
            and dtype in ("", "i8", "ui8")
        )
        if not is_valid:
            raise LayoutError(f"a {PACKED_INTEGER_CONV} has no such attributes")
        kernel, strides, dilations = map(tuple, lists)
        (columns, panel), (low, high, factor) = counts, numbers
        made = Requantization(low, high, factor, zero_point, dtype) if dtype else None
        return PackedIntegerConv(kernel, strides, dilations, columns, panel, made)

    def attributes(self) -> dict[str, int | float | str | Shape]:
        """The attributes of the node."""
        lists = {"kernel": self.kernel, "strides": self.strides, "dilations": self.dilations}
        numbers = {"columns": self.columns, "panel": self.panel}
        more = {} if self.requantization is None else asdict(self.requantization)
        return {**numbers, **more, **{name: given for name, given in lists.items() if given}}

    @property
    def taps(self) -> Shape:
        """Of the dims of the kernel, those along which taps do not lie in one piece."""
        joined = bool(self.kernel) and self.dilations[-1] == 1
        return self.kernel[:-1] if joined else self.kernel

    def inner(self, channels: int) -> int:
        """Numbers that lie in one piece at each tap, of a source with so many channels."""
        return channels * prod(self.kernel[len(self.taps) :])

    def result_shape(self, source: Shape) -> Shape:
        """The shape of the result for that of the source."""
        windows = zip(source[1:-1], self.kernel, self.strides, self.dilations, strict=True)
        spatial = [
            (extent - dilation * (size - 1) - 1) // stride + 1 for extent, size, stride, dilation in windows
        ]
        return (source[0], *spatial, self.columns)

    def packed_shape(self, channels: int) -> Shape:
        """The shape of packed weights for a source with so many channels: (panels, taps, pairs, panel, 2)."""
        panels, pairs = -(-self.columns // self.panel), -(-self.inner(channels) // 2)
        return panels, prod(self.taps), pairs, self.panel, 2

    def packed(self, weights: Array) -> Array:
        """Weights (columns, *kernel, C) as the node takes them, zeros where there are none.

        They are i8 where all of them fit, else i16. Raises ValueError where they do not fit those either.
        """
        panels, taps, pairs, panel, _ = self.packed_shape(weights.shape[-1])
        low, high = int(np.min(weights, initial=0)), int(np.max(weights, initial=0))
        dtype = np.int8 if low >= -128 and high <= 127 else np.int16
        if max(-low, high) >= 1 << 15:
            raise ValueError("weights less their zero points are no integers of 16 bits")
        whole = np.zeros((panels * panel, taps, 2 * pairs), dtype)
        inner = self.inner(weights.shape[-1])
        whole[: self.columns, :, :inner] = weights.reshape(self.columns, taps, inner)
        parts = whole.reshape(panels, panel, taps, pairs, 2)
        return np.ascontiguousarray(parts.transpose(0, 2, 3, 1, 4))

    def unpacked(self, packed: Array, channels: int) -> Array:
        """What `packed` was given."""
        panels, taps, pairs, panel, _ = packed.shape
        whole = packed.transpose(0, 3, 1, 2, 4).reshape(panels * panel, taps, 2 * pairs)
        numbers = whole[: self.columns, :, : self.inner(channels)]
        return numbers.reshape(self.columns, *self.kernel, channels)

    def __call__(self, source: Array, packed: Array, *columns: Array) -> Array:
        """The result of a source (N, *spatial, C), whose sums wrap around in 32 bits: the definition of the node.

        `columns` are scale and addend, where the sums are quantized.
        """
        weights = self.unpacked(packed, source.shape[-1]).astype(np.int64)
        shape = self.result_shape(source.shape)
        total = np.zeros(shape, np.int64)
        for tap in np.ndindex(self.kernel):
            starts = [t * d for t, d in zip(tap, self.dilations, strict=True)]
            window = tuple(
                slice(start, start + stride * (extent - 1) + 1, stride)
                for start, stride, extent in zip(starts, self.strides, shape[1:-1], strict=True)
            )
            total += source[(slice(None), *window)].astype(np.int64) @ weights[(slice(None), *tap)].T
        sums = total.astype(np.int32)
        return sums if self.requantization is None else self.requantization(sums, *columns)


def _is_list(given: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str)
