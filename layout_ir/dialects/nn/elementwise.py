"""The table of elementwise ops: one number in, one number out, at every element.

A row of the table is a class with its decorator (`elementwise_op`): name, meaning, operands (`UnaryOp`, `BinaryOp`),
attributes with their defaults, element types, and the function that computes the op.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute
from xdsl.irdl import operand_def

from layout_ir.dialects.nn.attributes import ints, keyword, number
from layout_ir.dialects.nn.elementwise_op import (
    SIGNED,
    BinaryOp,
    ComparisonOp,
    ElementwiseOp,
    LogicOp,
    UnaryOp,
    elementwise_op,
)
from layout_ir.dialects.nn.tensor_types import (
    ELEMENTS,
    FLOATS,
    NUMBERS,
    Shape,
    broadcast,
    tensor_type,
)
from layout_ir.errors import LayoutError, shape_text
from layout_ir.interfaces import PadRead

# One operand ----------------------------------------------------------------------------------------------------------


@elementwise_op("nn.neg", lambda np, x: -x, elements=SIGNED)
class NegOp(UnaryOp):
    """-x."""


@elementwise_op("nn.abs", lambda np, x: np.abs(x), elements=NUMBERS)
class AbsOp(UnaryOp):
    """Magnitude."""


@elementwise_op("nn.sign", lambda np, x: np.sign(x), elements=NUMBERS)
class SignOp(UnaryOp):
    """1 where x is positive, -1 where it is negative, 0 where it is 0, NaN where it is NaN."""


@elementwise_op("nn.round", lambda np, x: np.rint(x))
class RoundOp(UnaryOp):
    """The nearest integer, the even one of two."""


@elementwise_op("nn.not", lambda np, x: x == 0, elements=("i1",))
class NotOp(UnaryOp):
    """Whether x is false."""


@elementwise_op("nn.reciprocal", lambda np, x: 1 / x)
class ReciprocalOp(UnaryOp):
    """1 / x."""


@elementwise_op("nn.floor", lambda np, x: np.floor(x))
class FloorOp(UnaryOp):
    """The largest integer that is not above x."""


@elementwise_op("nn.ceil", lambda np, x: np.ceil(x))
class CeilOp(UnaryOp):
    """The smallest integer that is not below x."""


@elementwise_op("nn.sqrt", lambda np, x: np.sqrt(x))
class SqrtOp(UnaryOp):
    """Square root."""


@elementwise_op("nn.exp", lambda np, x: np.exp(x), exact=False)
class ExpOp(UnaryOp):
    """e to the power of x."""


@elementwise_op("nn.log", lambda np, x: np.log(x), exact=False)
class LogOp(UnaryOp):
    """Natural logarithm."""


@elementwise_op("nn.sin", lambda np, x: np.sin(x), exact=False)
class SinOp(UnaryOp):
    """Sine of x, in radians."""


@elementwise_op("nn.cos", lambda np, x: np.cos(x), exact=False)
class CosOp(UnaryOp):
    """Cosine of x, in radians."""


@elementwise_op("nn.tanh", lambda np, x: np.tanh(x), exact=False)
class TanhOp(UnaryOp):
    """Hyperbolic tangent."""


def erf(np: Any, x: Any) -> Any:
    """The error function of an array or NumPy scalar, of the type of x; NumPy has none, but what stands for it may.

    One call of the C library per element is slow (some 10 million per second) and rounds once.
    """
    if hasattr(np, "erf"):
        return np.erf(x)
    flat = map(math.erf, np.ravel(x).tolist())
    return np.fromiter(flat, np.float64, x.size).astype(x.dtype).reshape(x.shape)


@elementwise_op("nn.erf", erf, exact=False)
class ErfOp(UnaryOp):
    """Error function."""


def _clip(np: Any, x: Any, low: float, high: float) -> Any:
    if x.dtype.kind not in "iu":
        return np.minimum(np.maximum(x, low), high)
    info = np.iinfo(x.dtype)
    # A bound outside the type never applies; as in the definition, the upper one wins.
    least, most = (int(min(max(bound, float(info.min)), float(info.max))) for bound in (low, high))
    least, most = (min(max(bound, info.min), info.max) for bound in (least, most))
    return np.minimum(np.maximum(x, x.dtype.type(least)), x.dtype.type(most))


@elementwise_op("nn.clip", _clip, elements=NUMBERS)
class ClipOp(UnaryOp):
    """min(max(x, min), max)."""

    min = number(default=-math.inf)
    max = number(default=math.inf)


@elementwise_op("nn.relu", lambda np, x: np.maximum(x, x.dtype.type(0)), elements=SIGNED)
class ReluOp(UnaryOp):
    """max(x, 0)."""


@elementwise_op("nn.leaky_relu", lambda np, x, alpha: np.where(x < 0, x * alpha, x), exact=False)
class LeakyReluOp(UnaryOp):
    """x, or alpha * x where x is negative."""

    alpha = number(default=0.01)


@elementwise_op("nn.elu", lambda np, x, alpha: np.where(x < 0, alpha * np.expm1(x), x), exact=False)
class EluOp(UnaryOp):
    """x, or alpha * (exp(x) - 1) where x is negative."""

    alpha = number(default=1.0)


@elementwise_op("nn.celu", lambda np, x, alpha: np.where(x < 0, alpha * np.expm1(x / alpha), x), exact=False)
class CeluOp(UnaryOp):
    """x, or alpha * (exp(x / alpha) - 1) where x is negative."""

    alpha = number(default=1.0)


@elementwise_op(
    "nn.selu", lambda np, x, alpha, gamma: gamma * np.where(x <= 0, alpha * np.expm1(x), x), exact=False
)
class SeluOp(UnaryOp):
    """gamma * x, or gamma * alpha * (exp(x) - 1) where x is not positive."""

    alpha = number(default=1.67326319217681884765625)
    gamma = number(default=1.05070102214813232421875)


@elementwise_op("nn.thresholded_relu", lambda np, x, alpha: np.where(x > alpha, x, x.dtype.type(0)))
class ThresholdedReluOp(UnaryOp):
    """x where it is above alpha, 0 elsewhere."""

    alpha = number(default=1.0)


@elementwise_op("nn.softsign", lambda np, x: x / (1 + np.abs(x)), exact=False)
class SoftsignOp(UnaryOp):
    """x / (1 + |x|)."""


def _sigmoid(np: Any, x: Any) -> Any:
    # The exponent is never positive, so nothing overflows.
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


@elementwise_op("nn.sigmoid", _sigmoid, exact=False)
class SigmoidOp(UnaryOp):
    """1 / (1 + exp(-x))."""


@elementwise_op("nn.swish", lambda np, x, alpha: x * _sigmoid(np, alpha * x), exact=False)
class SwishOp(UnaryOp):
    """x / (1 + exp(-alpha * x))."""

    alpha = number(default=1.0)


@elementwise_op("nn.hard_sigmoid", lambda np, x, alpha, beta: np.clip(alpha * x + beta, 0, 1), exact=False)
class HardSigmoidOp(UnaryOp):
    """alpha * x + beta, clipped to 0..1."""

    alpha = number(default=0.2)
    beta = number(default=0.5)


@elementwise_op("nn.hard_swish", lambda np, x: x * np.clip(x / 6 + 0.5, 0, 1), exact=False)
class HardSwishOp(UnaryOp):
    """x * (x / 6 + 0.5, clipped to 0..1)."""


def _softplus(np: Any, x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@elementwise_op("nn.softplus", _softplus, exact=False)
class SoftplusOp(UnaryOp):
    """log(1 + exp(x))."""


@elementwise_op("nn.mish", lambda np, x: x * np.tanh(_softplus(np, x)), exact=False)
class MishOp(UnaryOp):
    """x * tanh(log(1 + exp(x)))."""


def _gelu(np: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(np, x * math.sqrt(0.5)))


@elementwise_op("nn.gelu", _gelu, exact=False)
class GeluOp(UnaryOp):
    """x times the normal distribution function of x, exact or by the usual approximation with tanh."""

    approximate = keyword(("none", "tanh"))


@elementwise_op("nn.expand", lambda np, x, shape: x, elements=ELEMENTS)
class ExpandOp(UnaryOp):
    """x broadcast to the shape to which it and `shape` broadcast."""

    shape = ints()

    def infer(self) -> Shape:
        """The shape to which that of x and `shape` broadcast."""
        if any(extent < 0 for extent in self.shape):
            raise LayoutError(f"shape = {list(self.shape)} has an entry below 0")
        return broadcast(*self.shapes, self.shape)


def _cast(np: Any, x: Any, element: str) -> Any:
    """Of the numbers in pads; the reference converts tensors as stored (`elements.numpy_types.convert`)."""
    if element == "i1":
        return np.where(x != 0, 1.0, 0.0)
    return x if element in FLOATS else np.trunc(x)


@elementwise_op("nn.cast", _cast, elements=ELEMENTS)
class CastOp(UnaryOp):
    """x as the element type of the result: floats to integers cut off the fraction, to i1 is `x != 0`.

    Not to be confused with `layout.cast`, which changes no element.
    """

    SAME_ELEMENT: ClassVar[bool] = False

    def parameters(self) -> tuple[Any, ...]:
        """The name of the element type that x is converted to."""
        return (str(self.infer_element()),)

    def infer_element(self) -> Attribute:
        """The declared element type of the result: operands do not determine it."""
        return tensor_type(self.result).element_type


# Two operands ---------------------------------------------------------------------------------------------------------


@elementwise_op("nn.add", lambda np, lhs, rhs: lhs + rhs)
class AddOp(BinaryOp):
    """lhs + rhs."""


@elementwise_op("nn.sub", lambda np, lhs, rhs: lhs - rhs)
class SubOp(BinaryOp):
    """lhs - rhs."""


@elementwise_op("nn.mul", lambda np, lhs, rhs: lhs * rhs)
class MulOp(BinaryOp):
    """lhs * rhs."""


def divide(np: Any, lhs: Any, rhs: Any) -> Any:
    """lhs / rhs of arrays or NumPy scalars; of integers, cut off towards zero as C and MLIR do.

    By 0 an integer quotient is 0, and ZeroDivisionError where Python's integers are divided (dtype object).
    """
    if lhs.dtype.kind not in "iuO":
        return lhs / rhs
    quotient = lhs // rhs
    inexact = (quotient * rhs != lhs) & (rhs != 0)
    return quotient + (inexact & ((lhs < 0) != (rhs < 0))).astype(lhs.dtype)


@elementwise_op("nn.div", divide)
class DivOp(BinaryOp):
    """lhs / rhs; of integers, the quotient cut off towards zero."""

    def pad_reads(self, operand: int) -> tuple[PadRead, ...]:
        """1 in all pads of an integer divisor: a zero there would trap, although no quotient of it is used."""
        if operand == 1 and str(self.infer_element()) not in FLOATS:
            return tuple(PadRead(dim, 1.0) for dim in range(len(self.shapes[1])))
        return ()


def _pow(np: Any, lhs: Any, rhs: Any) -> Any:
    if lhs.dtype.kind not in "iu":
        return np.power(lhs, rhs)
    # To a negative power it is 1 / lhs^|rhs| cut off, which is 0 but for 1 and -1.
    lhs, rhs = np.broadcast_arrays(lhs, rhs)
    exponent = np.where(rhs < 0, rhs & 1, rhs)
    power = np.power(lhs, exponent.astype(lhs.dtype))
    return np.where((rhs < 0) & (lhs != 1) & (lhs != -1), lhs.dtype.type(0), power)


@elementwise_op("nn.pow", _pow, exact=False)
class PowOp(BinaryOp):
    """lhs to the power of rhs; of integers, with wrap-around."""


@elementwise_op("nn.prelu", lambda np, lhs, rhs: np.where(lhs < 0, lhs * rhs, lhs))
class PReluOp(BinaryOp):
    """lhs, or lhs * rhs where lhs is negative; rhs is broadcast to the shape of lhs."""

    def infer(self) -> Shape:
        """The shape of lhs."""
        x, slope = self.shapes
        if broadcast(x, slope) != x:
            raise LayoutError(f"the slope of shape {shape_text(slope)} does not broadcast to {shape_text(x)}")
        return x


@elementwise_op("nn.min", lambda np, lhs, rhs: np.minimum(lhs, rhs))
class MinOp(BinaryOp):
    """The smaller one; NaN if either is."""


@elementwise_op("nn.max", lambda np, lhs, rhs: np.maximum(lhs, rhs))
class MaxOp(BinaryOp):
    """The larger one; NaN if either is."""


@elementwise_op("nn.equal", lambda np, lhs, rhs: lhs == rhs)
class EqualOp(ComparisonOp):
    """Whether both are equal; NaN equals nothing."""


@elementwise_op("nn.greater", lambda np, lhs, rhs: lhs > rhs, elements=NUMBERS)
class GreaterOp(ComparisonOp):
    """Whether lhs is above rhs."""


@elementwise_op("nn.greater_or_equal", lambda np, lhs, rhs: lhs >= rhs, elements=NUMBERS)
class GreaterOrEqualOp(ComparisonOp):
    """Whether lhs is above rhs, or equal."""


@elementwise_op("nn.less", lambda np, lhs, rhs: lhs < rhs, elements=NUMBERS)
class LessOp(ComparisonOp):
    """Whether lhs is below rhs."""


@elementwise_op("nn.less_or_equal", lambda np, lhs, rhs: lhs <= rhs, elements=NUMBERS)
class LessOrEqualOp(ComparisonOp):
    """Whether lhs is below rhs, or equal."""


@elementwise_op("nn.and", lambda np, lhs, rhs: lhs & rhs)
class AndOp(LogicOp):
    """Whether both are true."""


@elementwise_op("nn.or", lambda np, lhs, rhs: lhs | rhs)
class OrOp(LogicOp):
    """Whether one of the two is true."""


@elementwise_op("nn.xor", lambda np, lhs, rhs: lhs != rhs)
class XorOp(LogicOp):
    """Whether exactly one of the two is true."""


# Three operands -------------------------------------------------------------------------------------------------------


@elementwise_op("nn.where", lambda np, condition, lhs, rhs: np.where(condition, lhs, rhs), elements=ELEMENTS)
class WhereOp(ElementwiseOp):
    """lhs where the condition is true, rhs elsewhere."""

    SAME_ELEMENT: ClassVar[bool] = False

    condition = operand_def(TensorType)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)

    def infer_element(self) -> Attribute:
        """The element type of lhs."""
        return tensor_type(self.lhs).element_type

    def check_elements(self) -> None:
        """Raises LayoutError unless the condition is i1, and lhs, rhs and the result have one element type."""
        super().check_elements()
        self.check_truth_value(self.condition)
        self.check_equal_elements((self.lhs, self.rhs, self.result))
