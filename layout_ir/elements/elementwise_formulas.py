"""What computes elementwise ops: functions of arrays, which the ops of programs and the folding of constants share.

A function takes NumPy itself, `np`, which tools that compute nothing do not import, or what stands for it; then the
operands as arrays, then the attributes of the op in order (`dialects/nn/elementwise_op` says of which types). Operands
broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from layout_ir.errors import LayoutError, shape_text

Shape = tuple[int, ...]

Compute = Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any] | Callable[[Any, Any, Any, Any], Any]
"""NumPy, then up to three operands and attributes."""


def broadcast(*shapes: Shape) -> Shape:
    """The shape to which all `shapes` broadcast, as in NumPy; () for none.

    Raises LayoutError where two extents of one dim differ and neither is 1.
    """
    result: Shape = ()
    for shape in shapes:
        rank = max(len(result), len(shape))
        a, b = ((1,) * (rank - len(side)) + side for side in (result, shape))
        for dim, (x, y) in enumerate(zip(a, b, strict=True)):
            if x != y and 1 not in (x, y):
                raise LayoutError(
                    f"shapes {shape_text(result)} and {shape_text(shape)} do not broadcast: {x} != {y} in dim {dim}"
                )
        result = tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))
    return result


def erf(np: Any, x: Any) -> Any:
    """The error function of an array or NumPy scalar, of the type of x; NumPy has none, but what stands for it may.

    One call of the C library per element is slow (some 10 million per second) and rounds once.
    """
    if hasattr(np, "erf"):
        return np.erf(x)
    flat = map(math.erf, np.ravel(x).tolist())
    return np.fromiter(flat, np.float64, x.size).astype(x.dtype).reshape(x.shape)


def _clip(np: Any, x: Any, low: float, high: float) -> Any:
    if x.dtype.kind not in "iu":
        return np.minimum(np.maximum(x, low), high)
    info = np.iinfo(x.dtype)
    # A bound outside the type never applies; as in the definition, the upper one wins.
    least, most = (int(min(max(bound, float(info.min)), float(info.max))) for bound in (low, high))
    least, most = (min(max(bound, info.min), info.max) for bound in (least, most))
    return np.minimum(np.maximum(x, x.dtype.type(least)), x.dtype.type(most))


def _sigmoid(np: Any, x: Any) -> Any:
    # The exponent is never positive, so nothing overflows.
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def _softplus(np: Any, x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _gelu(np: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(np, x * math.sqrt(0.5)))


def divide(np: Any, lhs: Any, rhs: Any) -> Any:
    """lhs / rhs of arrays or NumPy scalars; of integers, cut off towards zero as C and MLIR do.

    By 0 an integer quotient is 0, and ZeroDivisionError where Python's integers are divided (dtype object).
    """
    if lhs.dtype.kind not in "iuO":
        return lhs / rhs
    quotient = lhs // rhs
    inexact = (quotient * rhs != lhs) & (rhs != 0)
    return quotient + (inexact & ((lhs < 0) != (rhs < 0))).astype(lhs.dtype)


def _pow(np: Any, lhs: Any, rhs: Any) -> Any:
    if lhs.dtype.kind not in "iu":
        return np.power(lhs, rhs)
    # To a negative power it is 1 / lhs^|rhs| cut off, which is 0 but for 1 and -1.
    lhs, rhs = np.broadcast_arrays(lhs, rhs)
    exponent = np.where(rhs < 0, rhs & 1, rhs)
    power = np.power(lhs, exponent.astype(lhs.dtype))
    return np.where((rhs < 0) & (lhs != 1) & (lhs != -1), lhs.dtype.type(0), power)


COMPUTE: Mapping[str, Compute] = {
    "neg": lambda np, x: -x,
    "abs": lambda np, x: np.abs(x),
    "sign": lambda np, x: np.sign(x),
    "round": lambda np, x: np.rint(x),
    "not": lambda np, x: x == 0,
    "reciprocal": lambda np, x: 1 / x,
    "floor": lambda np, x: np.floor(x),
    "ceil": lambda np, x: np.ceil(x),
    "sqrt": lambda np, x: np.sqrt(x),
    "exp": lambda np, x: np.exp(x),
    "log": lambda np, x: np.log(x),
    "sin": lambda np, x: np.sin(x),
    "cos": lambda np, x: np.cos(x),
    "tanh": lambda np, x: np.tanh(x),
    "erf": erf,
    "clip": _clip,
    "relu": lambda np, x: np.maximum(x, x.dtype.type(0)),
    "leaky_relu": lambda np, x, alpha: np.where(x < 0, x * alpha, x),
    "elu": lambda np, x, alpha: np.where(x < 0, alpha * np.expm1(x), x),
    "celu": lambda np, x, alpha: np.where(x < 0, alpha * np.expm1(x / alpha), x),
    "selu": lambda np, x, alpha, gamma: gamma * np.where(x <= 0, alpha * np.expm1(x), x),
    "thresholded_relu": lambda np, x, alpha: np.where(x > alpha, x, x.dtype.type(0)),
    "softsign": lambda np, x: x / (1 + np.abs(x)),
    "sigmoid": _sigmoid,
    "swish": lambda np, x, alpha: x * _sigmoid(np, alpha * x),
    "hard_sigmoid": lambda np, x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "hard_swish": lambda np, x: x * np.clip(x / 6 + 0.5, 0, 1),
    "softplus": _softplus,
    "mish": lambda np, x: x * np.tanh(_softplus(np, x)),
    "gelu": _gelu,
    "add": lambda np, lhs, rhs: lhs + rhs,
    "sub": lambda np, lhs, rhs: lhs - rhs,
    "mul": lambda np, lhs, rhs: lhs * rhs,
    "div": divide,
    "pow": _pow,
    "prelu": lambda np, lhs, rhs: np.where(lhs < 0, lhs * rhs, lhs),
    "min": lambda np, lhs, rhs: np.minimum(lhs, rhs),
    "max": lambda np, lhs, rhs: np.maximum(lhs, rhs),
    "equal": lambda np, lhs, rhs: lhs == rhs,
    "greater": lambda np, lhs, rhs: lhs > rhs,
    "greater_or_equal": lambda np, lhs, rhs: lhs >= rhs,
    "less": lambda np, lhs, rhs: lhs < rhs,
    "less_or_equal": lambda np, lhs, rhs: lhs <= rhs,
    "and": lambda np, lhs, rhs: lhs & rhs,
    "or": lambda np, lhs, rhs: lhs | rhs,
    "xor": lambda np, lhs, rhs: lhs != rhs,
    "where": lambda np, condition, lhs, rhs: np.where(condition, lhs, rhs),
}
"""By the name of the op in programs without `nn.`, what computes it."""
