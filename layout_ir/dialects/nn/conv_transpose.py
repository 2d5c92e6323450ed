"""Transposed convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def

from layout_ir.dialects.nn.attributes import integer, ints
from layout_ir.dialects.nn.nn_op import NNOp
from layout_ir.dialects.nn.tensor_types import Shape
from layout_ir.dialects.nn.windows import check_bias, check_rank, check_weight, no_pads, ones, spatial_rank
from layout_ir.errors import LayoutError, shape_text


def _zeros(op: NNOp) -> tuple[int, ...]:
    return (0,) * spatial_rank(op)


@irdl_op_definition
class ConvTransposeOp(NNOp):
    """Transposed convolution of x (N, C, spatial) with w (C, O / group, spatial), plus b (O) per output channel.

    Element s of a spatial dim adds its products to the elements s * stride - pad + k * dilation of the result, for each
    k of the kernel; those that would lie outside are dropped. `output_padding` makes the result longer at its end. Pads
    are not read.
    """

    name = "nn.conv_transpose"
    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    b = opt_operand_def(TensorType)

    strides = ints(default=ones)
    pads = ints(default=no_pads)
    dilations = ints(default=ones)
    output_padding = ints(default=_zeros)
    group = integer(default=1)

    def infer(self) -> Shape:
        """(N, O, spatial extents that the windows of all elements of x cover, less pads)."""
        x, w = self.shapes[:2]
        check_rank(self.name, x)
        check_weight(x, w)
        if self.group < 1 or x[1] % self.group:
            raise LayoutError(
                f"group = {self.group} does not divide the {x[1]} channels of input {shape_text(x)}"
            )
        if x[1] != w[0]:
            raise LayoutError(
                f"channels mismatch between input {shape_text(x)} and weight {shape_text(w)}: {x[1]} != {w[0]}"
            )
        outputs = w[1] * self.group
        if self.b is not None:
            check_bias(self.shapes[2], w, outputs)
        return (x[0], outputs, *self._spatial(x[2:], w[2:]))

    def _spatial(self, extents: Shape, kernel: Shape) -> Shape:
        rank = len(extents)
        for name, values, count, low in (
            ("input", extents, rank, 1),
            ("kernel", kernel, rank, 1),
            ("strides", self.strides, rank, 1),
            ("dilations", self.dilations, rank, 1),
            ("output_padding", self.output_padding, rank, 0),
            ("pads", self.pads, 2 * rank, 0),
        ):
            if len(values) != count:
                raise LayoutError(
                    f"{name} = {list(values)} does not fit {rank} spatial dims: {len(values)} != {count} entries"
                )
            if any(value < low for value in values):
                raise LayoutError(f"{name} = {list(values)} has an entry below {low}")
        result: list[int] = []
        for d in range(rank):
            reach = (extents[d] - 1) * self.strides[d] + (kernel[d] - 1) * self.dilations[d] + 1
            left = reach + self.output_padding[d] - self.pads[d] - self.pads[rank + d]
            if left < 1:
                raise LayoutError(
                    f"pads {self.pads[d]} and {self.pads[rank + d]} leave nothing of spatial dim {d}: its windows "
                    f"cover {reach} elements"
                )
            result.append(left)
        return tuple(result)

    def borders(self) -> list[tuple[int, int]]:
        """Elements of 0 before and behind x with `stride` - 1 zeros between its elements, per spatial dim.

        Over these a convolution with the kernel backwards and strides of 1 computes the op; a negative number takes
        elements away.
        """
        rank = len(self.strides)
        reaches = [(k - 1) * step for k, step in zip(self.shapes[1][2:], self.dilations, strict=True)]
        return [
            (reaches[d] - self.pads[d], reaches[d] - self.pads[rank + d] + self.output_padding[d])
            for d in range(rank)
        ]

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel has its own weights and is one channel of the result."""
        return self.group == self.shapes[0][1] and self.shapes[1][1] == 1

    def formatted_operands(self) -> Sequence[SSAValue]:
        """The operands that have Formats: x alone."""
        return (self.x,)
