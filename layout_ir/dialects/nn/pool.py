"""Pooling: windows over the spatial dims, read by logical index, so that pads of the operand never matter."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import irdl_op_definition, operand_def

from layout_ir.dialects.nn.attributes import flag, ints
from layout_ir.dialects.nn.nn_op import NNOp
from layout_ir.dialects.nn.tensor_types import FLOATS, Shape
from layout_ir.dialects.nn.windows import check_rank, no_pads, ones, window_shape


class PoolOp(NNOp):
    """A window of `kernel` over each spatial dim of x (N, C, spatial)."""

    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)

    kernel = ints()
    strides = ints(default=ones)
    pads = ints(default=no_pads)
    dilations = ints(default=ones)
    ceil_mode = flag(default=False)

    def infer(self) -> Shape:
        """(N, C, window positions per spatial dim)."""
        (x,) = self.shapes
        check_rank(self.name, x)
        spatial = window_shape(
            x[2:],
            self.kernel,
            strides=self.strides,
            pads=self.pads,
            dilations=self.dilations,
            ceil_mode=self.ceil_mode,
        )
        return (*x[:2], *spatial)


@irdl_op_definition
class MaxPoolOp(PoolOp):
    """The largest element of each window; window padding takes no part."""

    name = "nn.max_pool"
    ALLOWED: ClassVar[tuple[str, ...]] = (*FLOATS, "i8", "ui8")


@irdl_op_definition
class AvgPoolOp(PoolOp):
    """The mean of each window. Window padding counts as zeros with `count_include_pad`, else it takes no part.

    What `ceil_mode` adds behind the padding never takes part.
    """

    name = "nn.avg_pool"

    count_include_pad = flag(default=False)

    def window_counts(self) -> list[list[int]]:
        """Per spatial dim and window position, how many elements the window counts; in all dims, their product."""
        rank = len(self.kernel)
        result: list[list[int]] = []
        for dim, (extent, windows) in enumerate(zip(self.shapes[0][2:], self.infer()[2:], strict=True)):
            begin, end = (self.pads[dim], self.pads[rank + dim]) if self.count_include_pad else (0, 0)
            starts = [k * self.strides[dim] - self.pads[dim] for k in range(windows)]
            taps = [tap * self.dilations[dim] for tap in range(self.kernel[dim])]
            result.append([sum(-begin <= start + tap < extent + end for tap in taps) for start in starts])
        return result


class GlobalPoolOp(NNOp):
    """One window over all of each spatial dim of x (N, C, spatial); the result is (N, C, 1, ...)."""

    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)

    def infer(self) -> Shape:
        """(N, C, 1, ...)."""
        (x,) = self.shapes
        check_rank(self.name, x)
        return (*x[:2], *(1 for _ in x[2:]))


@irdl_op_definition
class GlobalAvgPoolOp(GlobalPoolOp):
    """The mean over the spatial dims."""

    name = "nn.global_avg_pool"


@irdl_op_definition
class GlobalMaxPoolOp(GlobalPoolOp):
    """The largest element over the spatial dims."""

    name = "nn.global_max_pool"
