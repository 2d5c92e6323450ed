"""exp, log, sin and their like on vectors of f64, by the C library, lane by lane: what NumPy gives, to the last bits.

Code generators make calls of the C library of the intrinsics. For what has none there are formulas in which the
rounding of 1 + x or exp(x) cancels (W. Kahan, HP-15C Advanced Functions Handbook, 1982): they are off by a few places
of the last bit.
"""

from __future__ import annotations

import math

from layout_ir.backends.llvm.loops.float_functions import FloatFunctions

_F64 = "f64"


def exp(lanes: FloatFunctions, x: str) -> str:
    """The exponential function."""
    return lanes.unary("exp", x, _F64)


def log(lanes: FloatFunctions, x: str) -> str:
    """The natural logarithm."""
    return lanes.unary("log", x, _F64)


def sin(lanes: FloatFunctions, x: str) -> str:
    """The sine of radians."""
    return lanes.unary("sin", x, _F64)


def cos(lanes: FloatFunctions, x: str) -> str:
    """The cosine of radians."""
    return lanes.unary("cos", x, _F64)


def tan(lanes: FloatFunctions, x: str) -> str:
    """The tangent of radians."""
    return lanes.binary("fdiv", sin(lanes, x), cos(lanes, x), _F64)


def pow(lanes: FloatFunctions, x: str, y: str) -> str:
    """x to the power of y."""
    vector = lanes.vector("double")
    return lanes.b.put(f"call {vector} @llvm.pow.v{lanes.size}f64({vector} {x}, {vector} {y})")


def expm1(lanes: FloatFunctions, x: str) -> str:
    """exp(x) - 1."""
    power = exp(lanes, x)
    less = lanes.binary("fsub", power, 1.0, _F64)
    ratio = lanes.binary("fdiv", x, log(lanes, power), _F64)
    result = lanes.binary("fmul", less, ratio, _F64)
    # Where exp(x) is 1, 0 or infinite, its logarithm says nothing.
    result = lanes.pick(lanes.flags("oeq", less, -1.0, _F64), -1.0, result, _F64)
    result = lanes.pick(lanes.flags("oeq", power, math.inf, _F64), math.inf, result, _F64)
    return lanes.pick(lanes.flags("oeq", less, 0.0, _F64), x, result, _F64)


def log1p(lanes: FloatFunctions, x: str) -> str:
    """log(1 + x)."""
    more = lanes.binary("fadd", x, 1.0, _F64)
    added = lanes.binary("fsub", more, 1.0, _F64)
    ratio = lanes.binary("fdiv", x, added, _F64)
    result = lanes.binary("fmul", log(lanes, more), ratio, _F64)
    result = lanes.pick(lanes.flags("oeq", x, math.inf, _F64), math.inf, result, _F64)
    return lanes.pick(lanes.flags("oeq", added, 0.0, _F64), x, result, _F64)


def tanh(lanes: FloatFunctions, x: str) -> str:
    """The hyperbolic tangent: t / (t + 2) of t = exp(2 |x|) - 1, which is 1 from 20 on."""
    size = lanes.at_most(lanes.unary("fabs", x, _F64), 20.0, _F64)
    t = expm1(lanes, lanes.binary("fmul", size, 2.0, _F64))
    result = lanes.binary("fdiv", t, lanes.binary("fadd", t, 2.0, _F64), _F64)
    return lanes.with_sign_of(result, x, _F64)
