"""Convolution."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def

from layout_ir.dialects.nn.attributes import integer, ints
from layout_ir.dialects.nn.nn_op import NNOp
from layout_ir.dialects.nn.tensor_types import Shape
from layout_ir.dialects.nn.windows import check_bias, check_rank, check_weight, no_pads, ones, window_shape
from layout_ir.errors import LayoutError, shape_text
from layout_ir.interfaces import PadRead


@irdl_op_definition
class ConvOp(NNOp):
    """Convolution of x (N, C, spatial) with w (O, C / group, spatial), plus b (O) per output channel.

    Pads of x along C and of w along its dim 1 are multiplied with each other and added up, so both must be
    zero. With more than one group a kernel reads the channels of each group by logical index, and pads behind
    the last group belong to none.
    """

    name = "nn.conv"

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    b = opt_operand_def(TensorType)

    strides = ints(default=ones)
    pads = ints(default=no_pads)
    dilations = ints(default=ones)
    group = integer(default=1)

    def infer(self) -> Shape:
        """(N, O, window positions per spatial dim)."""
        x, w = self.shapes[:2]
        check_rank(self.name, x)
        check_weight(x, w)
        if self.group < 1:
            raise LayoutError(f"group = {self.group} is below 1")
        if x[1] != w[1] * self.group:
            raise LayoutError(
                f"channels mismatch between input {shape_text(x)} and weight {shape_text(w)} "
                f"in {self.group} groups: {x[1]} != {w[1]} * {self.group}"
            )
        if w[0] % self.group:
            raise LayoutError(
                f"group = {self.group} does not divide the {w[0]} output channels of weight {shape_text(w)}"
            )
        if self.b is not None:
            check_bias(self.shapes[2], w, w[0])
        spatial = window_shape(x[2:], w[2:], strides=self.strides, pads=self.pads, dilations=self.dilations)
        return (x[0], w[0], *spatial)

    def pad_reads(self, operand: int) -> tuple[PadRead, ...]:
        """The reduction over input channels takes the pads of x's dim 1 (one group only) and of w's dim 1."""
        if (operand == 0 and self.group == 1) or operand == 1:
            return (PadRead(1, 0.0),)
        return ()
