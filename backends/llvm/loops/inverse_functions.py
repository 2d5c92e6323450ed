"""Tangent, inverse trigonometric and hyperbolic functions of vectors of f32, computed in f64 and rounded once.

They are rare in networks, so each is the plain formula in the wider type, whose rounding errors are far below what f32
shows; where a formula would lose them all, near 0, the first terms of the series stand. Within 1e-7 of the value, in
relative error, over all floats whose result is normal; exceptional arguments give what NumPy gives.
"""

from __future__ import annotations

import math

from layout_ir.backends.llvm.loops.float_functions import FloatFunctions

_ARCTAN = tuple((-1) ** k / (2 * k + 1) for k in range(24))
"""atan(t) / t of t^2: for |t| of at most 1/2 the first term that is left out is below 2^-50."""

_SMALL = 1e-3
"""Below, x and its third power are all that f32 sees of an odd function: the fifth is below 2^-39 of the result."""


def tan(lanes: FloatFunctions, x: str) -> str:
    """The tangent of x radians."""
    sine, cosine, odd = lanes.turned(x)
    number = lanes.pick(odd, lanes.minus(cosine, "f64"), sine, "f64")
    number = lanes.binary("fdiv", number, lanes.pick(odd, sine, cosine, "f64"), "f64")
    sign = lanes.bits("and", lanes.as_bits(x), -(1 << 31))
    bits = lanes.as_bits(lanes.as_single(number))
    y = lanes.of_bits(lanes.b.put(f"xor {lanes.vector('i32')} {bits}, {sign}"))
    return lanes.pick(lanes.flags("olt", lanes.unary("fabs", x), math.inf), y, math.nan)


def arctan(lanes: FloatFunctions, x: str) -> str:
    """The angle whose tangent is x, in radians."""
    return lanes.as_single(_arctan(lanes, lanes.as_double(x)))


def arcsin(lanes: FloatFunctions, x: str) -> str:
    """The angle whose sine is x; NaN beyond 1."""
    wide = lanes.as_double(x)
    root = lanes.unary("sqrt", _one_minus_square(lanes, wide), "f64")
    return lanes.as_single(_arctan(lanes, lanes.binary("fdiv", wide, root, "f64")))


def arccos(lanes: FloatFunctions, x: str) -> str:
    """The angle whose cosine is x: twice the one whose tangent is the root of (1 - x) / (1 + x); NaN beyond 1."""
    wide = lanes.as_double(x)
    one = lanes.constant(1.0, "f64")
    quotient = lanes.binary(
        "fdiv", lanes.binary("fsub", one, wide, "f64"), lanes.binary("fadd", wide, 1.0, "f64"), "f64"
    )
    half = _arctan(lanes, lanes.unary("sqrt", quotient, "f64"))
    return lanes.as_single(lanes.binary("fadd", half, half, "f64"))


def sinh(lanes: FloatFunctions, x: str) -> str:
    """The hyperbolic sine."""
    wide = lanes.as_double(x)
    up, down = _exponentials(lanes, wide)
    y = lanes.binary("fmul", lanes.binary("fsub", up, down, "f64"), 0.5, "f64")
    return _odd(lanes, x, wide, y, 1 / 6)


def cosh(lanes: FloatFunctions, x: str) -> str:
    """The hyperbolic cosine."""
    up, down = _exponentials(lanes, lanes.as_double(x))
    return lanes.as_single(lanes.binary("fmul", lanes.binary("fadd", up, down, "f64"), 0.5, "f64"))


def arcsinh(lanes: FloatFunctions, x: str) -> str:
    """The number whose hyperbolic sine is x."""
    size = lanes.unary("fabs", lanes.as_double(x), "f64")
    root = lanes.unary("sqrt", lanes.fma(size, size, 1.0, "f64"), "f64")
    return _odd(lanes, x, lanes.as_double(x), _log(lanes, lanes.binary("fadd", size, root, "f64")), -1 / 6)


