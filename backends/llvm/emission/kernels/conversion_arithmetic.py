"""Vectors of elements of one type as vectors of another: what `layout_ir.elements.quantization` defines in LLVM IR.

Elements come and go as integers of their width (those of 4 bits as i8), any number of lanes at once, so that kernels
move and shuffle them without caring what they mean. Only generic operations are used, no intrinsics of a target, and
none that becomes a library call: halves are made of integers where the target has no instruction for them, and bf16
everywhere (x86's own conversion flushes subnormals). Selections are spelled so that x86's min and max match them. The
one exception is f32 to integers on x86 (`saturating_packs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from layout_ir.backends.llvm.emission.kernels.exact_division import Divisor, divisor_of
from layout_ir.backends.llvm.emission.kernels.lanes import Lanes, has_halves, literal
from layout_ir.backends.llvm.emission.kernels.narrow_float_arithmetic import (
    half_of_narrow,
    narrow_of_single,
    single_of_narrow,
)
from layout_ir.backends.llvm.emission.kernels.rare_lanes import RareLanes
from layout_ir.backends.llvm.emission.kernels.saturating_packs import (
    joined_registers,
    packed,
    rounded_to_i32,
    rounds_to_i32,
    saturates_by_packs,
)
from layout_ir.backends.llvm.emission.llvm_builder import shuffle
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.machine.x86_features import has_x86_feature
from layout_ir.elements.element_types import bits_of, element_type
from layout_ir.elements.quantization import Conversion

_FLOATS = {"f32": ("float", 32, 1.5 * 2**23), "f64": ("double", 64, 1.5 * 2**52)}
"""Of a type that is computed in: its name, its bits, and what makes every small number an integer when added."""

_LONG = ("i32", "ui32", "i64", "ui64")
"""Integers of more places than the f32 or f64 has by way of which they become bf16."""


def lane_type(dtype: str) -> str:
    """The integer in which an element travels."""
    return f"i{max(bits_of(dtype), 8)}"


def has_rounding(machine: Machine) -> bool:
    """Whether rounding to an integer is an instruction."""
    return machine.vector >= 32 or machine.triple.startswith("aarch64")


@dataclass(slots=True)
class Arithmetic(Lanes):
    """Emits arithmetic on vectors of `size` lanes."""

    rare: RareLanes | None = None
    """The lanes that may come out wrong, which are noted there; None where all must come out right."""

    def converted(
        self, value: str, conversion: Conversion, parameters: Mapping[str, str], old: str | None
    ) -> str:
        """Lanes of the source type as lanes of the destination type.

        `parameters` are vectors of the computing type; `old` is what the destination holds, where there is a beta.
        """
        src, dst = conversion.src, conversion.dst
        if not conversion.parameters:
            return self.cast(value, src, dst, saturate=conversion.saturate)
        number, b = conversion.computes, self.b
        vector = self.vector(_FLOATS[number][0])
        y = self.widened(value, src, number)
        if "src_zero" in parameters:
            y = b.put(f"fsub {vector} {y}, {parameters['src_zero']}")
        if "src_scale" in parameters:
            y = b.put(f"fmul {vector} {y}, {parameters['src_scale']}")
        if "dst_scale" in parameters:
            divisor = divisor_of(self.machine, conversion)
            if divisor is not None:
                return self.small_integer(y, number, dst, divisor)
            y = b.put(f"fdiv {vector} {y}, {parameters['dst_scale']}")
        if "beta" in parameters:
            assert old is not None
            held = self.widened(old, dst, number)
            if "dst_zero" in parameters:
                held = b.put(f"fsub {vector} {held}, {parameters['dst_zero']}")
            held = b.put(f"fmul {vector} {parameters['beta']}, {held}")
            y = b.put(f"fadd {vector} {y}, {held}")
        if "dst_zero" in parameters:
            if element_type(src).is_float or conversion.parameters.keys() - {"src_zero", "dst_zero"}:
                y = self.rint(y, number)  # else it is an integer
            y = b.put(f"fadd {vector} {y}, {parameters['dst_zero']}")
        return self.narrowed(y, number, dst, saturate=conversion.saturate)

    def cast(self, value: str, src: str, dst: str, *, saturate: bool = False) -> str:
        """The same numbers, as near as `dst` can; exact where it can."""
        if src == dst:
            return value
        if not element_type(src).is_float and not element_type(dst).is_float:
            return self.whole(value, src, dst)
        if dst == "bf16" and src in _LONG:
            number = "f32" if bits_of(src) == 32 else "f64"
            return self.narrowed(self.jammed(value, src, number), number, dst)
        wide = {src, dst} & {"f64"} or (src in ("i64", "ui64") and dst == "f16")
        if (src, dst) == ("bf16", "f32"):
            return self.quiet(value)
        if (src, dst) == ("f8E5M2", "f16"):
            return half_of_narrow(self, value)
        number = "f64" if wide else "f32"
        return self.narrowed(self.widened(value, src, number), number, dst, saturate=saturate)

    def quiet(self, value: str) -> str:
        """bf16 as f32. The bits are those of bf16, but for a signalling NaN, which no arithmetic makes quiet here."""
        word = self.vector("i32")
        wide = self.b.put(f"bitcast {self.vector('float')} {self.single(value, 'bf16')} to {word}")
        nan = self.compare("ugt", self.bits("and", wide, 0x7FFFFFFF), 0x7F800000)
        return self.choose(nan, "i32", self.bits("or", wide, 0x400000), wide)

    # Integers ---------------------------------------------------------------------------------------------------

    def whole(self, value: str, src: str, dst: str) -> str:
        """Integers as integers that saturate."""
        from_, to = self.vector(lane_type(src)), self.vector(lane_type(dst))
        if dst == "i1":
            return self.truth(self.b.put(f"icmp ne {from_} {value}, zeroinitializer"))
        if src == "i1":
            value = self.truth(self.b.put(f"icmp ne {from_} {value}, zeroinitializer"))
            return self.resized(value, "i8", dst, signed=False)
        (low, high), (least, most) = element_type(src).range, element_type(dst).range
        signed = element_type(src).is_signed
        if least > low:
            value = self.bound("max", value, src, int(least))
        if most < high:
            value = self.bound("min", value, src, int(most))
        return value if from_ == to else self.resized(value, lane_type(src), dst, signed=signed)

    def bound(self, which: str, value: str, dtype: str, limit: int) -> str:
        """The larger ("max") or smaller ("min") of integers of `dtype` and `limit`."""
        vector, sign = self.vector(lane_type(dtype)), "s" if element_type(dtype).is_signed else "u"
        name = f"llvm.{sign}{which}.v{self.size}{lane_type(dtype)}"
        return self.b.put(
            f"call {vector} @{name}({vector} {value}, {vector} {self.splat(lane_type(dtype), limit)})"
        )

    def resized(self, value: str, from_: str, dst: str, *, signed: bool) -> str:
        """Integers of type `from_` as integers of the width of `dst`: cut off, or extended as their sign says."""
        old, new = int(from_[1:]), int(lane_type(dst)[1:])
        if old == new:
            return value
        verb = "trunc" if new < old else "sext" if signed else "zext"
        return self.b.put(f"{verb} {self.vector(from_)} {value} to {self.vector(lane_type(dst))}")

    def truth(self, flags: str) -> str:
        """Flags as bytes that hold 0 or 1."""
        return self.b.put(f"zext {self.vector('i1')} {flags} to {self.vector('i8')}")

    # To floats and back -----------------------------------------------------------------------------------------

    def widened(self, value: str, src: str, number: str) -> str:
        """Elements as f32 or f64; exact, but for integers that are too large."""
        b, float_ = self.b, _FLOATS[number][0]
        vector, from_ = self.vector(float_), self.vector(lane_type(src))
        if src == number:
            return b.put(f"bitcast {from_} {value} to {vector}")
        if src == "f64":
            wide = b.put(f"bitcast {from_} {value} to {self.vector('double')}")
            return b.put(f"fptrunc {self.vector('double')} {wide} to {vector}")
        if element_type(src).is_float:
            single = self.single(value, src)
            return single if number == "f32" else b.put(f"fpext {self.vector('float')} {single} to {vector}")
        if src == "i1":
            value = self.truth(b.put(f"icmp ne {from_} {value}, zeroinitializer"))
        if bits_of(src) < 32:
            value = self.resized(value, lane_type(src), "i32", signed=element_type(src).is_signed)
            from_ = self.vector("i32")
        verb = "uitofp" if src in ("ui32", "ui64") else "sitofp"
        return b.put(f"{verb} {from_} {value} to {vector}")

    def single(self, value: str, src: str) -> str:
        """f32, or a float of fewer bits, as f32."""
        b, word, single = self.b, self.vector("i32"), self.vector("float")
        if src == "f32":
            return b.put(f"bitcast {word} {value} to {single}")
        if src == "bf16":
            wide = b.put(f"zext {self.vector('i16')} {value} to {word}")
            wide = b.put(f"shl {word} {wide}, {self.splat('i32', 16)}")
            return b.put(f"bitcast {word} {wide} to {single}")
        if src != "f16":
            return single_of_narrow(self, value, src)
        if has_halves(self.machine):
            half = b.put(f"bitcast {self.vector('i16')} {value} to {self.vector('half')}")
            return b.put(f"fpext {self.vector('half')} {half} to {single}")
        # The exponent is moved by a multiplication that is exact, subnormals included; infinity and NaN by hand.
        wide = b.put(f"zext {self.vector('i16')} {value} to {word}")
        magnitude = self.bits("shl", self.bits("and", wide, 0x7FFF), 13)
        sign = self.bits("shl", self.bits("and", wide, 0x8000), 16)
        number = b.put(f"bitcast {word} {magnitude} to {single}")
        scaled = b.put(f"fmul {single} {number}, {self.splat('float', literal(2.0**112, 'f32'))}")
        finite = b.put(f"bitcast {single} {scaled} to {word}")
        special = self.bits("or", magnitude, 0x7F800000)
        nan = self.compare("ugt", magnitude, 0x0F800000)
        special = self.choose(nan, "i32", self.bits("or", special, 0x400000), special)
        result = self.choose(self.compare("uge", magnitude, 0x0F800000), "i32", special, finite)
        return b.put(f"bitcast {word} {b.put(f'or {word} {result}, {sign}')} to {single}")

    def narrowed(self, y: str, number: str, dst: str, *, saturate: bool = False) -> str:
        """f32 or f64 as elements; `saturate` says what narrow floats make of what is too large."""
        b, (float_, bits, _) = self.b, _FLOATS[number]
        vector = self.vector(float_)
        if dst == number:
            return b.put(f"bitcast {vector} {y} to {self.vector(lane_type(dst))}")
        if dst == "i1":
            return self.truth(b.put(f"fcmp une {vector} {y}, zeroinitializer"))
        if dst == "f64":
            wide = b.put(f"fpext {vector} {y} to {self.vector('double')}")
            return b.put(f"bitcast {self.vector('double')} {wide} to {self.vector('i64')}")
        if dst == "f32":
            single = b.put(f"fptrunc {vector} {y} to {self.vector('float')}")
            return b.put(f"bitcast {self.vector('float')} {single} to {self.vector('i32')}")
        if element_type(dst).is_float:
            single = y if number == "f32" else self.rounded_to_odd(y)
            if element_type(dst).is_narrow_float:
                return narrow_of_single(self, single, dst, saturate=saturate)
            return self.bf16(single) if dst == "bf16" else self.half(single)
        if bits_of(dst) < 32 or (bits_of(dst) == 32 and bits == 64):
            return self.small_integer(y, number, dst)
        return self.large_integer(y, number, dst)

    def small_integer(self, y: str, number: str, dst: str, divisor: Divisor | None = None) -> str:
        """By the sum with a number so large that nothing behind the point remains: its low bits are the integer.

        Where `divisor` is given, it and its zero point act once what saturates is cut off.
        """
        b, (float_, bits, magic) = self.b, _FLOATS[number]
        vector, word = self.vector(float_), f"i{bits}"
        low, high = element_type(dst).range if divisor is None else divisor.bounds
        signed = element_type(dst).is_signed
        saturates = number == "f32" and saturates_by_packs(self.machine, dst, self.size)
        looks_later = saturates and self.rare is not None
        # Against a bound of 0 NaN loses anyway. Masked registers take the result's lanes away for nothing.
        masked = self.machine.vector == 64
        number_ = ""
        if (signed or saturates) and not looks_later:
            number_ = b.put(f"fcmp ord {vector} {y}, zeroinitializer")
        if number_ and not masked:
            zero = 0.0 if divisor is None else divisor.stored_as_zero
            y = self.choose(number_, float_, y, self.splat(float_, literal(zero, number)))
        # What saturates needs no lower bound, but infinity must not come to the division.
        needed = () if looks_later else (("ogt", low), ("olt", high))[saturates and divisor is None :]
        for relation, bound in needed:
            limit = self.splat(float_, literal(bound, number))
            inside = b.put(f"fcmp {relation} {vector} {y}, {limit}")
            y = self.choose(inside, float_, y, limit)
        if divisor is not None:
            y = divisor.quotient(self, y)
            if divisor.zero_point:
                zero_point = self.splat(float_, literal(divisor.zero_point, number))
                y = b.put(f"fadd {vector} {self.rint(y, number)}, {zero_point}")
        if saturates:
            if number_ and masked:
                y = self.choose(number_, float_, y, "zeroinitializer")
            return packed(b, self.machine, self.size, y, dst, rare=self.rare)
        y = b.put(f"fadd {vector} {y}, {self.splat(float_, literal(magic, number))}")
        if number_ and masked:
            y = self.choose(number_, float_, y, "zeroinitializer")
        return self.low(b.put(f"bitcast {vector} {y} to {self.vector(word)}"), word, lane_type(dst))

    def low(self, value: str, word: str, element: str) -> str:
        """The low bits of words."""
        bits, wanted = int(word[1:]), int(element[1:])
        while self.machine.vector == 64 and wanted < bits and self.size * wanted >= 512:
            # Halves of two registers are one shuffle, where narrowing one takes two operations.
            bits //= 2
            halves = self.b.put(
                f"bitcast {self.vector(f'i{2 * bits}')} {value} to <{2 * self.size} x i{bits}>"
            )
            mask = list(range(0, 2 * self.size, 2))
            value = shuffle(self.b, f"i{bits}", halves, "poison", 2 * self.size, mask)
        return self.resized(value, f"i{bits}", element, signed=False)

    def large_integer(self, y: str, number: str, dst: str) -> str:
        """The nearest integers of type `dst` to floats `y` of type `number`, saturated.

        By LLVM's own conversions, but for f32 to i32 and ui32, and any to i64 with AVX-512, where these go lane by
        lane.
        """
        float_ = _FLOATS[number][0]
        vector, to = self.vector(float_), self.vector(lane_type(dst))
        if number == "f32" and dst in ("i32", "ui32") and rounds_to_i32(self.machine, self.size):
            return self.nearest_i32(y) if dst == "i32" else self.nearest_ui32(y)
        y = self.rint(y, number)
        if bits_of(dst) == 64 and has_x86_feature(self.machine, "avx512dq"):
            return self.bounded_i64(y, number, dst)
        verb = "fptosi" if element_type(dst).is_signed else "fptoui"
        name = f"llvm.{verb}.sat.v{self.size}{lane_type(dst)}.v{self.size}{number}"
        return self.b.put(f"call {to} @{name}({vector} {y})")

    def bounded_i64(self, y: str, number: str, dst: str) -> str:
        """Integers in floats as i64 or ui64, saturated, where there is an instruction for vectors that does not."""
        b, float_, word = self.b, _FLOATS[number][0], self.vector("i64")
        vector, signed = self.vector(float_), element_type(dst).is_signed
        least, most = element_type(dst).range
        limit = self.splat(float_, literal(2.0 ** (63 if signed else 64), number))
        size = b.put(f"call {vector} @llvm.fabs.v{self.size}{number}({vector} {y})") if signed else y
        inside = b.put(f"fcmp olt {vector} {size}, {limit}")
        if not signed:
            positive = b.put(f"fcmp ogt {vector} {y}, zeroinitializer")
            inside = b.put(f"and {self.vector('i1')} {inside}, {positive}")
        verb = "fptosi" if signed else "fptoui"
        result = b.put(f"{verb} {vector} {self.choose(inside, float_, y, 'zeroinitializer')} to {word}")
        above = b.put(f"fcmp oge {vector} {y}, {limit}")
        result = self.choose(above, "i64", self.splat("i64", int(most)), result)
        if signed:
            below = b.put(f"fcmp ole {vector} {y}, {self.splat(float_, literal(-(2.0**63), number))}")
            result = self.choose(below, "i64", self.splat("i64", int(least)), result)
        return result

    def nearest_i32(self, y: str) -> str:
        """The nearest i32 to f32, saturated, on x86."""
        b, vector = self.b, self.vector("float")
        registers = rounded_to_i32(b, self.machine, self.size, y)
        each = self.machine.vector // 4
        result = joined_registers(b, "i32", registers, each)
        if self.rare is not None:
            self.rare.add_integers(each, "i32", registers)
            return result
        # What is above became the least, of which all bits are turned.
        limit = self.splat("float", literal(2.0**31, "f32"))
        above = self.mask(b.put(f"fcmp oge {vector} {y}, {limit}"))
        number = self.mask(b.put(f"fcmp ord {vector} {y}, zeroinitializer"))
        word = self.vector("i32")
        return b.put(f"and {word} {b.put(f'xor {word} {result}, {above}')}, {number}")

    def nearest_ui32(self, y: str) -> str:
        """The nearest ui32 to f32, saturated, on x86: what is no i32 is converted 2^31 less."""
        b, vector, word = self.b, self.vector("float"), self.vector("i32")
        half, all_ = (self.splat("float", literal(2.0**bits, "f32")) for bits in (31, 32))
        y = self.choose(b.put(f"fcmp ogt {vector} {y}, zeroinitializer"), "float", y, "zeroinitializer")
        upper = b.put(f"fcmp oge {vector} {y}, {half}")
        rest = b.put(f"fsub {vector} {y}, {self.choose(upper, 'float', half, 'zeroinitializer')}")
        registers = rounded_to_i32(b, self.machine, self.size, rest)
        result = joined_registers(b, "i32", registers, self.machine.vector // 4)
        bit = self.choose(upper, "i32", self.splat("i32", -(2**31)), "zeroinitializer")
        beyond = self.mask(b.put(f"fcmp oge {vector} {y}, {all_}"))
        return b.put(f"or {word} {b.put(f'xor {word} {result}, {bit}')}, {beyond}")

    def mask(self, flags: str) -> str:
        """Words of ones where the flag is set, else 0."""
        return self.b.put(f"sext {self.vector('i1')} {flags} to {self.vector('i32')}")

    def rint(self, y: str, number: str) -> str:
        """The nearest integer of each lane, ties to even."""
        b, float_ = self.b, _FLOATS[number][0]
        vector = self.vector(float_)
        if has_rounding(self.machine):
            return b.put(f"call {vector} @llvm.roundeven.v{self.size}{number}({vector} {y})")
        name = f"v{self.size}{number}"
        large = self.splat(float_, literal(2.0 ** element_type(number).mantissa, number))
        shift = b.put(f"call {vector} @llvm.copysign.{name}({vector} {large}, {vector} {y})")
        near = b.put(f"fsub {vector} {b.put(f'fadd {vector} {y}, {shift}')}, {shift}")
        size = b.put(f"call {vector} @llvm.fabs.{name}({vector} {y})")
        return self.choose(b.put(f"fcmp olt {vector} {size}, {large}"), float_, near, y)

    # Narrow floats ----------------------------------------------------------------------------------------------

    def bf16(self, y: str) -> str:
        """f32 to bf16: half of the last place is added, a little less where the result is even."""
        b, word = self.b, self.vector("i32")
        bits = b.put(f"bitcast {self.vector('float')} {y} to {word}")
        if self.machine.vector == 64:
            # A mask and a blend, where there are masks, are one operation less than to shift the bit out.
            odd = self.compare("ne", self.bits("and", bits, 0x10000), 0)
            half = self.choose(odd, "i32", self.splat("i32", 0x8000), self.splat("i32", 0x7FFF))
        else:
            half = self.bits("add", self.bits("and", self.bits("lshr", bits, 16), 1), 0x7FFF)
        rounded = b.put(f"add {word} {bits}, {half}")
        if self.rare is not None and self.size % 2 == 0:
            self.rare.add_floats(self.size, y)
            result = rounded
        else:
            nan = b.put(f"fcmp uno {self.vector('float')} {y}, zeroinitializer")
            result = self.choose(nan, "i32", self.bits("or", bits, 0x400000), rounded)
        if self.machine.vector == 64 and self.size >= 32:
            # The upper halves of two registers are one shuffle.
            halves = b.put(f"bitcast {word} {result} to <{2 * self.size} x i16>")
            return shuffle(b, "i16", halves, "poison", 2 * self.size, list(range(1, 2 * self.size, 2)))
        return b.put(f"trunc {word} {self.bits('lshr', result, 16)} to {self.vector('i16')}")

    def half(self, y: str) -> str:
        """f32 to f16."""
        b, word, single = self.b, self.vector("i32"), self.vector("float")
        if has_halves(self.machine):
            half = b.put(f"fptrunc {single} {y} to {self.vector('half')}")
            return b.put(f"bitcast {self.vector('half')} {half} to {self.vector('i16')}")
        bits = b.put(f"bitcast {single} {y} to {word}")
        magnitude = self.bits("and", bits, 0x7FFFFFFF)
        sign = self.bits("and", self.bits("lshr", bits, 16), 0x8000)
        odd = self.bits("and", self.bits("lshr", magnitude, 13), 1)
        shifted = b.put(f"add {word} {self.bits('add', magnitude, 0xFFF - (112 << 23))}, {odd}")
        normal = self.bits("lshr", shifted, 13)
        # Adding 1/2 rounds a subnormal to the place it has as an f16: the sum's low bits are the result.
        number = b.put(f"bitcast {word} {magnitude} to {single}")
        sum_ = b.put(f"fadd {single} {number}, {self.splat('float', literal(0.5, 'f32'))}")
        small = self.bits("sub", b.put(f"bitcast {single} {sum_} to {word}"), 0x3F000000)
        nan = self.bits("or", self.bits("and", self.bits("lshr", magnitude, 13), 0x3FF), 0x7E00)
        result = self.choose(self.compare("ult", magnitude, 0x38800000), "i32", small, normal)
        result = self.choose(
            self.compare("uge", magnitude, 0x47800000), "i32", self.splat("i32", 0x7C00), result
        )
        result = self.choose(self.compare("ugt", magnitude, 0x7F800000), "i32", nan, result)
        return b.put(f"trunc {word} {b.put(f'or {word} {result}, {sign}')} to {self.vector('i16')}")

    def rounded_to_odd(self, y: str) -> str:
        """f64 as f32 with the last of 16 places set where something was lost, so that a second rounding is right.

        Narrower floats have 11 places at most, and a rounding looks at one more and whether anything is behind it. All
        16 are places of an f32 down to 2^-134, below which even bf16 has nothing but 0.
        """
        wide, word = self.vector("double"), self.vector("i64")
        bits = self.odd_above(self.b.put(f"bitcast {wide} {y} to {word}"), 52 - 15, "i64")
        return self.b.put(
            f"fptrunc {wide} {self.b.put(f'bitcast {word} {bits} to {wide}')} to {self.vector('float')}"
        )

    def odd_above(self, value: str, places: int, word: str) -> str:
        """Words without their lowest places, of which the one above is set where there was a bit among them."""
        low = (1 << places) - 1
        carry = self.bits("add", self.bits("and", value, low, word), low, word)
        return self.bits("and", self.b.put(f"or {self.vector(word)} {value}, {carry}"), ~low, word)

    def jammed(self, value: str, src: str, number: str) -> str:
        """Integers as f32 or f64, with a bit where something was lost: far below what bf16 shows."""
        b, vector, word = self.b, self.vector(lane_type(src)), lane_type(src)
        mantissa = element_type(number).mantissa + 1
        kept = self.odd_above(value, bits_of(src) - mantissa, word)
        if element_type(src).is_signed:
            fits = self.compare("ult", self.bits("add", value, 1 << mantissa, word), 1 << mantissa + 1, word)
        else:
            fits = self.compare("ult", value, 1 << mantissa, word)
        chosen = self.choose(fits, word, value, kept)
        verb = "sitofp" if element_type(src).is_signed else "uitofp"
        return b.put(f"{verb} {vector} {chosen} to {self.vector(_FLOATS[number][0])}")
