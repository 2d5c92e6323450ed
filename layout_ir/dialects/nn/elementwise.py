"""The table of elementwise ops: one number in, one number out, at every element.

A row of the table is a class with its decorator: name, meaning, operands (`UnaryOp`, `BinaryOp`), attributes with their
defaults, element types, and the function that computes the op. That one function has all users: the reference runs it
on the whole padded box, verifiers and passes on the numbers in the pads of the operands, which gives those in the pads
of the result, and ONNX import on constants.

The functions take NumPy itself, `np`, which tools that compute nothing do not import; then the operands as arrays, then
the attributes in order. Arrays are of a type that NumPy computes in (f16 and bf16 in single precision), or hold exact
integers (dtype object).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeVar, cast

from xdsl.dialects.builtin import AnyFloat, BFloat16Type, Float16Type, TensorType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def

from layout_ir.dialects.nn.attributes import ints, keyword, number
from layout_ir.dialects.nn.nn_op import NNOp
from layout_ir.dialects.nn.tensor_types import (
    ELEMENTS,
    FLOATS,
    NUMBERS,
    Shape,
    broadcast,
    round_to,
    shape_of,
    tensor_type,
)
from layout_ir.errors import LayoutError, shape_text
from layout_ir.interfaces import PadRead

_LIMITS = {0.0, 0.5, 1.0, -1.0, math.inf, -math.inf}
"""Arguments and results of which every library is exact: exp(0) is 1, tanh(inf) is 1, the sigmoid of 0 is 0.5."""

SIGNED = (*FLOATS, "i8", "i16", "i32", "i64")


class ElementwiseOp(NNOp):
    """Operands broadcast as NumPy does; those that have the result's shape must have its format."""

    ALLOWED: ClassVar[tuple[str, ...]] = FLOATS
    SAME_FORMAT: ClassVar[bool] = True

    EXACT: ClassVar[bool] = True
    """Whether every kernel computes the op to the last bit; of one that approximates it, only limits are promised."""

    COMPUTE: ClassVar[Callable[..., Any]]
    """The op on arrays: NumPy, the operands, the attributes."""

    def parameters(self) -> tuple[Any, ...]:
        """The last arguments of `COMPUTE`: the values of the attributes, in order."""
        return tuple(getattr(self, name) for name in self.__fields__)

    def compute(self, np: Any, *operands: Any) -> Any:
        """The op, with its attributes, on arrays that broadcast."""
        return self.COMPUTE(np, *operands, *self.parameters())

    def infer(self) -> Shape:
        """The shape to which all operands broadcast."""
        return broadcast(*self.shapes)

    def formatted_operands(self) -> Sequence[SSAValue]:
        """The operands that are not broadcast."""
        shape = shape_of(self.result)
        return [operand for operand in self.operands if shape_of(operand) == shape]

    def pad_result(self, pads: Sequence[float | None]) -> float | None:
        """`COMPUTE` of the numbers in the operands' pads.

        None where an operand is broadcast (its pads need not lie under those of the result), where a number is not
        known, or where libraries that approximate the op may differ in the result.
        """
        full = all(shape == shape_of(self.result) for shape in self.shapes)
        # Stored pads hold the promised number rounded to the element type.
        held = [
            None if pad is None else round_to(pad, tensor_type(operand).element_type)
            for operand, pad in zip(self.operands, pads, strict=True)
        ]
        known = [pad for pad in held if pad is not None]
        if not full or len(known) != len(self.operands):
            return None
        if not self.EXACT and not _LIMITS.issuperset(known):
            return None
        floats = tuple(isinstance(tensor_type(operand).element_type, AnyFloat) for operand in self.operands)
        value = _compute_number(self.COMPUTE, tuple(known), floats, self.parameters())
        if value is None or not (self.EXACT or value in _LIMITS):
            return None
        element = self.infer_element()
        rounded = round_to(value, element)
        # Half precision may be computed in a wider one, which rounds twice.
        twice = isinstance(element, Float16Type | BFloat16Type)
        return None if twice and rounded != value else rounded


