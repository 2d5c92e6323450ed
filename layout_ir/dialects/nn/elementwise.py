"""Elementwise ops: one number in, one number out, at every element.

Each op is defined by its `scalar` function: the operands' elements, then the op's attributes. Kernels apply it
to the whole padded box, so what it makes of the pad values is what the result's pads hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def

from layout_ir.dialects.nn.common import NNOp
from layout_ir.dialects.nn.shapes import broadcast
from layout_ir.dialects.nn.tensors import ELEMENTS, FLOATS, NUMBERS, Shape, round_to, shape_of, tensor_type
from layout_ir.interfaces import PadRead

_LIMITS = {0.0, 0.5, 1.0, -1.0, math.inf, -math.inf}
"""Numbers between which kernels that approximate are exact: exp(0) is 1, tanh(inf) 1, the sigmoid of 0 a half."""

SIGNED = (*FLOATS, "i8", "i32", "i64")


class ElementwiseOp(NNOp):
    """Operands broadcast as NumPy does; those that have the result's shape must have its format."""

    ALLOWED: ClassVar[tuple[str, ...]] = FLOATS
    SAME_FORMAT: ClassVar[bool] = True

    EXACT: ClassVar[bool] = True
    """Whether every kernel computes the op to the last bit; of one that approximates it, only limits are promised."""

    @staticmethod
    def scalar(*args: float) -> float:
        """The op on one element of each operand, followed by the attributes."""
        raise NotImplementedError

    def apply(self, args: Sequence[float]) -> float:
        """`scalar` with this op's attributes."""
        return self.scalar(*args, *(getattr(self, name) for name in self.__fields__))

    def infer(self) -> Shape:
        shape: Shape = ()
        for operand in self.shapes:
            shape = broadcast(shape, operand)
        return shape

    def formatted_operands(self) -> Sequence[SSAValue]:
        shape = shape_of(self.result)
        return [operand for operand in self.operands if shape_of(operand) == shape]

    def pad_result(self, pads: Sequence[float | None]) -> float | None:
        # At a pad of the result, an operand that is broadcast there may be read at a valid element.
        full = all(shape == shape_of(self.result) for shape in self.shapes)
        # What a type promises, its elements hold rounded.
        held = [
            None if pad is None else round_to(pad, tensor_type(operand).element_type)
            for operand, pad in zip(self.operands, pads, strict=True)
        ]
        known = [pad for pad in held if pad is not None]
        if not full or len(known) != len(self.operands):
            return None
        try:
            value = self.apply(known)
        except (ArithmeticError, ValueError):
            return None
        if not self.EXACT and not {value, *known} <= _LIMITS:
            return None
        rounded = None if math.isnan(value) else round_to(value, self.infer_element())
        # Half precision may be computed in a wider one, which rounds twice.
        halves = str(self.infer_element()) in ("f16", "bf16")
        return None if halves and rounded != value else rounded


class UnaryOp(ElementwiseOp):
    """One operand."""

    x = operand_def(TensorType)


class BinaryOp(ElementwiseOp):
    """Two operands."""

    ALLOWED: ClassVar[tuple[str, ...]] = NUMBERS

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)


@irdl_op_definition
class TanhOp(UnaryOp):
    """Hyperbolic tangent."""

    name = "nn.tanh"
    EXACT: ClassVar[bool] = False

    @staticmethod
    def scalar(*args: float) -> float:
        return math.tanh(*args)


@irdl_op_definition
class ExpOp(UnaryOp):
    """e to the power of x."""

    name = "nn.exp"
    EXACT: ClassVar[bool] = False

    @staticmethod
    def scalar(*args: float) -> float:
        return math.exp(*args)


@irdl_op_definition
class LogOp(UnaryOp):
    """Natural logarithm."""

    name = "nn.log"
    EXACT: ClassVar[bool] = False

    @staticmethod
    def scalar(*args: float) -> float:
        (x,) = args
        return math.log(x)


@irdl_op_definition
class SqrtOp(UnaryOp):
    """Square root."""

    name = "nn.sqrt"

    @staticmethod
    def scalar(*args: float) -> float:
        return math.sqrt(*args)


@irdl_op_definition
class ErfOp(UnaryOp):
    """Error function."""

    name = "nn.erf"
    EXACT: ClassVar[bool] = False

    @staticmethod
    def scalar(*args: float) -> float:
        return math.erf(*args)


