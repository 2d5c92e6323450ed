"""Normalizations and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def

from layout_ir.dialects.nn.attributes import integer, ints, number
from layout_ir.dialects.nn.nn_op import NNOp
from layout_ir.dialects.nn.tensor_types import Shape, check_axes, check_axis, shape_of
from layout_ir.elements.elementwise_formulas import broadcast
from layout_ir.errors import LayoutError, shape_text
from layout_ir.interfaces import PadRead


def _check_channels(op: NNOp, x: Shape) -> None:
    """Raises LayoutError where x has no dim 1."""
    if len(x) < 2:
        raise LayoutError(f"{op.name} needs a channel dim 1, but operand 0 is {shape_text(x)}")


def _check_per_channel(x: Shape, names: Sequence[str], parameters: Sequence[Shape]) -> None:
    """Raises LayoutError where a parameter has not one element per channel of x."""
    for name, shape in zip(names, parameters, strict=True):
        if shape != x[1:2]:
            raise LayoutError(
                f"shape mismatch between {name} and the channels of {shape_text(x)}: "
                f"{shape_text(shape)} != {x[1]}"
            )


@irdl_op_definition
class BatchNormOp(NNOp):
    """(x - mean) / sqrt(var + epsilon) * scale + bias per channel (dim 1), as inference does it."""

    name = "nn.batch_norm"
    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    mean = operand_def(TensorType)
    var = operand_def(TensorType)

    epsilon = number(default=1e-5)

    def infer(self) -> Shape:
        """The shape of x; the other operands have one element per channel."""
        x, *parameters = self.shapes
        _check_channels(self, x)
        _check_per_channel(x, ("scale", "bias", "mean", "var"), parameters)
        return x

    def formatted_operands(self) -> Sequence[SSAValue]:
        """x alone: the others are vectors."""
        return (self.x,)


def _last_axis(op: NNOp) -> tuple[int, ...]:
    return (len(op.shapes[0]) - 1,)


class AxesNormOp(NNOp):
    """Normalizes over `axes`, by default the last dim; scale and bias broadcast to x as NumPy does.

    Pads are not read: a kernel of this op knows where the elements end, since no number in a pad leaves a mean as it
    is.
    """

    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = opt_operand_def(TensorType)

    axes = ints(default=_last_axis)
    epsilon = number(default=1e-5)

    def infer(self) -> Shape:
        """The shape of x."""
        x, *parameters = self.shapes
        check_axes(self.axes, x)
        for name, shape in zip(("scale", "bias"), parameters, strict=False):
            if broadcast(x, shape) != x:
                raise LayoutError(
                    f"{name} of shape {shape_text(shape)} does not broadcast to {shape_text(x)}"
                )
        return x

    def formatted_operands(self) -> Sequence[SSAValue]:
        """x, and what is not broadcast to it."""
        return [operand for operand in self.operands if shape_of(operand) == shape_of(self.result)]


@irdl_op_definition
class LayerNormOp(AxesNormOp):
    """(x - mean) / sqrt(var + epsilon) * scale + bias, with mean and variance of x over `axes`."""

    name = "nn.layer_norm"


@irdl_op_definition
class RmsNormOp(AxesNormOp):
    """x / sqrt(mean of squares + epsilon) * scale + bias, with the mean over `axes`."""

    name = "nn.rms_norm"


@irdl_op_definition
class GroupNormOp(NNOp):
    """(x - mean) / sqrt(var + epsilon) * scale + bias, with mean and variance over a group of channels and all space.

    Channels are dim 1, cut into `groups` equal parts; scale and bias have one element per channel. With as many groups
    as channels this is the instance normalization. Pads are not read, as those of `AxesNormOp`.
    """

    name = "nn.group_norm"
    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)

    groups = integer()
    epsilon = number(default=1e-5)

    def infer(self) -> Shape:
        """The shape of x; scale and bias have one element per channel."""
        x, *parameters = self.shapes
        _check_channels(self, x)
        if self.groups < 1 or x[1] % self.groups:
            raise LayoutError(
                f"groups = {self.groups} does not divide the {x[1]} channels of {shape_text(x)}"
            )
        _check_per_channel(x, ("scale", "bias"), parameters)
        return x

    @property
    def group_size(self) -> int:
        """Channels of one group."""
        return self.shapes[0][1] // self.groups

    def formatted_operands(self) -> Sequence[SSAValue]:
        """x alone: the others are vectors."""
        return (self.x,)


@irdl_op_definition
class LrnOp(NNOp):
    """x / (bias + alpha / size * s) ^ beta, where s sums the squares of the `size` channels (dim 1) around x."""

    name = "nn.lrn"
    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)

    size = integer()
    alpha = number(default=1e-4)
    beta = number(default=0.75)
    bias = number(default=1.0)

    def infer(self) -> Shape:
        """The shape of x."""
        (x,) = self.shapes
        _check_channels(self, x)
        if self.size < 1:
            raise LayoutError(f"size = {self.size} is below 1")
        return x

    def pad_reads(self, operand: int) -> tuple[PadRead, ...]:
        """Zeros in the pads of the channels, which the sum of squares includes."""
        return (PadRead(1, 0.0),)


def _last_dim(op: NNOp) -> int:
    return len(op.shapes[0]) - 1


class SoftmaxLikeOp(NNOp):
    """Normalizes along `axis`, by default the last dim."""

    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)

    axis = integer(default=_last_dim)

    def infer(self) -> Shape:
        """The shape of x."""
        (x,) = self.shapes
        check_axis(self.axis, x)
        return x

    def pad_reads(self, operand: int) -> tuple[PadRead, ...]:
        """-inf in the pads of `axis`, of which the exponential adds 0 to the sum."""
        return (PadRead(self.axis, -math.inf),)


@irdl_op_definition
class SoftmaxOp(SoftmaxLikeOp):
    """exp(x) / sum of exp(x) along `axis`."""

    name = "nn.softmax"


@irdl_op_definition
class LogSoftmaxOp(SoftmaxLikeOp):
    """x - log(sum of exp(x) along `axis`)."""

    name = "nn.log_softmax"