@lru_cache(maxsize=1024)
def _compute_number(
    compute: Callable[..., Any],
    numbers: tuple[float, ...],
    floats: tuple[bool, ...],
    parameters: tuple[Any, ...],
) -> float | None:
    """`compute` of one number per operand, in double precision or exact integers.

    None where the result depends on the sign of a zero, is NaN, or has a pole (1 / 0).
    """
    import numpy as np

    # A 0 in pads may have either sign. Exact integers do not wrap, unlike those of the element type.
    operands = [
        np.array([value, -value] if value == 0 else [value]) if is_float else np.array([int(value)], object)
        for value, is_float in zip(numbers, floats, strict=True)
    ]
    # A pole, such as 1 / 0, is an error; libraries raise the same flag at infinite operands, where it is none.
    pole = "raise" if all(map(math.isfinite, numbers)) else "ignore"
    try:
        with np.errstate(all="ignore", divide=pole):
            values = compute(np, *np.ix_(*operands), *parameters).ravel().tolist()
    except ArithmeticError:
        return None
    # NaN is no value either, and not equal to itself.
    if not all(value == values[0] for value in values):
        return None
    return int(values[0]) if isinstance(values[0], bool) else values[0]


class UnaryOp(ElementwiseOp):
    """One operand."""

    x = operand_def(TensorType)


class BinaryOp(ElementwiseOp):
    """Two operands."""

    ALLOWED: ClassVar[tuple[str, ...]] = NUMBERS

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)


class ComparisonOp(BinaryOp):
    """Two operands of one element type, and a result of truth values."""

    ALLOWED: ClassVar[tuple[str, ...]] = ELEMENTS
    SAME_ELEMENT: ClassVar[bool] = False

    def infer_element(self) -> Attribute:
        """i1."""
        return i1

    def check_elements(self) -> None:
        """Raises LayoutError where the operands differ in their element types, or the result's is not i1."""
        self.check_allowed(self.operands)
        self.check_equal_elements(self.operands)
        self.check_truth_value(self.result)


class LogicOp(BinaryOp):
    """Two operands of truth values."""

    ALLOWED: ClassVar[tuple[str, ...]] = ("i1",)


Compute = Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any] | Callable[[Any, Any, Any, Any], Any]
"""NumPy, then up to three operands and attributes."""

_Op = TypeVar("_Op", bound=ElementwiseOp)


def _elementwise_op(
    name: str, compute: Compute, *, elements: tuple[str, ...] | None = None, exact: bool = True
) -> Callable[[type[_Op]], type[_Op]]:
    """Defines the op `name` that `compute` computes, for other element types than its base class has if given."""

    def define(op: type[_Op]) -> type[_Op]:
        op.name = name
        op = irdl_op_definition(op)
        op.COMPUTE = staticmethod(cast("Callable[..., Any]", compute))
        op.EXACT = exact
        op.ALLOWED = elements or op.ALLOWED
        return op

    return define


# One operand ----------------------------------------------------------------------------------------------------------


@_elementwise_op("nn.neg", lambda np, x: -x, elements=SIGNED)
class NegOp(UnaryOp):
    """-x."""


@_elementwise_op("nn.abs", lambda np, x: np.abs(x), elements=NUMBERS)
class AbsOp(UnaryOp):
    """Magnitude."""


@_elementwise_op("nn.sign", lambda np, x: np.sign(x), elements=NUMBERS)
class SignOp(UnaryOp):
    """1 where x is positive, -1 where it is negative, 0 where it is 0, NaN where it is NaN."""


@_elementwise_op("nn.round", lambda np, x: np.rint(x))
class RoundOp(UnaryOp):
    """The nearest integer, the even one of two."""


@_elementwise_op("nn.not", lambda np, x: x == 0, elements=("i1",))
class NotOp(UnaryOp):
    """Whether x is false."""


@_elementwise_op("nn.reciprocal", lambda np, x: 1 / x)
class ReciprocalOp(UnaryOp):
    """1 / x."""


@_elementwise_op("nn.floor", lambda np, x: np.floor(x))
class FloorOp(UnaryOp):
    """The largest integer that is not above x."""


@_elementwise_op("nn.ceil", lambda np, x: np.ceil(x))
class CeilOp(UnaryOp):
    """The smallest integer that is not below x."""