def arccosh(lanes: FloatFunctions, x: str) -> str:
    """The number of at least 0 whose hyperbolic cosine is x; NaN below 1."""
    wide = lanes.as_double(x)
    squares = lanes.binary(
        "fmul", lanes.binary("fsub", wide, 1.0, "f64"), lanes.binary("fadd", wide, 1.0, "f64"), "f64"
    )
    y = _log(lanes, lanes.binary("fadd", wide, lanes.unary("sqrt", squares, "f64"), "f64"))
    return lanes.pick(lanes.flags("oge", x, 1.0), lanes.as_single(y), math.nan)


def arctanh(lanes: FloatFunctions, x: str) -> str:
    """The number whose hyperbolic tangent is x; infinite at 1, NaN beyond."""
    size = lanes.unary("fabs", lanes.as_double(x), "f64")
    one = lanes.constant(1.0, "f64")
    quotient = lanes.binary(
        "fdiv", lanes.binary("fadd", size, 1.0, "f64"), lanes.binary("fsub", one, size, "f64"), "f64"
    )
    y = lanes.binary("fmul", _log(lanes, quotient), 0.5, "f64")
    y = _odd(lanes, x, lanes.as_double(x), y, 1 / 3)
    return lanes.pick(lanes.flags("ole", lanes.unary("fabs", x), 1.0), y, math.nan)


def _arctan(lanes: FloatFunctions, x: str) -> str:
    """The arc tangent of f64: atan(x) = pi/2 - atan(1/x) beyond 1, and atan(1/2) + atan((x - 1/2) / (1 + x/2)) beyond
    1/2."""
    size = lanes.unary("fabs", x, "f64")
    large = lanes.flags("ogt", size, 1.0, "f64")
    small = lanes.pick(large, lanes.binary("fdiv", lanes.constant(1.0, "f64"), size, "f64"), size, "f64")
    middle = lanes.flags("ogt", small, 0.5, "f64")
    moved = lanes.binary(
        "fdiv", lanes.binary("fsub", small, 0.5, "f64"), lanes.fma(small, 0.5, 1.0, "f64"), "f64"
    )
    t = lanes.pick(middle, moved, small, "f64")
    y = lanes.binary("fmul", t, lanes.polynomial(lanes.binary("fmul", t, t, "f64"), _ARCTAN, "f64"), "f64")
    y = lanes.pick(middle, lanes.binary("fadd", y, math.atan(0.5), "f64"), y, "f64")
    y = lanes.pick(large, lanes.binary("fsub", lanes.constant(math.pi / 2, "f64"), y, "f64"), y, "f64")
    return lanes.with_sign_of(y, x, "f64")


def _one_minus_square(lanes: FloatFunctions, x: str) -> str:
    one = lanes.constant(1.0, "f64")
    return lanes.binary(
        "fmul", lanes.binary("fsub", one, x, "f64"), lanes.binary("fadd", x, 1.0, "f64"), "f64"
    )


def _exponentials(lanes: FloatFunctions, x: str) -> tuple[str, str]:
    """e^x and e^-x."""
    t = lanes.binary("fmul", x, 1 / math.log(2), "f64")
    return lanes.exp2(t), lanes.exp2(lanes.minus(t, "f64"))


def _log(lanes: FloatFunctions, x: str) -> str:
    """The natural logarithm of f64 from 1 to infinity."""
    return lanes.binary("fmul", lanes.log2(x), math.log(2), "f64")


def _odd(lanes: FloatFunctions, x: str, wide: str, y: str, third: float) -> str:
    """An odd function whose magnitude is that of `y`, and near 0 the sum of x and `third` of its third power."""
    size = lanes.unary("fabs", wide, "f64")
    cube = lanes.binary("fmul", lanes.binary("fmul", wide, wide, "f64"), wide, "f64")
    near = lanes.fma(cube, third, wide, "f64")
    single = lanes.as_single(lanes.pick(lanes.flags("olt", size, _SMALL, "f64"), near, y, "f64"))
    return lanes.pick(lanes.flags("uno", x, x), x, lanes.with_sign_of(single, x))
