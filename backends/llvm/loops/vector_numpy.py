"""Vector code by running the definition of an op: NumPy functions on symbols that write LLVM IR.

The table of elementwise ops gives each op as a function of NumPy and its operands. Here `np` is a `VectorNumPy` and an
operand a `Vector`, some lanes of which each computes: what the function does is emitted. So the code that runs is the
definition that the reference runs and constants are folded by, operation by operation, and an op that the table gets
has it at once. f16 and bf16 are computed in f32, as there, and rounded when an op is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from layout_ir.backends.llvm.emission.kernels.conversion_arithmetic import has_rounding, lane_type
from layout_ir.backends.llvm.loops import double_functions, inverse_functions
from layout_ir.backends.llvm.loops.float_functions import FloatFunctions
from layout_ir.elements.element_types import element_type
from layout_ir.elements.scalar_type import IntegerBounds, ScalarType, computed_dtype
from layout_ir.errors import LayoutError

Number = float | int | bool

COMPUTED = ("f16", "bf16", "f32", "f64", "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64", "i1")
"""Element types of tensors that loops compute with."""


def register_element(dtype: str) -> str:
    """The LLVM type of a lane in registers: a truth value has one bit there, and a byte in memory."""
    return {"f32": "float", "f64": "double", "i1": "i1"}.get(dtype) or lane_type(dtype)


class Vector:
    """Lanes of numbers of one element type that is computed in. Its operators emit instructions."""

    __slots__ = ("dtype_name", "lanes", "value")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, lanes: FloatFunctions, value: str, dtype: str) -> None:
        self.lanes = lanes
        self.value = value
        self.dtype_name = dtype

    @property
    def dtype(self) -> ScalarType:
        """The element type."""
        return ScalarType(self.dtype_name)

    @property
    def type(self) -> str:
        """The type of the register."""
        return self.lanes.vector(register_element(self.dtype_name))

    def made(self, text: str, dtype: str | None = None) -> Vector:
        """What an instruction gives, of this element type if no other is named."""
        return Vector(self.lanes, self.lanes.b.put(text), dtype or self.dtype_name)

    def like(self, other: Vector | Number) -> Vector:
        """`other`, a number of Python as a constant of this type."""
        return other if isinstance(other, Vector) else constant(self.lanes, other, self.dtype_name)

    def _op(self, other: Vector | Number, names: str, *, swapped: bool = False) -> Vector:
        """One of the instructions `names`: for floats, signed integers, unsigned ones and truth values."""
        verb = dict(zip("fiub", (*names.split(), names.split()[-1])[:4], strict=True))[self.dtype.kind]
        lhs, rhs = self, self.like(other)
        if swapped:
            lhs, rhs = rhs, lhs
        return self.made(f"{verb} {self.type} {lhs.value}, {rhs.value}")

    def __add__(self, other: Vector | Number) -> Vector:
        return self._op(other, "fadd add add")

    def __radd__(self, other: Number) -> Vector:
        return self._op(other, "fadd add add", swapped=True)

    def __sub__(self, other: Vector | Number) -> Vector:
        return self._op(other, "fsub sub sub")

    def __rsub__(self, other: Number) -> Vector:
        return self._op(other, "fsub sub sub", swapped=True)

    def __mul__(self, other: Vector | Number) -> Vector:
        return self._op(other, "fmul mul mul")

    def __rmul__(self, other: Number) -> Vector:
        return self._op(other, "fmul mul mul", swapped=True)

    def __truediv__(self, other: Vector | Number) -> Vector:
        return self._op(other, "fdiv sdiv udiv")

    def __rtruediv__(self, other: Number) -> Vector:
        return self._op(other, "fdiv sdiv udiv", swapped=True)

    def __floordiv__(self, other: Vector | Number) -> Vector:
        """The quotient of integers, rounded down, 0 by 0, with wrap-around as NumPy has it: nothing traps."""
        divisor = self.like(other)
        by_zero = divisor == 0
        np = VectorNumPy
        if self.dtype.kind == "u":
            return np.where(by_zero, 0, self / np.where(by_zero, 1, divisor))
        by_minus_one = divisor == -1
        safe = np.where(by_zero | by_minus_one, 1, divisor)
        quotient = self / safe
        down = (quotient * safe != self) & ((self < 0) != (safe < 0))
        quotient = np.where(by_minus_one, -self, quotient - down.astype(self.dtype))
        return np.where(by_zero, 0, quotient)

    def __pow__(self, power: int) -> Vector:
        result = self
        for _ in range(power - 1):
            result = result * self
        return result

    def __neg__(self) -> Vector:
        if self.dtype.kind == "f":
            return self.made(f"fneg {self.type} {self.value}")
        return 0 - self

    def __and__(self, other: Vector | Number) -> Vector:
        return self.made(f"and {self.type} {self.value}, {self.like(other).value}")

    def __or__(self, other: Vector | Number) -> Vector:
        return self.made(f"or {self.type} {self.value}, {self.like(other).value}")

    def __xor__(self, other: Vector | Number) -> Vector:
        return self.made(f"xor {self.type} {self.value}, {self.like(other).value}")

    def __lshift__(self, other: Vector | Number) -> Vector:
        """The lanes shifted to the left by `other` bits, fewer than the type has."""
        return self.made(f"shl {self.type} {self.value}, {self.like(other).value}")

    def __rshift__(self, other: Vector | Number) -> Vector:
        """The lanes shifted to the right by `other` bits, fewer than the type has."""
        return self._op(other, "none ashr lshr")

    def _compared(self, other: object, names: str) -> Vector:
        """A comparison by one of the relations `names`: for floats, signed integers, unsigned ones, truth values."""
        relation = dict(zip("fiub", (*names.split(), names.split()[-1])[:4], strict=True))[self.dtype.kind]
        verb = "fcmp" if self.dtype.kind == "f" else "icmp"
        rhs = self.like(cast("Vector | Number", other)).value
        return self.made(f"{verb} {relation} {self.type} {self.value}, {rhs}", "i1")

    def __lt__(self, other: Vector | Number) -> Vector:
        return self._compared(other, "olt slt ult")

    def __le__(self, other: Vector | Number) -> Vector:
        return self._compared(other, "ole sle ule")

    def __gt__(self, other: Vector | Number) -> Vector:
        return self._compared(other, "ogt sgt ugt")

    def __ge__(self, other: Vector | Number) -> Vector:
        return self._compared(other, "oge sge uge")

    def __eq__(self, other: object) -> Vector:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compared(other, "oeq eq eq")

    def __ne__(self, other: object) -> Vector:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compared(other, "une ne ne")

    def astype(self, dtype: ScalarType) -> Vector:
        """Integers and truth values as integers, with wrap-around."""
        return converted(self, dtype.name)


def constant(lanes: FloatFunctions, number: Number, dtype: str) -> Vector:
    """The vector with `number` in every lane."""
    if element_type(dtype).is_float:
        return Vector(lanes, lanes.constant(float(number), dtype), dtype)
    element = register_element(dtype)
    value = ("true" if number else "false") if dtype == "i1" else int(number)
    return Vector(lanes, lanes.splat(element, value), dtype)


class VectorNumPy:
    """The functions of NumPy that definitions use, and `erf`, which it lacks, on Vectors."""

    @staticmethod
    def iinfo(dtype: ScalarType) -> IntegerBounds:
        """The bounds of an integer type."""
        return dtype.bounds

    @staticmethod
    def broadcast_arrays(*vectors: Vector) -> tuple[Vector, ...]:
        """The vectors: all have as many lanes."""
        return vectors

    @classmethod
    def abs(cls, x: Vector) -> Vector:
        """The magnitude; of the least signed integer, itself."""
        if x.dtype.kind == "f":
            return _intrinsic("fabs", x)
        return x if x.dtype.kind in "ub" else cls.where(x < 0, -x, x)

    @classmethod
    def sign(cls, x: Vector) -> Vector:
        """-1, 0, 1, or NaN."""
        return cls.where(x > 0, 1, cls.where(x < 0, -1, x) if x.dtype.kind != "u" else x)

    @staticmethod
    def where(condition: Vector, x: Vector | Number, y: Vector | Number) -> Vector:
        """`x` where the condition is true, else `y`; one of the two is a Vector."""
        known = x if isinstance(x, Vector) else y
        if not isinstance(known, Vector):
            raise LayoutError("where of two numbers has no element type")
        yes, no = known.like(x), known.like(y)
        flags = f"{condition.type} {condition.value}"
        return known.made(f"select {flags}, {known.type} {yes.value}, {known.type} {no.value}")

    @classmethod
    def isfinite(cls, x: Vector) -> Vector:
        """Whether x is neither infinite nor NaN."""
        return cls.abs(x) < float("inf")

    @classmethod
    def maximum(cls, x: Vector, y: Vector | Number) -> Vector:
        """The larger one; NaN if either is."""
        if _is_number(y):
            return cls.where(x < y, y, x)
        larger = cls.where(x > y, x, y)
        # A comparison with NaN is false, which takes y; where y is a number, x may be NaN.
        return cls.where(x != x, x, larger) if x.dtype.kind == "f" else larger

    @classmethod
    def minimum(cls, x: Vector, y: Vector | Number) -> Vector:
        """The smaller one; NaN if either is."""
        if _is_number(y):
            return cls.where(x > y, y, x)
        smaller = cls.where(x < y, x, y)
        return cls.where(x != x, x, smaller) if x.dtype.kind == "f" else smaller

    @classmethod
    def clip(cls, x: Vector, low: Number, high: Number) -> Vector:
        """`x` within the bounds."""
        return cls.minimum(cls.maximum(x, low), high)

    @staticmethod
    def rint(x: Vector) -> Vector:
        """The nearest integer, the even one of two."""
        near = Vector(x.lanes, x.lanes.rint(x.value, x.dtype_name), x.dtype_name)
        # Where it is no instruction, a zero has lost its sign.
        return near if has_rounding(x.lanes.machine) else _with_sign(near, x)

    @classmethod
    def trunc(cls, x: Vector) -> Vector:
        """The nearest integer that is not further from 0."""
        if has_rounding(x.lanes.machine):
            return _intrinsic("trunc", x)
        size = cls.abs(x)
        near = cls.rint(size)
        down = cls.where(near > size, near - 1, near)
        return _with_sign(down, x)

    @classmethod
    def floor(cls, x: Vector) -> Vector:
        """The largest integer that is not above x."""
        if has_rounding(x.lanes.machine):
            return _intrinsic("floor", x)
        near = cls.rint(x)
        return cls.where(near > x, near - 1, near)

    @classmethod
    def ceil(cls, x: Vector) -> Vector:
        """The smallest integer that is not below x."""
        if has_rounding(x.lanes.machine):
            return _intrinsic("ceil", x)
        near = cls.rint(x)
        return _with_sign(cls.where(near < x, near + 1, near), x)

    @classmethod
    def isnan(cls, x: Vector) -> Vector:
        """Whether x is no number."""
        return x != x

    @staticmethod
    def sqrt(x: Vector) -> Vector:
        """The square root."""
        return _intrinsic("sqrt", x)

    @staticmethod
    def fmod(x: Vector, y: Vector | Number) -> Vector:
        """The remainder of floats, by fmod of the C library, lane by lane."""
        return x.made(f"frem {x.type} {x.value}, {x.like(y).value}")

    @classmethod
    def power(cls, x: Vector, y: Vector | Number) -> Vector:
        """`x` to the power of `y`; of integers with wrap-around, for `y` of 0 or more."""
        if x.dtype.kind == "f":
            return _function("pow", x, x.like(y))
        base, exponent = x, x.like(y)
        result = x.like(1)
        for bit in range(x.dtype.known.bits - (x.dtype.kind == "i")):
            result = cls.where((exponent & (1 << bit)) != 0, result * base, result)
            base = base * base
        return result


def _is_number(y: Vector | Number) -> bool:
    """Whether it is known not to be NaN. Then one comparison, in which NaN of the other side is kept, is enough: on x86
    it is an instruction together with the choice."""
    return isinstance(y, int | float) and y == y


def _intrinsic(name: str, x: Vector) -> Vector:
    return Vector(x.lanes, x.lanes.unary(name, x.value, x.dtype_name), x.dtype_name)


def _with_sign(size: Vector, sign: Vector) -> Vector:
    name = f"llvm.copysign.v{size.lanes.size}{size.dtype_name}"
    return size.made(f"call {size.type} @{name}({size.type} {size.value}, {size.type} {sign.value})")


def _function(name: str, *operands: Vector) -> Vector:
    """A function of `FloatFunctions`, of f64 one of `double_functions`. Raises LayoutError where there is none."""
    x = operands[0]
    values = [operand.value for operand in operands]
    if x.dtype_name == "f64":
        return Vector(x.lanes, _of_doubles(name)(x.lanes, *values), "f64")
    if x.dtype_name != "f32":
        raise LayoutError(f"loops have no {name} of {x.dtype_name}")
    emit: Callable[..., str] = getattr(x.lanes, name)
    return Vector(x.lanes, emit(*values), "f32")


def _of_doubles(name: str) -> Callable[..., str]:
    """What emits a function of f64. Raises LayoutError where nothing does."""
    emit: Callable[..., str] | None = getattr(double_functions, name, None)
    if emit is None:
        raise LayoutError(f"loops have no {name} of f64")
    return emit


def _unary(name: str) -> Any:
    def apply(x: Vector) -> Vector:
        return _function(name, x)

    return staticmethod(apply)


for _name in ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf"):
    setattr(VectorNumPy, _name, _unary(_name))


def _inverse(name: str) -> Any:
    emit: Callable[..., str] = getattr(inverse_functions, name)

    def apply(x: Vector) -> Vector:
        if x.dtype_name == "f64":
            return Vector(x.lanes, _of_doubles(name)(x.lanes, x.value), "f64")
        if x.dtype_name != "f32":
            raise LayoutError(f"loops have no {name} of {x.dtype_name}")
        return Vector(x.lanes, emit(x.lanes, x.value), "f32")

    return staticmethod(apply)


INVERSE_FUNCTIONS = (
    "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "arcsinh", "arccosh", "arctanh"
)  # fmt: skip

for _name in INVERSE_FUNCTIONS:
    setattr(VectorNumPy, _name, _inverse(_name))


# Elements in memory ---------------------------------------------------------------------------------------------------


def of_stored(lanes: FloatFunctions, value: str, dtype: str) -> Vector:
    """Lanes as they are stored, integers of the width of `dtype`, as the type that they are computed in; exact."""
    wide = computed_dtype(dtype)
    if dtype == "i1":
        flags = lanes.b.put(f"icmp ne {lanes.vector('i8')} {value}, zeroinitializer")
        return Vector(lanes, flags, "i1")
    if wide == "f64":
        return Vector(lanes, lanes.of_bits(value, "f64"), "f64")
    if element_type(wide).is_float:
        return Vector(lanes, lanes.single(value, dtype), wide)
    return Vector(lanes, value, dtype)


def as_stored(x: Vector, dtype: str) -> str:
    """Lanes of the type that `dtype` is computed in as they are stored: floats are rounded to nearest even."""
    lanes = x.lanes
    if dtype == "i1":
        return lanes.truth(x.value)
    if element_type(dtype).is_float:
        return lanes.narrowed(x.value, x.dtype_name, dtype)
    return x.value


def rounded(x: Vector, dtype: str) -> Vector:
    """The numbers as they would come back from memory of `dtype`."""
    return of_stored(x.lanes, as_stored(x, dtype), dtype) if dtype in ("f16", "bf16") else x


def converted(x: Vector, dtype: str) -> Vector:
    """`x` as nn.cast has it, in the type that `dtype` is computed in.

    Floats to integers cut off the fraction and saturate, integers wrap around, and to i1 it is whether x is not 0.
    """
    lanes, target = x.lanes, computed_dtype(dtype)
    if x.dtype_name == target:
        return rounded(x, dtype)
    if dtype == "i1":
        return x != 0
    if element_type(dtype).is_float:
        if x.dtype_name == "i1":
            x = Vector(lanes, lanes.truth(x.value), "ui8")
        if x.dtype.kind == "f":
            stored = lanes.narrowed(x.value, x.dtype_name, dtype)
        else:
            stored = lanes.cast(x.value, x.dtype_name, dtype)
        return of_stored(lanes, stored, dtype)
    if x.dtype.kind == "f":
        whole = VectorNumPy.trunc(x)
        return Vector(lanes, lanes.narrowed(whole.value, x.dtype_name, dtype), dtype)
    if x.dtype_name == "i1":
        x = Vector(lanes, lanes.truth(x.value), "ui8")
    signed = x.dtype.kind == "i"
    return Vector(lanes, lanes.resized(x.value, lane_type(x.dtype_name), dtype, signed=signed), dtype)