@irdl_op_definition
class NegOp(UnaryOp):
    """-x."""

    name = "nn.neg"
    ALLOWED: ClassVar[tuple[str, ...]] = SIGNED

    @staticmethod
    def scalar(*args: float) -> float:
        (x,) = args
        return -x


@irdl_op_definition
class AbsOp(UnaryOp):
    """Magnitude."""

    name = "nn.abs"
    ALLOWED: ClassVar[tuple[str, ...]] = NUMBERS

    @staticmethod
    def scalar(*args: float) -> float:
        return abs(*args)


@irdl_op_definition
class ReciprocalOp(UnaryOp):
    """1 / x."""

    name = "nn.reciprocal"

    @staticmethod
    def scalar(*args: float) -> float:
        (x,) = args
        return 1 / x


@irdl_op_definition
class FloorOp(UnaryOp):
    """The largest integer that is not above x."""

    name = "nn.floor"

    @staticmethod
    def scalar(*args: float) -> float:
        (x,) = args
        return float(math.floor(x)) if math.isfinite(x) else x


@irdl_op_definition
class CeilOp(UnaryOp):
    """The smallest integer that is not below x."""

    name = "nn.ceil"

    @staticmethod
    def scalar(*args: float) -> float:
        (x,) = args
        return float(math.ceil(x)) if math.isfinite(x) else x


@irdl_op_definition
class CastOp(UnaryOp):
    """x as the element type of the result: floats to integers cut off the fraction, to i1 is `x != 0`.

    Not to be confused with `layout.cast`, which changes no element.
    """

    name = "nn.cast"
    ALLOWED: ClassVar[tuple[str, ...]] = ELEMENTS
    SAME_ELEMENT: ClassVar[bool] = False

    @staticmethod
    def scalar(*args: float) -> float:
        (x,) = args
        return x

    def apply(self, args: Sequence[float]) -> float:
        (x,) = args
        match str(self.infer_element()):
            case "i1":
                return float(x != 0)
            case element if element in FLOATS:
                return x
            case _:
                return int(x)

    def infer_element(self) -> Attribute:
        return tensor_type(self.result).element_type


@irdl_op_definition
class AddOp(BinaryOp):
    """lhs + rhs."""

    name = "nn.add"

    @staticmethod
    def scalar(*args: float) -> float:
        lhs, rhs = args
        return lhs + rhs


@irdl_op_definition
class SubOp(BinaryOp):
    """lhs - rhs."""

    name = "nn.sub"

    @staticmethod
    def scalar(*args: float) -> float:
        lhs, rhs = args
        return lhs - rhs


@irdl_op_definition
class MulOp(BinaryOp):
    """lhs * rhs."""

    name = "nn.mul"

    @staticmethod
    def scalar(*args: float) -> float:
        lhs, rhs = args
        return lhs * rhs


@irdl_op_definition
class DivOp(BinaryOp):
    """lhs / rhs; of integers, the quotient cut off towards zero."""

    name = "nn.div"

    @staticmethod
    def scalar(*args: float) -> float:
        lhs, rhs = args
        return lhs / rhs

    def apply(self, args: Sequence[float]) -> float:
        if str(self.infer_element()) in FLOATS:
            return self.scalar(*args)
        lhs, rhs = map(int, args)
        quotient = abs(lhs) // abs(rhs)
        return quotient if (lhs < 0) == (rhs < 0) else -quotient

    def pad_reads(self, operand: int) -> tuple[PadRead, ...]:
        # Dividing integers by a zero in a pad traps, although nobody would read the quotient.
        if operand == 1 and str(self.infer_element()) not in FLOATS:
            return tuple(PadRead(dim, 1.0) for dim in range(len(self.shapes[1])))
        return ()


@irdl_op_definition
class PowOp(BinaryOp):
    """lhs to the power of rhs."""

    name = "nn.pow"
    EXACT: ClassVar[bool] = False

    @staticmethod
    def scalar(*args: float) -> float:
        return math.pow(*args)


@irdl_op_definition
class MinOp(BinaryOp):
    """The smaller one; NaN if either is."""

    name = "nn.min"

    @staticmethod
    def scalar(*args: float) -> float:
        lhs, rhs = args
        return lhs if lhs < rhs or math.isnan(lhs) else rhs


@irdl_op_definition
class MaxOp(BinaryOp):
    """The larger one; NaN if either is."""

    name = "nn.max"

    @staticmethod
    def scalar(*args: float) -> float:
        lhs, rhs = args
        return lhs if lhs > rhs or math.isnan(lhs) else rhs