@_elementwise_op("nn.sqrt", lambda np, x: np.sqrt(x))
class SqrtOp(UnaryOp):
    """Square root."""


@_elementwise_op("nn.exp", lambda np, x: np.exp(x), exact=False)
class ExpOp(UnaryOp):
    """e to the power of x."""


@_elementwise_op("nn.log", lambda np, x: np.log(x), exact=False)
class LogOp(UnaryOp):
    """Natural logarithm."""


@_elementwise_op("nn.sin", lambda np, x: np.sin(x), exact=False)
class SinOp(UnaryOp):
    """Sine of x, in radians."""


@_elementwise_op("nn.cos", lambda np, x: np.cos(x), exact=False)
class CosOp(UnaryOp):
    """Cosine of x, in radians."""


@_elementwise_op("nn.tanh", lambda np, x: np.tanh(x), exact=False)
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


@_elementwise_op("nn.erf", erf, exact=False)
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


@_elementwise_op("nn.clip", _clip, elements=NUMBERS)
class ClipOp(UnaryOp):
    """min(max(x, min), max)."""

    min = number(default=-math.inf)
    max = number(default=math.inf)


@_elementwise_op("nn.relu", lambda np, x: np.maximum(x, x.dtype.type(0)), elements=SIGNED)
class ReluOp(UnaryOp):
    """max(x, 0)."""


@_elementwise_op("nn.leaky_relu", lambda np, x, alpha: np.where(x < 0, x * alpha, x), exact=False)
class LeakyReluOp(UnaryOp):
    """x, or alpha * x where x is negative."""

    alpha = number(default=0.01)


@_elementwise_op("nn.elu", lambda np, x, alpha: np.where(x < 0, alpha * np.expm1(x), x), exact=False)
class EluOp(UnaryOp):
    """x, or alpha * (exp(x) - 1) where x is negative."""

    alpha = number(default=1.0)


@_elementwise_op("nn.celu", lambda np, x, alpha: np.where(x < 0, alpha * np.expm1(x / alpha), x), exact=False)
class CeluOp(UnaryOp):
    """x, or alpha * (exp(x / alpha) - 1) where x is negative."""

    alpha = number(default=1.0)


@_elementwise_op(
    "nn.selu", lambda np, x, alpha, gamma: gamma * np.where(x <= 0, alpha * np.expm1(x), x), exact=False
)
class SeluOp(UnaryOp):
    """gamma * x, or gamma * alpha * (exp(x) - 1) where x is not positive."""

    alpha = number(default=1.67326319217681884765625)
    gamma = number(default=1.05070102214813232421875)


@_elementwise_op("nn.thresholded_relu", lambda np, x, alpha: np.where(x > alpha, x, x.dtype.type(0)))
class ThresholdedReluOp(UnaryOp):
    """x where it is above alpha, 0 elsewhere."""

    alpha = number(default=1.0)


@_elementwise_op("nn.softsign", lambda np, x: x / (1 + np.abs(x)), exact=False)
class SoftsignOp(UnaryOp):
    """x / (1 + |x|)."""


def _sigmoid(np: Any, x: Any) -> Any:
    # The exponent is never positive, so nothing overflows.
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


@_elementwise_op("nn.sigmoid", _sigmoid, exact=False)
class SigmoidOp(UnaryOp):
    """1 / (1 + exp(-x))."""


@_elementwise_op("nn.swish", lambda np, x, alpha: x * _sigmoid(np, alpha * x), exact=False)
class SwishOp(UnaryOp):
    """x / (1 + exp(-alpha * x))."""

    alpha = number(default=1.0)


@_elementwise_op("nn.hard_sigmoid", lambda np, x, alpha, beta: np.clip(alpha * x + beta, 0, 1), exact=False)
class HardSigmoidOp(UnaryOp):
    """alpha * x + beta, clipped to 0..1."""

    alpha = number(default=0.2)
    beta = number(default=0.5)


@_elementwise_op("nn.hard_swish", lambda np, x: x * np.clip(x / 6 + 0.5, 0, 1), exact=False)
class HardSwishOp(UnaryOp):
    """x * (x / 6 + 0.5, clipped to 0..1)."""


