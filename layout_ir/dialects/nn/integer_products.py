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
from typing import Any, cast

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

    @property
    def step_bounds(self) -> tuple[float, float]:
        """Between which the integers lie that are made of any sums: all steps behind the bounds of real numbers keep
        their order, so that bounds may come last."""
        single = np.float32
        with np.errstate(over="ignore"):
            ends = [
                np.rint(single(end) * single(self.factor)) + single(self.zero_point)
                for end in (self.low, self.high)
            ]
        low, high = (float(end) for end in np.clip(ends, *self.bounds))
        return low, high

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
    """Columns whose weights lie side by side. They are of one group."""
    group: int = 1
    """Groups of columns, each of which has as many channels of the source of its own."""
    requantization: Requantization | None = None

    @staticmethod
    def of_node(attribute: Callable[..., Any]) -> PackedIntegerConv:
        """That of a node whose attributes are `attribute(name, default)`. Raises LayoutError where they say none."""
        counts = columns, panel, group = [
            attribute(name, default) for name, default in (("columns", 0), ("panel", 0), ("group", 1))
        ]
        if not all(isinstance(count, int) and count > 0 for count in counts) or columns % group:
            raise LayoutError(f"a {PACKED_INTEGER_CONV} has no such attributes")
        kernel, strides, dilations = windows_of(attribute, PACKED_INTEGER_CONV)
        made = requantization_of(attribute, PACKED_INTEGER_CONV)
        return PackedIntegerConv(kernel, strides, dilations, columns, panel, group, made)

    def attributes(self) -> dict[str, int | float | str | Shape]:
        """The attributes of the node."""
        lists = {"kernel": self.kernel, "strides": self.strides, "dilations": self.dilations}
        numbers = {"columns": self.columns, "panel": self.panel, "group": self.group}
        more = requantization_attributes(self.requantization)
        return {**numbers, **more, **{name: given for name, given in lists.items() if given}}

    @property
    def taps(self) -> Shape:
        """The dims of the kernel along which taps do not lie in one piece."""
        joined = bool(self.kernel) and self.dilations[-1] == self.group == 1
        return self.kernel[:-1] if joined else self.kernel

    def inner(self, channels: int) -> int:
        """Numbers that lie in one piece at each tap, of a group with so many channels."""
        return channels * prod(self.kernel[len(self.taps) :])

    def result_shape(self, source: Shape) -> Shape:
        """The shape of the result for that of the source."""
        windows = zip(source[1:-1], self.kernel, self.strides, self.dilations, strict=True)
        spatial = [
            (extent - dilation * (size - 1) - 1) // stride + 1 for extent, size, stride, dilation in windows
        ]
        return (source[0], *spatial, self.columns)

    def packed_shape(self, channels: int) -> Shape:
        """The shape of packed weights for groups with so many channels: (panels, taps, pairs, panel, 2)."""
        panels, pairs = -(-self.columns // self.group // self.panel), -(-self.inner(channels) // 2)
        return self.group * panels, prod(self.taps), pairs, self.panel, 2

    def packed(self, weights: Array) -> Array:
        """Weights (columns, *kernel, C / group) as the node takes them, zeros where there are none.

        They are i8 where all of them fit, else i16. Raises ValueError where they do not fit those either.
        """
        panels, taps, pairs, panel, _ = self.packed_shape(weights.shape[-1])
        low, high = int(np.min(weights, initial=0)), int(np.max(weights, initial=0))
        dtype = np.int8 if low >= -128 and high <= 127 else np.int16
        if max(-low, high) >= 1 << 15:
            raise ValueError("weights less their zero points are no integers of 16 bits")
        each, inner = self.columns // self.group, self.inner(weights.shape[-1])
        whole = np.zeros((self.group, panels // self.group * panel, taps, 2 * pairs), dtype)
        whole[:, :each, :, :inner] = weights.reshape(self.group, each, taps, inner)
        parts = whole.reshape(panels, panel, taps, pairs, 2)
        return np.ascontiguousarray(parts.transpose(0, 2, 3, 1, 4))

    def unpacked(self, packed: Array, channels: int) -> Array:
        """The weights from which `packed` makes this array, for groups of `channels` input channels."""
        _, taps, pairs, _, _ = packed.shape
        whole = packed.transpose(0, 3, 1, 2, 4).reshape(self.group, -1, taps, 2 * pairs)
        numbers = whole[:, : self.columns // self.group, :, : self.inner(channels)]
        return numbers.reshape(self.columns, *self.kernel, channels)

    def __call__(self, source: Array, packed: Array, *columns: Array) -> Array:
        """The result of a source (N, *spatial, C), whose sums wrap around in 32 bits: the definition of the node.

        `columns` are scale and addend, where the sums are quantized.
        """
        channels, columns_of = source.shape[-1] // self.group, self.columns // self.group
        weights = self.unpacked(packed, channels).astype(np.int64)
        shape = self.result_shape(source.shape)

        def products(window: Array, tap: tuple[int, ...]) -> Array:
            numbers = window.reshape(*shape[:-1], self.group, 1, channels)
            of_tap = weights[(slice(None), *tap)].reshape(self.group, columns_of, channels)
            return (numbers @ of_tap.swapaxes(1, 2)).reshape(shape)

        total = window_sums(
            source.astype(np.int64),
            shape,
            (self.kernel, self.strides, self.dilations),
            products,
        )
        sums = total.astype(np.int32)
        return sums if self.requantization is None else self.requantization(sums, *columns)


def windows_of(attribute: Callable[..., Any], title: str) -> tuple[Shape, Shape, Shape]:
    """Kernel, strides and dilations of a node of this title, as many numbers each. Raises LayoutError where its
    attributes say none."""
    kernel, strides, dilations = (
        counts_of(attribute, name, 1, title) for name in ("kernel", "strides", "dilations")
    )
    if not len(kernel) == len(strides) == len(dilations):
        raise LayoutError(f"a {title} has no such attributes")
    return kernel, strides, dilations


def counts_of(attribute: Callable[..., Any], name: str, least: int, title: str) -> Shape:
    """The list of integers, `least` or more, of that name. Raises LayoutError as `windows_of`."""
    given: Any = attribute(name, ())
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise LayoutError(f"a {title} has no such attributes")
    counts: list[Any] = [*cast(Sequence[Any], given)]
    if not all(isinstance(n, int) and n >= least for n in counts):
        raise LayoutError(f"a {title} has no such attributes")
    return tuple(counts)


def requantization_of(attribute: Callable[..., Any], title: str) -> Requantization | None:
    """What such a node makes of its sums; None where they are its result. Raises LayoutError as `windows_of`."""
    dtype = attribute("dtype", "")
    numbers = [attribute(name, 0.0) for name in ("low", "high", "factor")]
    zero_point = attribute("zero_point", 0)
    if (
        not all(isinstance(number, float) for number in numbers)
        or not isinstance(zero_point, int)
        or dtype not in ("", "i8", "ui8")
    ):
        raise LayoutError(f"a {title} has no such attributes")
    low, high, factor = numbers
    made = Requantization(low, high, factor, zero_point, dtype)
    if dtype and not made.bounds[0] <= zero_point <= made.bounds[1]:
        raise LayoutError(f"a {title} has no such attributes")
    return made if dtype else None


def requantization_attributes(made: Requantization | None) -> dict[str, int | float | str]:
    """The attributes that say it."""
    return {} if made is None else asdict(made)


def window_sums(
    source: Array,
    shape: Shape,
    windows: tuple[Shape, Shape, Shape],
    term: Callable[[Array, tuple[int, ...]], Array],
) -> Array:
    """The sums of `term(numbers, tap)` over the taps of `windows`, which are kernel, strides and dilations.

    `numbers` are those of the source (N, *spatial, C) that the tap meets for each index of a result of this shape.
    """
    kernel, strides, dilations = windows
    total = np.zeros(shape, np.int64)
    for tap in np.ndindex(kernel):
        starts = [t * d for t, d in zip(tap, dilations, strict=True)]
        window = tuple(
            slice(start, start + stride * (extent - 1) + 1, stride)
            for start, stride, extent in zip(starts, strides, shape[1:-1], strict=True)
        )
        total += term(source[(slice(None), *window)], tap)
    return total
