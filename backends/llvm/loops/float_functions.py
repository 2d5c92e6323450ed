"""exp, log, tanh, erf and their like on vectors of f32, without a call of the C library per lane.

Each is a reduction of the argument and a polynomial that was fitted to the function with the relative error as weight.
What is lost is stated with each, in relative error over all finite floats whose result is normal, as the tests measure
it. A result that is subnormal is off by one place of the last bit at most. Infinities, zeros and NaN give what NumPy
gives.

sin, cos and pow are computed in f64: their arguments lose more bits than f32 has left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from layout_ir.backends.llvm.emission.kernels.conversion_arithmetic import Arithmetic
from layout_ir.backends.llvm.emission.kernels.lanes import literal

_ROUNDER = {"f32": 1.5 * 2**23, "f64": 1.5 * 2**52}
"""What makes an integer of a small number when it is added: its low bits are the integer, and less it the float."""

_ROUNDER_BITS = {"f32": 0x4B400000, "f64": 0x4338000000000000}

_ROOT_BITS = 0x3FE6A09E667F3BCD
"""The bits of the root of 1/2 as f64."""

_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.42860677e-06
"""ln 2 in two parts, of which the first times any exponent is exact."""

_LOG2E = 1 / math.log(2)
_WIDTH = {"f32": 32, "f64": 64}
FLOAT_TYPES = {"f32": "float", "f64": "double"}
"""The types of LLVM IR of floats that are computed in."""

_EXP = (0.5, 0.166665137, 0.0416664146, 0.00836952683, 0.00139396288)
"""(exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2."""

_LOG = (
    0.333333313,
    -0.250008196,
    0.200012401,
    -0.166234076,
    0.142016277,
    -0.131596833,
    0.127618611,
    -0.0763575062,
)
"""(log(1 + f) - f + f^2 / 2) / f^3 for 1 + f from the root of 1/2 to that of 2."""

_TANH = (-0.333332837, 0.133314848, -0.0537430048, 0.0206491034, -0.00571549917)
"""(tanh(x) / x - 1) / x^2 of x^2, for |x| < 0.625."""

_ERF = (0.128379151, -0.376124978, 0.112818271, -0.0267662313, 0.00499176187, -0.000598021375)
"""erf(x) / x - 1 of x^2, for |x| < 0.92."""

_ERFC = (0.000166413112, 1.12779737, 0.636975944, 0.104113705, -0.0223151594, 0.00306545431, -0.000198213005)
"""-log(1 - erf(x)) for x from 0.92 to 4."""


class FloatFunctions(Arithmetic):
    """Emits functions of floats. `number` is f32 or f64, the type of the lanes."""

    # Arithmetic -------------------------------------------------------------------------------------------------

    def constant(self, value: float, number: str = "f32") -> str:
        """`value` in every lane, written without its type."""
        return self.splat(FLOAT_TYPES[number], literal(value, number))

    def binary(self, verb: str, x: str, y: str | float, number: str = "f32") -> str:
        """The instruction `verb` (fadd, fmul, ...) of two vectors, or a vector and a number."""
        right = y if isinstance(y, str) else self.constant(y, number)
        return self.b.put(f"{verb} {self.vector(FLOAT_TYPES[number])} {x}, {right}")

    def fma(self, x: str, y: str | float, z: str | float, number: str = "f32") -> str:
        """x * y + z, in one rounding where the machine has that instruction."""
        vector = self.vector(FLOAT_TYPES[number])
        y, z = (v if isinstance(v, str) else self.constant(v, number) for v in (y, z))
        name = f"llvm.fmuladd.v{self.size}{number}"
        return self.b.put(f"call {vector} @{name}({vector} {x}, {vector} {y}, {vector} {z})")

    def polynomial(self, x: str, coefficients: Sequence[float], number: str = "f32") -> str:
        """The sum of coefficients[k] * x^k."""
        result: str | float = coefficients[-1]
        for c in reversed(coefficients[:-1]):
            result = self.fma(x, result, c, number)
        assert isinstance(result, str)
        return result

    def unary(self, name: str, x: str, number: str = "f32") -> str:
        """The intrinsic `llvm.name` of a vector: one that is an instruction, or a few."""
        vector = self.vector(FLOAT_TYPES[number])
        return self.b.put(f"call {vector} @llvm.{name}.v{self.size}{number}({vector} {x})")

    def flags(self, relation: str, x: str, y: str | float, number: str = "f32") -> str:
        """How every lane compares: a vector of i1."""
        right = y if isinstance(y, str) else self.constant(y, number)
        return self.b.put(f"fcmp {relation} {self.vector(FLOAT_TYPES[number])} {x}, {right}")

    def pick(self, flags: str, yes: str | float, no: str | float, number: str = "f32") -> str:
        """Lanes of `yes` where the flag is set, else of `no`."""
        yes, no = (v if isinstance(v, str) else self.constant(v, number) for v in (yes, no))
        return self.choose(flags, FLOAT_TYPES[number], yes, no)

    def at_most(self, x: str, bound: float, number: str = "f32") -> str:
        """The smaller one of x and a number; NaN stays."""
        return self.pick(self.flags("ogt", x, bound, number), bound, x, number)

    def at_least(self, x: str, bound: float, number: str = "f32") -> str:
        """The larger one of x and a number; NaN stays."""
        return self.pick(self.flags("olt", x, bound, number), bound, x, number)

    def with_sign_of(self, size: str, sign: str, number: str = "f32") -> str:
        """The magnitude of one number with the sign of another."""
        vector = self.vector(FLOAT_TYPES[number])
        return self.b.put(
            f"call {vector} @llvm.copysign.v{self.size}{number}({vector} {size}, {vector} {sign})"
        )

    def as_bits(self, x: str, number: str = "f32") -> str:
        """The bits of a float as integers."""
        to = self.vector(f"i{_WIDTH[number]}")
        return self.b.put(f"bitcast {self.vector(FLOAT_TYPES[number])} {x} to {to}")

    def of_bits(self, x: str, number: str = "f32") -> str:
        """The floats with these bits."""
        from_ = self.vector(f"i{_WIDTH[number]}")
        return self.b.put(f"bitcast {from_} {x} to {self.vector(FLOAT_TYPES[number])}")

    def _nearest(self, x: str, factor: float, number: str = "f32") -> tuple[str, str]:
        """x * factor rounded to an integer: as a float, and as the low bits of an integer."""
        magic = _ROUNDER[number]
        shifted = self.fma(x, factor, magic, number)
        return self.binary("fsub", shifted, magic, number), self.as_bits(shifted, number)

    def _power_of_two(self, bits: str, number: str = "f32") -> str:
        """2^n, of integers n that are the exponent of a normal number."""
        bias, mantissa = (127, 23) if number == "f32" else (1023, 52)
        element = f"i{_WIDTH[number]}"
        return self.of_bits(
            self.bits("shl", self.bits("add", bits, bias, element), mantissa, element), number
        )

    # Exponentials -----------------------------------------------------------------------------------------------

    def _exp_parts(self, x: str) -> tuple[str, str]:
        """For x = n ln(2) + r, exp(r) - 1, and n as the low bits of an integer."""
        n, bits = self._nearest(x, _LOG2E)
        r = self.fma(n, -_LN2_HIGH, x)
        r = self.fma(n, -_LN2_LOW, r)
        p = self.polynomial(r, _EXP)
        return self.fma(self.binary("fmul", r, r), p, r), bits

    def exp(self, x: str) -> str:
        """e^x, within 1e-7."""
        x = self.at_least(self.at_most(x, 89.0), -104.0)
        p, bits = self._exp_parts(x)
        # In two factors, since 2^128 is no float, and what lies below 2^-126 is to be rounded once.
        half = self.bits("ashr", bits, 1)
        rest = self.b.put(f"sub {self.vector('i32')} {bits}, {half}")
        return self._times_power(self._times_power(self.binary("fadd", p, 1.0), half), rest)

    def _exp_of_small(self, x: str) -> str:
        """e^x where both it and its parts are normal numbers: |x| < 87."""
        p, bits = self._exp_parts(x)
        return self._times_power(self.binary("fadd", p, 1.0), bits)

    def _times_power(self, y: str, bits: str) -> str:
        """y * 2^n, n the exponent of a normal number; what made an integer of it is shifted out of its bits."""
        return self.binary("fmul", y, self.of_bits(self.bits("add", self.bits("shl", bits, 23), 127 << 23)))

    def expm1(self, x: str) -> str:
        """e^x - 1, within 2e-7."""
        bounded = self.at_least(self.at_most(x, 89.0), -20.0)
        p, bits = self._exp_parts(bounded)
        # Half of 2^n: 2^128 is no float.
        scale = self._power_of_two(self.bits("sub", bits, _ROUNDER_BITS["f32"] + 1))
        y = self.fma(scale, p, self.binary("fsub", scale, 0.5))
        y = self.binary("fadd", y, y)
        # So small that the polynomial would lose the sign of zero, or what is subnormal.
        tiny = self.flags("olt", self.unary("fabs", x), 1e-8)
        return self.pick(tiny, x, y)

    def tanh(self, x: str) -> str:
        """The hyperbolic tangent, within 1.5e-7."""
        size = self.unary("fabs", x)
        u = self.binary("fmul", x, x)
        small = self.fma(self.binary("fmul", size, u), self.polynomial(u, _TANH), size)
        bounded = self.at_most(size, 10.0)
        e = self._exp_of_small(self.binary("fadd", bounded, bounded))
        quotient = self.binary("fdiv", self.constant(2.0), self.binary("fadd", e, 1.0))
        large = self.binary("fsub", self.constant(1.0), quotient)
        return self.with_sign_of(self.pick(self.flags("olt", size, 0.625), small, large), x)

    def erf(self, x: str) -> str:
        """The error function, within 1.5e-7."""
        size = self.unary("fabs", x)
        u = self.binary("fmul", x, x)
        small = self.fma(size, self.polynomial(u, _ERF), size)
        bounded = self.at_most(size, 4.0)
        e = self._exp_of_small(self.minus(self.polynomial(bounded, _ERFC)))
        large = self.binary("fsub", self.constant(1.0), e)
        return self.with_sign_of(self.pick(self.flags("olt", size, 0.92), small, large), x)

    def minus(self, x: str, number: str = "f32") -> str:
        """-x."""
        return self.b.put(f"fneg {self.vector(FLOAT_TYPES[number])} {x}")

    # Logarithms -------------------------------------------------------------------------------------------------

    def _log_of_positive(self, x: str) -> str:
        """The logarithm of normal positive numbers."""
        word = self.vector("i32")
        bits = self.as_bits(x)
        # The bits above those of the root of 1/2 say the exponent; without it, the number lies between the two roots.
        above = self.bits("sub", bits, 0x3F3504F3)
        exponent = self.bits("ashr", above, 23)
        kept = self.bits("and", above, 0x7FFFFF)
        f = self.binary("fsub", self.of_bits(self.bits("add", kept, 0x3F3504F3)), 1.0)
        n = self.b.put(f"sitofp {word} {exponent} to {self.vector('float')}")
        square = self.binary("fmul", f, f)
        tail = self.binary("fmul", self.binary("fmul", square, f), self.polynomial(f, _LOG))
        tail = self.fma(n, _LN2_LOW, tail)
        tail = self.fma(square, -0.5, tail)
        return self.fma(n, _LN2_HIGH, self.binary("fadd", f, tail))

    def _at_edges_of_log(self, x: str, y: str) -> str:
        """`y`, but for 0, negative numbers, infinity and NaN the logarithm of x."""
        y = self.pick(self.flags("oeq", x, math.inf), math.inf, y)
        y = self.pick(self.flags("oeq", x, 0.0), -math.inf, y)
        return self.pick(self.flags("ult", x, 0.0), math.nan, y)

    def log(self, x: str) -> str:
        """The natural logarithm, within 1.5e-7."""
        low = self.flags("olt", x, 2.0**-126)
        scaled = self.pick(low, self.binary("fmul", x, 2.0**23), x)
        y = self._log_of_positive(scaled)
        y = self.binary("fadd", y, self.pick(low, -23 * math.log(2), 0.0))
        return self._at_edges_of_log(x, y)

    def log1p(self, x: str) -> str:
        """The natural logarithm of 1 + x, within 2e-7."""
        u = self.binary("fadd", x, 1.0)
        lost = self.binary("fsub", x, self.binary("fsub", u, 1.0))
        y = self.binary("fadd", self._log_of_positive(u), self.binary("fdiv", lost, u))
        y = self.pick(self.flags("oeq", u, 1.0), x, y)
        return self._at_edges_of_log(u, y)

    # By f64 -----------------------------------------------------------------------------------------------------

    def as_double(self, x: str) -> str:
        """f32 as f64."""
        return self.b.put(f"fpext {self.vector('float')} {x} to {self.vector('double')}")

    def as_single(self, x: str) -> str:
        """f64 as f32, to nearest even."""
        return self.b.put(f"fptrunc {self.vector('double')} {x} to {self.vector('float')}")

    def _turns(self, x: str) -> tuple[str, str]:
        """Quarters of a turn in x radians: the fraction that is left of the nearest whole number of them, in f64, and
        that number's low bits.

        x is a whole number of 24 bits times a power of two. That power, divided by a quarter of a turn and less whole
        turns, is a table: its upper half times the number is exact.
        """
        f64 = self.vector("double")
        size = self.unary("fabs", x)
        bits = self.as_bits(size)
        exponent = self.bits("lshr", bits, 23)
        normal = self.compare("ne", exponent, 0)
        mantissa = self.bits("and", bits, 0x7FFFFF)
        mantissa = self.choose(normal, "i32", self.bits("or", mantissa, 1 << 23), mantissa)
        m = self.b.put(f"uitofp {self.vector('i32')} {mantissa} to {f64}")
        wide = self.b.put(f"zext {self.vector('i32')} {exponent} to {self.vector('i64')}")
        parts: list[str] = []
        for values in zip(*map(_quarters, range(256)), strict=True):
            table = self.b.parameters(values, "double")
            parts.append(self.gathered("double", table, self.bits("shl", wide, 3, "i64"), 8))
        product = self.binary("fmul", m, parts[0], "f64")
        shifted = self.binary("fadd", product, _ROUNDER["f64"], "f64")
        whole = self.binary("fsub", shifted, _ROUNDER["f64"], "f64")
        left = self.fma(m, parts[1], self.binary("fsub", product, whole, "f64"), "f64")
        return left, self.as_bits(shifted, "f64")

    def gathered(self, element: str, base: str, offsets: str, align: int) -> str:
        """Elements so many bytes behind `base` each: `offsets` is a vector of i64."""
        pointers = self.vector("ptr")
        at = self.b.put(f"getelementptr i8, ptr {base}, {self.vector('i64')} {offsets}")
        vector, flags = self.vector(element), self.vector("i1")
        name = f"llvm.masked.gather.v{self.size}{_short(element)}.v{self.size}p0"
        return self.b.put(
            f"call {vector} @{name}({pointers} align {align} {at}, "
            f"{flags} splat (i1 true), {vector} zeroinitializer)"
        )

    def _quarter(self, x: str) -> tuple[str, str, str]:
        """Sine and cosine, in f64, of the fraction that is left of whole quarters of a turn, and the bits of these."""
        left, bits = self._turns(x)
        # Both by their series: below 2^-40 from the first term that is left out.
        angle = self.binary("fmul", left, math.pi / 2, "f64")
        u = self.binary("fmul", angle, angle, "f64")
        sine = self.binary("fmul", angle, self.polynomial(u, _series(1), "f64"), "f64")
        return sine, self.polynomial(u, _series(0), "f64"), bits

    def turned(self, x: str) -> tuple[str, str, str]:
        """Of |x| radians, finite: sine and cosine, in f64, of what is left of whole quarters of a turn, and whether the
        number of these is odd."""
        sine, cosine, bits = self._quarter(x)
        return sine, cosine, self.compare("ne", self.bits("and", bits, 1, "i64"), 0, "i64")

    def _sine_or_cosine(self, x: str, *, quarters: int) -> str:
        sine, cosine, bits = self._quarter(x)
        bits = self.bits("add", bits, quarters, "i64") if quarters else bits
        odd = self.compare("ne", self.bits("and", bits, 1, "i64"), 0, "i64")
        y = self.pick(odd, cosine, sine, "f64")
        turned = self.bits("shl", self.bits("and", bits, 2, "i64"), 62, "i64")
        y = self.as_single(
            self.of_bits(self.b.put(f"xor {self.vector('i64')} {self.as_bits(y, 'f64')}, {turned}"), "f64")
        )
        if not quarters:
            sign = self.bits("and", self.as_bits(x), -(1 << 31))
            y = self.of_bits(self.b.put(f"xor {self.vector('i32')} {self.as_bits(y)}, {sign}"))
        finite = self.flags("olt", self.unary("fabs", x), math.inf)
        return self.pick(finite, y, math.nan)

    def sin(self, x: str) -> str:
        """The sine of x radians, within 7e-8."""
        return self._sine_or_cosine(x, quarters=0)

    def cos(self, x: str) -> str:
        """The cosine of x radians, within 7e-8."""
        return self._sine_or_cosine(x, quarters=1)

    def log2(self, x: str) -> str:
        """The logarithm to base 2 of f64 that are not negative: infinite of 0 and infinity."""
        bits = self.as_bits(x, "f64")
        above = self.bits("sub", bits, _ROOT_BITS, "i64")
        exponent = self.bits("ashr", above, 52, "i64")
        kept = self.bits("and", above, (1 << 52) - 1, "i64")
        m = self.of_bits(self.bits("add", kept, _ROOT_BITS, "i64"), "f64")
        s = self.binary("fdiv", self.binary("fsub", m, 1.0, "f64"), self.binary("fadd", m, 1.0, "f64"), "f64")
        u = self.binary("fmul", s, s, "f64")
        # 2 atanh(s), |s| < 0.172: the first term that is left out is below 2^-50.
        odd = tuple(2 * _LOG2E / (2 * k + 1) for k in range(10))
        n = self.b.put(f"sitofp {self.vector('i64')} {exponent} to {self.vector('double')}")
        y = self.fma(s, self.polynomial(u, odd, "f64"), n, "f64")
        y = self.pick(self.flags("oeq", x, math.inf, "f64"), math.inf, y, "f64")
        return self.pick(self.flags("oeq", x, 0.0, "f64"), -math.inf, y, "f64")

    def exp2(self, t: str) -> str:
        """2^t of f64."""
        t = self.at_least(self.at_most(t, 200.0, "f64"), -200.0, "f64")
        n, bits = self._nearest(t, 1.0, "f64")
        r = self.binary("fsub", t, n, "f64")
        series = tuple(math.log(2) ** k / math.factorial(k) for k in range(12))
        scale = self._power_of_two(self.bits("sub", bits, _ROUNDER_BITS["f64"], "i64"), "f64")
        return self.binary("fmul", self.polynomial(r, series, "f64"), scale, "f64")

    def pow(self, x: str, y: str) -> str:
        """x to the power of y, within 7e-8; of exceptional arguments, what the C library gives."""
        vector = self.vector("float")
        size = self.unary("fabs", x)
        logarithm, exponent = self.log2(self.as_double(size)), self.as_double(y)
        t = self.binary("fmul", exponent, logarithm, "f64")
        # 0 times infinity: of 1 to any power, and anything to the power of 0, the result is 1.
        one = self.b.put(
            f"or {self.vector('i1')} {self.flags('oeq', size, 1.0)}, {self.flags('oeq', y, 0.0)}"
        )
        nan = self.flags("uno", x, y)
        t = self.pick(one, 0.0, t, "f64")
        result = self.as_single(self.exp2(t))
        is_one = self.b.put(
            f"or {self.vector('i1')} {self.flags('oeq', x, 1.0)}, {self.flags('oeq', y, 0.0)}"
        )
        result = self.pick(nan, math.nan, result)
        whole = self.b.put(f"fcmp oeq {vector} {self.unary('trunc', y)}, {y}")
        half = self.binary("fmul", y, 0.5)
        odd = self.b.put(f"fcmp une {vector} {self.unary('trunc', half)}, {half}")
        odd = self.b.put(f"and {self.vector('i1')} {whole}, {odd}")
        negative = self.compare("slt", self.as_bits(x), 0)
        flips = self.b.put(f"and {self.vector('i1')} {odd}, {negative}")
        result = self.pick(flips, self.minus(result), result)
        # A fraction as power of a finite number below 0.
        below = self.b.put(
            f"and {self.vector('i1')} {self.flags('olt', x, 0.0)}, {self.flags('one', x, -math.inf)}"
        )
        part = self.b.put(f"xor {self.vector('i1')} {whole}, splat (i1 true)")
        undefined = self.b.put(f"and {self.vector('i1')} {below}, {part}")
        return self.pick(is_one, 1.0, self.pick(undefined, math.nan, result))


def _short(element: str) -> str:
    """How the name of an intrinsic spells an element."""
    return {"float": "f32", "double": "f64", "half": "f16"}.get(element, element)


def _series(first: int) -> tuple[float, ...]:
    """Coefficients of sin(x) / x (1) or cos(x) (0) as a polynomial of x^2."""
    return tuple((-1) ** k / math.factorial(2 * k + first) for k in range(9))


@cache
def _quarters(exponent: int) -> tuple[float, float]:
    """What the last bit of a float with the stored exponent `exponent` is in quarters of a turn, less whole turns.

    In two parts, of which the first has 29 bits.
    """
    power = max(exponent, 1) - 150
    shift = 400
    scaled = (_TWO_OVER_PI << (shift + power)) >> _TWO_OVER_PI_BITS  # in units of 2^-shift
    scaled %= 4 << shift
    top = max(scaled.bit_length() - 29, 0)
    high = scaled >> top << top
    return math.ldexp(high >> top, top - shift), float((scaled - high) / (1 << shift))


def _two_over_pi(bits: int) -> int:
    """2 / pi in units of 2^-bits, by Machin's formula for pi."""
    guard = bits + 64

    def arctangent(inverse: int) -> int:
        total = term = (1 << guard) // inverse
        k = 1
        while term:
            term //= inverse * inverse
            total += (-1) ** k * (term // (2 * k + 1))
            k += 1
        return total

    pi = 4 * (4 * arctangent(5) - arctangent(239))
    return (1 << (guard + bits + 1)) // pi


_TWO_OVER_PI_BITS = 640
_TWO_OVER_PI = _two_over_pi(_TWO_OVER_PI_BITS)
