"""The table of reductions over some dims, and the cumulative sum.

Each reduction folds all elements by one function of two. It goes over the pads of its dims as well, so these must hold
the neutral element of that function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def

from layout_ir.dialects.nn.attributes import flag, integer, ints
from layout_ir.dialects.nn.nn_op import DimImages, NNOp
from layout_ir.dialects.nn.tensor_types import FLOATS, NUMBERS, Shape, check_axes, check_axis, int_range
from layout_ir.interfaces import PadRead

REDUCIBLE = (*FLOATS, "i32", "ui32", "i64", "ui64")


def _all_dims(op: NNOp) -> tuple[int, ...]:
    return tuple(range(len(op.shapes[0])))


class ReduceOp(NNOp):
    """Reduces `axes` (all of them by default); with `keepdims` they stay as dims of extent 1."""

    ALLOWED: ClassVar[tuple[str, ...]] = REDUCIBLE
    SAME_FORMAT: ClassVar[bool] = True

    FOLD: ClassVar[str]
    """Name of the NumPy ufunc of two elements that is folded over the dims."""

    NEUTRAL: ClassVar[float]
    """The neutral element of `FOLD`."""

    x = operand_def(TensorType)

    axes = ints(default=_all_dims)
    keepdims = flag(default=True)

    def infer(self) -> Shape:
        """The shape of x with extent 1 in `axes`, or without those dims."""
        (x,) = self.shapes
        axes = self.axes
        check_axes(axes, x)
        if self.keepdims:
            return tuple(1 if dim in axes else extent for dim, extent in enumerate(x))
        return tuple(extent for dim, extent in enumerate(x) if dim not in axes)

    def formatted_operands(self) -> Sequence[SSAValue]:
        """x, where the result has its rank."""
        return self.operands if self.keepdims else ()

    def dim_images(self) -> DimImages | None:
        """The dim of the result that each dim of x becomes; those of `axes` become none without `keepdims`."""
        if self.keepdims:
            return None
        axes = set(self.axes)
        return tuple(
            () if d in axes else (d - sum(axis < d for axis in axes),) for d in range(len(self.shapes[0]))
        )

    def neutral(self) -> float:
        """The neutral element in the element type, whose bounds stand for infinities that it does not have."""
        element = self.infer_element()
        if math.isinf(self.NEUTRAL) and not isinstance(element, AnyFloat):
            low, high = int_range(element)
            return low if self.NEUTRAL < 0 else high  # exact: a float has no 2^63 - 1
        return self.NEUTRAL

    def pad_reads(self, operand: int) -> tuple[PadRead, ...]:
        """The neutral element in the pads of `axes`."""
        neutral = self.neutral()
        return tuple(PadRead(axis, neutral) for axis in self.axes)

    def compute(self, np: Any, x: Any) -> Any:
        """The op on an array of a type that NumPy computes in: the elements of x and the pads of the reduced dims."""
        fold = getattr(np, self.FOLD)
        # Of no elements, NumPy knows the result of some ufuncs only.
        start = {} if fold.identity is not None else {"initial": self.neutral()}
        return fold.reduce(x, axis=self.axes, keepdims=self.keepdims, dtype=x.dtype, **start)


@irdl_op_definition
class ReduceSumOp(ReduceOp):
    """The sum."""

    name = "nn.reduce_sum"
    FOLD: ClassVar[str] = "add"
    NEUTRAL: ClassVar[float] = 0.0


@irdl_op_definition
class ReduceMeanOp(ReduceOp):
    """The sum divided by the logical number of elements; of integers, cut off, and 0 of none."""

    name = "nn.reduce_mean"
    FOLD: ClassVar[str] = "add"
    NEUTRAL: ClassVar[float] = 0.0

    def compute(self, np: Any, x: Any) -> Any:
        """The sum over elements and pads, divided by the number of elements alone."""
        total, count = super().compute(np, x), math.prod(self.shapes[0][axis] for axis in self.axes)
        if x.dtype.kind == "f":
            return total / x.dtype.type(count)
        return np.trunc(total / np.float64(count)).astype(x.dtype) if count else total


@irdl_op_definition
class ReduceProdOp(ReduceOp):
    """The product."""

    name = "nn.reduce_prod"
    FOLD: ClassVar[str] = "multiply"
    NEUTRAL: ClassVar[float] = 1.0


@irdl_op_definition
class ReduceMaxOp(ReduceOp):
    """The largest element."""

    name = "nn.reduce_max"
    ALLOWED: ClassVar[tuple[str, ...]] = NUMBERS
    FOLD: ClassVar[str] = "maximum"
    NEUTRAL: ClassVar[float] = -math.inf


@irdl_op_definition
class ReduceMinOp(ReduceOp):
    """The smallest element."""

    name = "nn.reduce_min"
    ALLOWED: ClassVar[tuple[str, ...]] = NUMBERS
    FOLD: ClassVar[str] = "minimum"
    NEUTRAL: ClassVar[float] = math.inf


@irdl_op_definition
class ReduceL1Op(ReduceOp):
    """The sum of magnitudes."""

    name = "nn.reduce_l1"
    FOLD: ClassVar[str] = "add"
    NEUTRAL: ClassVar[float] = 0.0

    def compute(self, np: Any, x: Any) -> Any:
        """The sum of the magnitudes of elements and pads."""
        return super().compute(np, np.abs(x))


@irdl_op_definition
class ReduceSumSquareOp(ReduceOp):
    """The sum of squares."""

    name = "nn.reduce_sum_square"
    FOLD: ClassVar[str] = "add"
    NEUTRAL: ClassVar[float] = 0.0

    def compute(self, np: Any, x: Any) -> Any:
        """The sum of the squares of elements and pads."""
        return super().compute(np, x * x)


@irdl_op_definition
class ReduceL2Op(ReduceOp):
    """The square root of the sum of squares."""

    name = "nn.reduce_l2"
    ALLOWED: ClassVar[tuple[str, ...]] = FLOATS
    FOLD: ClassVar[str] = "add"
    NEUTRAL: ClassVar[float] = 0.0

    def compute(self, np: Any, x: Any) -> Any:
        """The square root of the sum of the squares of elements and pads."""
        return np.sqrt(super().compute(np, x * x))


@irdl_op_definition
class ReduceLogSumOp(ReduceOp):
    """The natural logarithm of the sum."""

    name = "nn.reduce_log_sum"
    ALLOWED: ClassVar[tuple[str, ...]] = FLOATS
    FOLD: ClassVar[str] = "add"
    NEUTRAL: ClassVar[float] = 0.0

    def compute(self, np: Any, x: Any) -> Any:
        """The logarithm of the sum of elements and pads."""
        return np.log(super().compute(np, x))


@irdl_op_definition
class ReduceLogSumExpOp(ReduceOp):
    """The natural logarithm of the sum of exponentials, computed so that no finite x overflows."""

    name = "nn.reduce_log_sum_exp"
    ALLOWED: ClassVar[tuple[str, ...]] = FLOATS
    FOLD: ClassVar[str] = "add"
    NEUTRAL: ClassVar[float] = -math.inf

    def compute(self, np: Any, x: Any) -> Any:
        """The logarithm of the sum of the exponentials of elements and pads; of none, -inf."""
        largest = np.max(x, axis=self.axes, keepdims=True, initial=-math.inf)
        # An infinite one is its own sum: the difference to itself would be NaN.
        shift = np.where(np.isfinite(largest), largest, x.dtype.type(0))
        total = np.add.reduce(np.exp(x - shift), axis=self.axes, keepdims=True, dtype=x.dtype)
        result = np.log(total) + shift
        return result if self.keepdims else np.squeeze(result, self.axes)


@irdl_op_definition
class CumSumOp(NNOp):
    """The sums of x along `axis` up to each element; with `exclusive` without it, with `reverse` from the end."""

    name = "nn.cum_sum"
    ALLOWED: ClassVar[tuple[str, ...]] = REDUCIBLE
    SAME_FORMAT: ClassVar[bool] = True

    x = operand_def(TensorType)

    axis = integer()
    exclusive = flag(default=False)
    reverse = flag(default=False)

    def infer(self) -> Shape:
        """The shape of x."""
        (x,) = self.shapes
        check_axis(self.axis, x)
        return x
