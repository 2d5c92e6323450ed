"""Activations: unary elementwise ops that networks put behind their layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.irdl import irdl_op_definition

from layout_ir.dialects.nn.attributes import number, word
from layout_ir.dialects.nn.elementwise import SIGNED, UnaryOp
from layout_ir.dialects.nn.tensors import NUMBERS


@irdl_op_definition
class ReluOp(UnaryOp):
    """max(x, 0)."""

    name = "nn.relu"
    ALLOWED: ClassVar[tuple[str, ...]] = SIGNED

    @staticmethod
    def scalar(*args: float) -> float:
        (x,) = args
        return 0.0 if x < 0 else x


@irdl_op_definition
class LeakyReluOp(UnaryOp):
    """x, or alpha * x where x is negative."""

    name = "nn.leaky_relu"
    EXACT: ClassVar[bool] = False

    alpha = number(default=0.01)

    @staticmethod
    def scalar(*args: float) -> float:
        x, alpha = args
        return alpha * x if x < 0 else x


@irdl_op_definition
class EluOp(UnaryOp):
    """x, or alpha * (exp(x) - 1) where x is negative."""

    name = "nn.elu"
    EXACT: ClassVar[bool] = False

    alpha = number(default=1.0)

    @staticmethod
    def scalar(*args: float) -> float:
        x, alpha = args
        return alpha * math.expm1(x) if x < 0 else x


@irdl_op_definition
class SigmoidOp(UnaryOp):
    """1 / (1 + exp(-x))."""

    name = "nn.sigmoid"
    EXACT: ClassVar[bool] = False

    @staticmethod
    def scalar(*args: float) -> float:
        (x,) = args
        return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


@irdl_op_definition
class HardSigmoidOp(UnaryOp):
    """alpha * x + beta, clipped to 0..1."""

    name = "nn.hard_sigmoid"
    EXACT: ClassVar[bool] = False

    alpha = number(default=0.2)
    beta = number(default=0.5)

    @staticmethod
    def scalar(*args: float) -> float:
        x, alpha, beta = args
        return ClipOp.scalar(alpha * x + beta, 0.0, 1.0)


@irdl_op_definition
class HardSwishOp(UnaryOp):
    """x * (x / 6 + 0.5, clipped to 0..1)."""

    name = "nn.hard_swish"
    EXACT: ClassVar[bool] = False

    @staticmethod
    def scalar(*args: float) -> float:
        (x,) = args
        return x * ClipOp.scalar(x / 6 + 0.5, 0.0, 1.0)


@irdl_op_definition
class SoftplusOp(UnaryOp):
    """log(1 + exp(x))."""

    name = "nn.softplus"
    EXACT: ClassVar[bool] = False

    @staticmethod
    def scalar(*args: float) -> float:
        (x,) = args
        return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@irdl_op_definition
class GeluOp(UnaryOp):
    """x times the normal distribution function of x, exact or by the usual approximation with tanh."""

    name = "nn.gelu"
    EXACT: ClassVar[bool] = False

    approximate = word(("none", "tanh"))

    @staticmethod
    def scalar(*args: float) -> float:
        (x,) = args
        return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))

    def apply(self, args: Sequence[float]) -> float:
        if self.approximate == "none":
            return self.scalar(*args)
        (x,) = args
        return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@irdl_op_definition
class ClipOp(UnaryOp):
    """min(max(x, min), max)."""

    name = "nn.clip"
    ALLOWED: ClassVar[tuple[str, ...]] = NUMBERS

    min = number(default=-math.inf)
    max = number(default=math.inf)

    @staticmethod
    def scalar(*args: float) -> float:
        x, low, high = args
        if math.isnan(x):
            return x
        return high if high < low or x > high else low if x < low else x
