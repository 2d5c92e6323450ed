"""Floats of 8 bits and of 4 to f32 and back, as `layout_ir.elements.narrow_floats` defines them in NumPy.

All of them are one scheme: sign, exponent, fraction, where the bits without the sign are in the order of the numbers.
So an f32 is rounded where its fraction is cut, the exponent moved by a subtraction, and what is too large bounded as an
integer. Only a subnormal is rounded elsewhere: a sum with a number whose last place is that of the subnormals does it.
"""

from __future__ import annotations

from layout_ir.backends.llvm.emission.kernels.lanes import Lanes, has_halves, literal
from layout_ir.elements.element_types import ElementType, element_type

_QUIET_NAN, _INFINITY = 0x7FC00000, 0x7F800000


def single_of_narrow(lanes: Lanes, value: str, src: str) -> str:
    """Elements of `src`, as integers of 8 bits, as f32; exact."""
    b, element = lanes.b, element_type(src)
    word, single = lanes.vector("i32"), lanes.vector("float")
    ieee = element.nonfinite == "ieee"
    # As an f16 with an exponent of its own bias, which must not be that of infinity.
    if has_halves(lanes.machine) and (ieee or _exponent_bits(element) < 5):
        number = _as_half(lanes, value, element)
        if ieee:
            return number
        bits = b.put(f"bitcast {single} {number} to {word}")
    else:
        wide = b.put(f"zext {lanes.vector('i8')} {value} to {word}")
        shift = 23 - element.mantissa
        magnitude = lanes.bits("shl", lanes.bits("and", wide, (1 << element.bits - 1) - 1), shift)
        sign = lanes.bits("shl", lanes.bits("and", wide, 1 << element.bits - 1), 32 - element.bits)
        number = b.put(f"bitcast {word} {magnitude} to {single}")
        number = b.put(f"fmul {single} {number}, {_power(lanes, 127 - element.bias)}")
        bits = b.put(f"bitcast {single} {number} to {word}")
        if ieee:
            infinity = element.largest_code + 1 << shift
            nan = lanes.bits("or", magnitude, _QUIET_NAN)
            special = lanes.choose(
                lanes.compare("ugt", magnitude, infinity), "i32", nan, lanes.splat("i32", _INFINITY)
            )
            bits = lanes.choose(lanes.compare("uge", magnitude, infinity), "i32", special, bits)
        bits = b.put(f"or {word} {bits}, {sign}")
    if element.nonfinite == "nan":
        magnitude = lanes.bits("and", value, 127, "i8")
        nan = lanes.compare("eq", magnitude, 127, "i8")
        bits = lanes.choose(nan, "i32", lanes.bits("or", bits, _QUIET_NAN), bits)
    elif element.nonfinite == "negative zero":
        nan = lanes.compare("eq", value, -128, "i8")
        bits = lanes.choose(nan, "i32", lanes.splat("i32", _QUIET_NAN), bits)
    return b.put(f"bitcast {word} {bits} to {single}")


def _exponent_bits(element: ElementType) -> int:
    return element.bits - 1 - element.mantissa


def _as_half(lanes: Lanes, value: str, element: ElementType) -> str:
    """Elements as f32 by way of f16."""
    b, short, single = lanes.b, lanes.vector("i16"), lanes.vector("float")
    wide = b.put(f"zext {lanes.vector('i8')} {value} to {short}")
    magnitude = lanes.bits("and", wide, (1 << element.bits - 1) - 1, "i16")
    magnitude = lanes.bits("shl", magnitude, 10 - element.mantissa, "i16")
    sign = lanes.bits("and", wide, 1 << element.bits - 1, "i16")
    sign = lanes.bits("shl", sign, 16 - element.bits, "i16")
    bits = b.put(f"or {short} {magnitude}, {sign}")
    half = b.put(f"bitcast {short} {bits} to {lanes.vector('half')}")
    number = b.put(f"fpext {lanes.vector('half')} {half} to {single}")
    if element.bias == 15:
        return number
    return b.put(f"fmul {single} {number}, {_power(lanes, 15 - element.bias)}")


def half_of_narrow(lanes: Lanes, value: str) -> str:
    """f8E5M2 as f16, both as integers. The bits are the same, but for a signalling NaN, which is made quiet: where no
    arithmetic is in between, LLVM leaves out the conversions to f32 and back, which would do it."""
    short = lanes.vector("i16")
    bits = lanes.bits("shl", lanes.b.put(f"zext {lanes.vector('i8')} {value} to {short}"), 8, "i16")
    nan = lanes.compare("ugt", lanes.bits("and", bits, 0x7FFF, "i16"), 0x7C00, "i16")
    return lanes.choose(nan, "i16", lanes.bits("or", bits, 0x200, "i16"), bits)


def _power(lanes: Lanes, exponent: int) -> str:
    return lanes.splat("float", literal(2.0**exponent, "f32"))


def narrow_of_single(lanes: Lanes, y: str, dst: str, *, saturate: bool) -> str:
    """f32 as elements of `dst`, integers of 8 bits: to nearest, ties to even.

    What is too large becomes the greatest number with `saturate`, else `overflow_code`.
    """
    b, element = lanes.b, element_type(dst)
    word, single = lanes.vector("i32"), lanes.vector("float")
    cut = 23 - element.mantissa
    bits = b.put(f"bitcast {single} {y} to {word}")
    magnitude = lanes.bits("and", bits, 0x7FFFFFFF)
    odd = lanes.bits("and", lanes.bits("lshr", magnitude, cut), 1)
    rounded = lanes.bits("add", magnitude, (1 << cut - 1) - 1 - (127 - element.bias << 23))
    normal = lanes.bits("lshr", b.put(f"add {word} {rounded}, {odd}"), cut)
    number = b.put(f"bitcast {word} {magnitude} to {single}")
    last_place = 1 - element.bias - element.mantissa
    sum_ = b.put(f"fadd {single} {number}, {_power(lanes, last_place + 23)}")
    small = lanes.bits("sub", b.put(f"bitcast {single} {sum_} to {word}"), last_place + 23 + 127 << 23)
    code = lanes.choose(lanes.compare("ult", magnitude, 128 - element.bias << 23), "i32", small, normal)
    beyond = element.largest_code if saturate else element.overflow_code
    assert beyond - element.largest_code in (0, 1)  # so that a bound is all it takes
    name = f"llvm.umin.v{lanes.size}i32"
    code = b.put(f"call {word} @{name}({word} {code}, {word} {lanes.splat('i32', beyond)})")
    nan = element.largest_code if element.nan_code is None else element.nan_code
    code = lanes.choose(lanes.compare("ugt", magnitude, _INFINITY), "i32", lanes.splat("i32", nan), code)
    top = 1 << element.bits - 1
    sign = lanes.bits("and", lanes.bits("lshr", bits, 32 - element.bits), top)
    if element.nonfinite == "negative zero":
        unsigned = lanes.compare("eq", lanes.bits("and", code, top - 1), 0)
        sign = lanes.choose(unsigned, "i32", lanes.splat("i32", 0), sign)
    return b.put(f"trunc {word} {b.put(f'or {word} {code}, {sign}')} to {lanes.vector('i8')}")