def _softplus(np: Any, x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@_elementwise_op("nn.softplus", _softplus, exact=False)
class SoftplusOp(UnaryOp):
    """log(1 + exp(x))."""


@_elementwise_op("nn.mish", lambda np, x: x * np.tanh(_softplus(np, x)), exact=False)
class MishOp(UnaryOp):
    """x * tanh(log(1 + exp(x)))."""


def _gelu(np: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(np, x * math.sqrt(0.5)))


@_elementwise_op("nn.gelu", _gelu, exact=False)
class GeluOp(UnaryOp):
    """x times the normal distribution function of x, exact or by the usual approximation with tanh."""

    approximate = keyword(("none", "tanh"))


@_elementwise_op("nn.expand", lambda np, x, shape: x, elements=ELEMENTS)
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


@_elementwise_op("nn.cast", _cast, elements=ELEMENTS)
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


@_elementwise_op("nn.add", lambda np, lhs, rhs: lhs + rhs)
class AddOp(BinaryOp):
    """lhs + rhs."""


@_elementwise_op("nn.sub", lambda np, lhs, rhs: lhs - rhs)
class SubOp(BinaryOp):
    """lhs - rhs."""


@_elementwise_op("nn.mul", lambda np, lhs, rhs: lhs * rhs)
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


@_elementwise_op("nn.div", divide)
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


@_elementwise_op("nn.pow", _pow, exact=False)
class PowOp(BinaryOp):
    """lhs to the power of rhs; of integers, with wrap-around."""


@_elementwise_op("nn.prelu", lambda np, lhs, rhs: np.where(lhs < 0, lhs * rhs, lhs))
class PReluOp(BinaryOp):
    """lhs, or lhs * rhs where lhs is negative; rhs is broadcast to the shape of lhs."""

    def infer(self) -> Shape:
        """The shape of lhs."""
        x, slope = self.shapes
        if broadcast(x, slope) != x:
            raise LayoutError(f"the slope of shape {shape_text(slope)} does not broadcast to {shape_text(x)}")
        return x


@_elementwise_op("nn.min", lambda np, lhs, rhs: np.minimum(lhs, rhs))
class MinOp(BinaryOp):
    """The smaller one; NaN if either is."""


@_elementwise_op("nn.max", lambda np, lhs, rhs: np.maximum(lhs, rhs))
class MaxOp(BinaryOp):
    """The larger one; NaN if either is."""


@_elementwise_op("nn.equal", lambda np, lhs, rhs: lhs == rhs)
class EqualOp(ComparisonOp):
    """Whether both are equal; NaN equals nothing."""


@_elementwise_op("nn.greater", lambda np, lhs, rhs: lhs > rhs, elements=NUMBERS)
class GreaterOp(ComparisonOp):
    """Whether lhs is above rhs."""


@_elementwise_op("nn.greater_or_equal", lambda np, lhs, rhs: lhs >= rhs, elements=NUMBERS)
class GreaterOrEqualOp(ComparisonOp):
    """Whether lhs is above rhs, or equal."""


@_elementwise_op("nn.less", lambda np, lhs, rhs: lhs < rhs, elements=NUMBERS)
class LessOp(ComparisonOp):
    """Whether lhs is below rhs."""


@_elementwise_op("nn.less_or_equal", lambda np, lhs, rhs: lhs <= rhs, elements=NUMBERS)
class LessOrEqualOp(ComparisonOp):
    """Whether lhs is below rhs, or equal."""


@_elementwise_op("nn.and", lambda np, lhs, rhs: lhs & rhs)
class AndOp(LogicOp):
    """Whether both are true."""


@_elementwise_op("nn.or", lambda np, lhs, rhs: lhs | rhs)
class OrOp(LogicOp):
    """Whether one of the two is true."""


@_elementwise_op("nn.xor", lambda np, lhs, rhs: lhs != rhs)
class XorOp(LogicOp):
    """Whether exactly one of the two is true."""


# Three operands -------------------------------------------------------------------------------------------------------


@_elementwise_op("nn.where", lambda np, condition, lhs, rhs: np.where(condition, lhs, rhs), elements=ELEMENTS)
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
