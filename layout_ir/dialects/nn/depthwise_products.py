"""Depthwise convolutions of integers of 8 bits with constant weights, as a node of the executor: all sums are exact.

The source is (N, *spatial, C), i8 or ui8, its channels last; its zero point is an input of the same type, and what its
pads hold. The weights lie as a kernel reads them: those of two neighbouring rows of the window side by side for each
channel, so that one instruction multiplies two numbers and adds. The result, (N, *spatial, C), are the sums in i32, or
what a quantization makes of them: two more inputs are then a scale and an addend for each channel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from layout_ir.dialects.nn.integer_products import (
    Requantization,
    counts_of,
    requantization_attributes,
    requantization_of,
    window_sums,
    windows_of,
)
from layout_ir.dialects.nn.tensor_types import Shape
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError

DEPTHWISE_INTEGER_CONV = "layout_ir::DepthwiseIntegerConv"
"""The node, as `OpaqueOp.title` has it; its inputs are the source, its zero point and the packed weights."""


@dataclass(frozen=True, slots=True)
class DepthwiseIntegerConv:
    """A convolution of one or more spatial dims, of which each channel has a window of its own."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: Shape
    """Before the first index of each spatial dim, then behind the last of each."""
    requantization: Requantization | None = None

    @staticmethod
    def of_node(attribute: Callable[..., Any]) -> DepthwiseIntegerConv:
        """That of a node whose attributes are `attribute(name, default)`. Raises LayoutError where they say none."""
        kernel, strides, dilations = windows_of(attribute, DEPTHWISE_INTEGER_CONV)
        pads = counts_of(attribute, "pads", 0, DEPTHWISE_INTEGER_CONV)
        if not kernel or len(pads) != 2 * len(kernel):
            raise LayoutError(f"a {DEPTHWISE_INTEGER_CONV} has no such attributes")
        made = requantization_of(attribute, DEPTHWISE_INTEGER_CONV)
        return DepthwiseIntegerConv(kernel, strides, dilations, pads, made)

    def attributes(self) -> dict[str, int | float | str | Shape]:
        """The attributes of the node."""
        lists = {
            "kernel": self.kernel,
            "strides": self.strides,
            "dilations": self.dilations,
            "pads": self.pads,
        }
        return {**requantization_attributes(self.requantization), **lists}

    def result_shape(self, source: Shape) -> Shape:
        """The shape of the result for that of the source."""
        rank = len(self.kernel)
        padded = [e + self.pads[k] + self.pads[rank + k] for k, e in enumerate(source[1:-1])]
        windows = zip(padded, self.kernel, self.strides, self.dilations, strict=True)
        spatial = [(e - dilation * (size - 1) - 1) // stride + 1 for e, size, stride, dilation in windows]
        return (source[0], *spatial, source[-1])

    @property
    def rows(self) -> int:
        """Rows of a window that are neighbours: of the last dim but one of the kernel."""
        return self.kernel[-2] if len(self.kernel) > 1 else 1

    def packed_shape(self, channels: int) -> Shape:
        """The shape of packed weights: (windows of rows, pairs of rows, taps of a row, C, 2)."""
        return prod(self.kernel[:-2]), -(-self.rows // 2), self.kernel[-1], channels, 2

    def packed(self, weights: Array) -> Array:
        """Weights (C, *kernel) as the node takes them, i16, zeros beside the last of an odd number of rows.

        Raises ValueError where they fit no 16 bits.
        """
        if max(-int(np.min(weights, initial=0)), int(np.max(weights, initial=0))) >= 1 << 15:
            raise ValueError("weights less their zero points are no integers of 16 bits")
        outer, pairs, taps, channels, _ = self.packed_shape(len(weights))
        whole = np.zeros((channels, outer, 2 * pairs, taps), np.int16)
        whole[:, :, : self.rows] = weights.reshape(channels, outer, self.rows, taps)
        return np.ascontiguousarray(whole.reshape(channels, outer, pairs, 2, taps).transpose(1, 2, 4, 0, 3))

    def unpacked(self, packed: Array) -> Array:
        """The weights from which `packed` makes this array."""
        outer, pairs, taps, channels, _ = packed.shape
        whole = packed.transpose(3, 0, 1, 4, 2).reshape(channels, outer, 2 * pairs, taps)
        return whole[:, :, : self.rows].reshape(channels, *self.kernel)

    def __call__(self, source: Array, zero_point: Array, packed: Array, *columns: Array) -> Array:
        """The result of a source (N, *spatial, C), whose sums wrap around in 32 bits: the definition of the node.

        `columns` are scale and addend, where the sums are quantized.
        """
        rank = len(self.kernel)
        weights = np.moveaxis(self.unpacked(packed), 0, -1).astype(np.int64)
        shifted = source.astype(np.int64) - zero_point.astype(np.int64)
        around = [(0, 0), *((self.pads[k], self.pads[rank + k]) for k in range(rank)), (0, 0)]
        total = window_sums(
            np.pad(shifted, around),
            self.result_shape(source.shape),
            (self.kernel, self.strides, self.dilations),
            lambda window, tap: window * weights[tap],
        )
        sums = total.astype(np.int32)
        return sums if self.requantization is None else self.requantization(sums, *columns)
