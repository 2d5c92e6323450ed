"""The table of elementwise ops: one number in, one number out, at every element.

A row of the table is a class with its decorator (`elementwise_op`): name, meaning, operands (`UnaryOp`, `BinaryOp`),
attributes with their defaults, element types, and the function that computes the op, which mostly is that of its name
in `elements/elementwise_formulas`.
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
    tensor_type,
)
from layout_ir.elements.elementwise_formulas import COMPUTE, broadcast
from layout_ir.errors import LayoutError, shape_text
from layout_ir.interfaces import PadRead

# One operand ----------------------------------------------------------------------------------------------------------


@elementwise_op("nn.neg", COMPUTE["neg"], elements=SIGNED)
class NegOp(UnaryOp):
    """-x."""


@elementwise_op("nn.abs", COMPUTE["abs"], elements=NUMBERS)
class AbsOp(UnaryOp):
    """Magnitude."""


@elementwise_op("nn.sign", COMPUTE["sign"], elements=NUMBERS)
class SignOp(UnaryOp):
    """1 where x is positive, -1 where it is negative, 0 where it is 0, NaN where it is NaN."""


@elementwise_op("nn.round", COMPUTE["round"])
class RoundOp(UnaryOp):
    """The nearest integer, the even one of two."""


@elementwise_op("nn.not", COMPUTE["not"], elements=("i1",))
class NotOp(UnaryOp):
    """Whether x is false."""


@elementwise_op("nn.reciprocal", COMPUTE["reciprocal"])
class ReciprocalOp(UnaryOp):
    """1 / x."""


@elementwise_op("nn.floor", COMPUTE["floor"])
class FloorOp(UnaryOp):
    """The largest integer that is not above x."""


@elementwise_op("nn.ceil", COMPUTE["ceil"])
class CeilOp(UnaryOp):
    """The smallest integer that is not below x."""


@elementwise_op("nn.sqrt", COMPUTE["sqrt"])
class SqrtOp(UnaryOp):
    """Square root."""


@elementwise_op("nn.exp", COMPUTE["exp"], exact=False)
class ExpOp(UnaryOp):
    """e to the power of x."""


@elementwise_op("nn.log", COMPUTE["log"], exact=False)
class LogOp(UnaryOp):
    """Natural logarithm."""


@elementwise_op("nn.sin", COMPUTE["sin"], exact=False)
class SinOp(UnaryOp):
    """Sine of x, in radians."""


@elementwise_op("nn.cos", COMPUTE["cos"], exact=False)
class CosOp(UnaryOp):
    """Cosine of x, in radians."""


@elementwise_op("nn.tanh", COMPUTE["tanh"], exact=False)
class TanhOp(UnaryOp):
    """Hyperbolic tangent."""


@elementwise_op("nn.erf", COMPUTE["erf"], exact=False)
class ErfOp(UnaryOp):
    """Error function."""


@elementwise_op("nn.clip", COMPUTE["clip"], elements=NUMBERS)
class ClipOp(UnaryOp):
    """min(max(x, min), max)."""

    min = number(default=-math.inf)
    max = number(default=math.inf)


@elementwise_op("nn.relu", COMPUTE["relu"], elements=SIGNED)
class ReluOp(UnaryOp):
    """max(x, 0)."""


@elementwise_op("nn.leaky_relu", COMPUTE["leaky_relu"], exact=False)
class LeakyReluOp(UnaryOp):
    """x, or alpha * x where x is negative."""

    alpha = number(default=0.01)


@elementwise_op("nn.elu", COMPUTE["elu"], exact=False)
class EluOp(UnaryOp):
    """x, or alpha * (exp(x) - 1) where x is negative."""

    alpha = number(default=1.0)


@elementwise_op("nn.celu", COMPUTE["celu"], exact=False)
class CeluOp(UnaryOp):
    """x, or alpha * (exp(x / alpha) - 1) where x is negative."""

    alpha = number(default=1.0)


@elementwise_op("nn.selu", COMPUTE["selu"], exact=False)
class SeluOp(UnaryOp):
    """gamma * x, or gamma * alpha * (exp(x) - 1) where x is not positive."""

    alpha = number(default=1.67326319217681884765625)
    gamma = number(default=1.05070102214813232421875)


@elementwise_op("nn.thresholded_relu", COMPUTE["thresholded_relu"])
class ThresholdedReluOp(UnaryOp):
    """x where it is above alpha, 0 elsewhere."""

    alpha = number(default=1.0)


@elementwise_op("nn.softsign", COMPUTE["softsign"], exact=False)
class SoftsignOp(UnaryOp):
    """x / (1 + |x|)."""


@elementwise_op("nn.sigmoid", COMPUTE["sigmoid"], exact=False)
class SigmoidOp(UnaryOp):
    """1 / (1 + exp(-x))."""


@elementwise_op("nn.swish", COMPUTE["swish"], exact=False)
class SwishOp(UnaryOp):
    """x / (1 + exp(-alpha * x))."""

    alpha = number(default=1.0)


@elementwise_op("nn.hard_sigmoid", COMPUTE["hard_sigmoid"], exact=False)
class HardSigmoidOp(UnaryOp):
    """alpha * x + beta, clipped to 0..1."""

    alpha = number(default=0.2)
    beta = number(default=0.5)


@elementwise_op("nn.hard_swish", COMPUTE["hard_swish"], exact=False)
class HardSwishOp(UnaryOp):
    """x * (x / 6 + 0.5, clipped to 0..1)."""


@elementwise_op("nn.softplus", COMPUTE["softplus"], exact=False)
class SoftplusOp(UnaryOp):
    """log(1 + exp(x))."""


@elementwise_op("nn.mish", COMPUTE["mish"], exact=False)
class MishOp(UnaryOp):
    """x * tanh(log(1 + exp(x)))."""


@elementwise_op("nn.gelu", COMPUTE["gelu"], exact=False)
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
    """The number that pads hold behind a cast; the reference converts tensors as stored (`numpy_types.convert`)."""
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


@elementwise_op("nn.add", COMPUTE["add"])
class AddOp(BinaryOp):
    """lhs + rhs."""


@elementwise_op("nn.sub", COMPUTE["sub"])
class SubOp(BinaryOp):
    """lhs - rhs."""


@elementwise_op("nn.mul", COMPUTE["mul"])
class MulOp(BinaryOp):
    """lhs * rhs."""


@elementwise_op("nn.div", COMPUTE["div"])
class DivOp(BinaryOp):
    """lhs / rhs; of integers, the quotient cut off towards zero."""

    def pad_reads(self, operand: int) -> tuple[PadRead, ...]:
        """1 in all pads of an integer divisor: a zero there would trap, although no quotient of it is used."""
        if operand == 1 and str(self.infer_element()) not in FLOATS:
            return tuple(PadRead(dim, 1.0) for dim in range(len(self.shapes[1])))
        return ()


@elementwise_op("nn.pow", COMPUTE["pow"], exact=False)
class PowOp(BinaryOp):
    """lhs to the power of rhs; of integers, with wrap-around."""


@elementwise_op("nn.prelu", COMPUTE["prelu"])
class PReluOp(BinaryOp):
    """lhs, or lhs * rhs where lhs is negative; rhs is broadcast to the shape of lhs."""

    def infer(self) -> Shape:
        """The shape of lhs."""
        x, slope = self.shapes
        if broadcast(x, slope) != x:
            raise LayoutError(f"the slope of shape {shape_text(slope)} does not broadcast to {shape_text(x)}")
        return x


@elementwise_op("nn.min", COMPUTE["min"])
class MinOp(BinaryOp):
    """The smaller one; NaN if either is."""


@elementwise_op("nn.max", COMPUTE["max"])
class MaxOp(BinaryOp):
    """The larger one; NaN if either is."""


@elementwise_op("nn.equal", COMPUTE["equal"])
class EqualOp(ComparisonOp):
    """Whether both are equal; NaN equals nothing."""


@elementwise_op("nn.greater", COMPUTE["greater"], elements=NUMBERS)
class GreaterOp(ComparisonOp):
    """Whether lhs is above rhs."""


@elementwise_op("nn.greater_or_equal", COMPUTE["greater_or_equal"], elements=NUMBERS)
class GreaterOrEqualOp(ComparisonOp):
    """Whether lhs is above rhs, or equal."""


@elementwise_op("nn.less", COMPUTE["less"], elements=NUMBERS)
class LessOp(ComparisonOp):
    """Whether lhs is below rhs."""


@elementwise_op("nn.less_or_equal", COMPUTE["less_or_equal"], elements=NUMBERS)
class LessOrEqualOp(ComparisonOp):
    """Whether lhs is below rhs, or equal."""


@elementwise_op("nn.and", COMPUTE["and"])
class AndOp(LogicOp):
    """Whether both are true."""


@elementwise_op("nn.or", COMPUTE["or"])
class OrOp(LogicOp):
    """Whether one of the two is true."""


@elementwise_op("nn.xor", COMPUTE["xor"])
class XorOp(LogicOp):
    """Whether exactly one of the two is true."""


# Three operands -------------------------------------------------------------------------------------------------------


@elementwise_op("nn.where", COMPUTE["where"], elements=ELEMENTS)
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
