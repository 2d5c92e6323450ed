"""Elementwise ops on arrays of the type they are computed in. Operands broadcast; attributes follow by position."""

from __future__ import annotations

import math

import numpy as np

from layout_ir.backends.reference.elements import Array


def relu(x: Array) -> Array:
    return np.maximum(x, x.dtype.type(0))


def leaky_relu(x: Array, alpha: float) -> Array:
    return np.where(x < 0, x * alpha, x)


def elu(x: Array, alpha: float) -> Array:
    return np.where(x < 0, alpha * np.expm1(x), x)


def sigmoid(x: Array) -> Array:
    # The exponent is never positive, so nothing overflows.
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return np.clip(alpha * x + beta, 0, 1)


def hard_swish(x: Array) -> Array:
    return x * np.clip(x / 6 + 0.5, 0, 1)


def softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def erf(x: Array) -> Array:
    # NumPy has none. One call per element is slow (some 10 million per second) and exact.
    flat = map(math.erf, np.ravel(x).tolist())
    return np.fromiter(flat, np.float64, x.size).astype(x.dtype).reshape(x.shape)


def gelu(x: Array, approximate: str) -> Array:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


def clip(x: Array, low: float, high: float) -> Array:
    if x.dtype.kind == "f":
        return np.minimum(np.maximum(x, low), high)
    info = np.iinfo(x.dtype)
    # A bound outside the type never applies; as in the definition, the upper one wins.
    least, most = (int(min(max(bound, float(info.min)), float(info.max))) for bound in (low, high))
    least, most = (min(max(bound, info.min), info.max) for bound in (least, most))
    return np.minimum(np.maximum(x, x.dtype.type(least)), x.dtype.type(most))


def reciprocal(x: Array) -> Array:
    return 1 / x


def div(lhs: Array, rhs: Array) -> Array:
    """Of integers, the quotient cut off towards zero; by zero it is 0."""
    if lhs.dtype.kind == "f":
        return lhs / rhs
    quotient = lhs // rhs
    inexact = (quotient * rhs != lhs) & (rhs != 0)
    return quotient + (inexact & ((lhs < 0) != (rhs < 0))).astype(lhs.dtype)


def pow(lhs: Array, rhs: Array) -> Array:
    """Of integers, with wrap-around; to a negative power it is 1 / lhs^|rhs| cut off, which is 0 but for 1 and -1."""
    if lhs.dtype.kind == "f":
        return np.power(lhs, rhs)
    lhs, rhs = np.broadcast_arrays(lhs, rhs)
    exponent = np.where(rhs < 0, rhs & 1, rhs)
    power = np.power(lhs, exponent.astype(lhs.dtype))
    return np.where((rhs < 0) & (lhs != 1) & (lhs != -1), lhs.dtype.type(0), power)
