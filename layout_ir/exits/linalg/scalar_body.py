"""Scalar code by running the definition of an op: NumPy functions on symbols that write `arith` and `math` ops.

The table of elementwise ops gives each op as a function of NumPy and its operands (`dialects/nn/elementwise.py`). Here
`np` is a `ScalarNumPy` and an operand a `Scalar`; what the function computes is appended to a block. So the code that
goes out is the definition that the reference runs, rounding by rounding, and an op that the table gets has it at once.

As in the definition, f16 and bf16 are computed in f32. A Scalar knows the sign of its integers (ui8), which MLIR's own
types do not say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from layout_ir.dialects.layout.types import attribute_of
from layout_ir.elements.scalar_type import IntegerBounds, ScalarType, computed_dtype

Number = float | int


def signless(element: Attribute) -> Attribute:
    """The element type in which MLIR's dialects compute: an integer without a sign in its name."""
    return IntegerType(width_of(element)) if element.name == IntegerType.name else element


def width_of(element: Attribute) -> int:
    """The bits of an integer type."""
    return int(cast(Any, element).width.data)


def element_of(dtype: str) -> Attribute:
    """The element type `dtype` as an attribute of IR, without sign."""
    return signless(attribute_of(dtype))


class ScalarBody:
    """A block to which scalar code is appended. Constants are written once."""

    def __init__(self, block: Block):
        self.block = block
        self._constants: dict[tuple[str, str], Scalar] = {}

    def add(self, op: Operation, dtype: str) -> Scalar:
        """Appends `op`; its result as a Scalar of `dtype`."""
        self.block.add_op(op)
        return Scalar(self, op.results[0], dtype)

    def constant(self, number: Number, dtype: str) -> Scalar:
        """A constant of `dtype`."""
        key = (repr(number), dtype)
        if key not in self._constants:
            element = element_of(dtype)
            if isinstance(element, AnyFloat):
                value: Any = FloatAttr(float(number), element)
            else:
                width = width_of(element)
                bits = int(number) % (1 << width)
                # Of one bit, true is written -1.
                signed = bits - (1 << width) if bits >> (width - 1) else bits
                value = IntegerAttr(signed, cast("IntegerType[Any, Any]", element))
            self._constants[key] = self.add(arith.ConstantOp(value), dtype)
        return self._constants[key]

    def widened(self, value: SSAValue, dtype: str) -> Scalar:
        """A stored element as the type that it is computed in; exact."""
        wide = computed_dtype(dtype)
        if wide == dtype:
            return Scalar(self, value, dtype)
        return self.add(arith.ExtFOp(value, cast(AnyFloat, element_of(wide))), wide)

    def narrowed(self, x: Scalar | Number, dtype: str) -> SSAValue:
        """A computed number as a stored element of `dtype`, whose computed type is that of `x`."""
        if not isinstance(x, Scalar):
            return self.constant(x, dtype).value
        if x.dtype_name == dtype:
            return x.value
        return self.add(arith.TruncFOp(x.value, cast(AnyFloat, element_of(dtype))), dtype).value


class Scalar:
    """A number that is known when the code runs. Its operators append ops."""

    __slots__ = ("body", "dtype_name", "value")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, body: ScalarBody, value: SSAValue, dtype: str):
        self.body = body
        self.value = value
        self.dtype_name = dtype

    @property
    def dtype(self) -> ScalarType:
        """The element type."""
        return ScalarType(self.dtype_name)

    def like(self, other: Scalar | Number) -> Scalar:
        """`other`, a number of Python as a constant of this type."""
        return other if isinstance(other, Scalar) else self.body.constant(other, self.dtype_name)

    def _op(self, other: Scalar | Number, names: str, swapped: bool = False) -> Scalar:
        """One of the ops `names` of `arith`: for floats, for signed integers, for unsigned ones."""
        kinds = dict(zip("fiu", names.split(), strict=True))
        kinds["b"] = kinds["u"]
        lhs, rhs = self, self.like(other)
        if swapped:
            lhs, rhs = rhs, lhs
        cls = getattr(arith, kinds[self.dtype.kind])
        return self.body.add(cls(lhs.value, rhs.value), self.dtype_name)

    def __add__(self, other: Scalar | Number) -> Scalar:
        return self._op(other, "AddfOp AddiOp AddiOp")

    def __radd__(self, other: Number) -> Scalar:
        return self._op(other, "AddfOp AddiOp AddiOp", swapped=True)

    def __sub__(self, other: Scalar | Number) -> Scalar:
        return self._op(other, "SubfOp SubiOp SubiOp")

    def __rsub__(self, other: Number) -> Scalar:
        return self._op(other, "SubfOp SubiOp SubiOp", swapped=True)

    def __mul__(self, other: Scalar | Number) -> Scalar:
        return self._op(other, "MulfOp MuliOp MuliOp")

    def __rmul__(self, other: Number) -> Scalar:
        return self._op(other, "MulfOp MuliOp MuliOp", swapped=True)

    def __truediv__(self, other: Scalar | Number) -> Scalar:
        return self._op(other, "DivfOp DivSIOp DivUIOp")

    def __rtruediv__(self, other: Number) -> Scalar:
        return self._op(other, "DivfOp DivSIOp DivUIOp", swapped=True)

    def __pow__(self, power: int) -> Scalar:
        result = self
        for _ in range(power - 1):
            result = result * self
        return result

    def __neg__(self) -> Scalar:
        if self.dtype.kind == "f":
            return self.body.add(arith.NegfOp(self.value), self.dtype_name)
        return 0 - self

    def __and__(self, other: Scalar | Number) -> Scalar:
        return self.body.add(arith.AndIOp(self.value, self.like(other).value), self.dtype_name)

    def __or__(self, other: Scalar | Number) -> Scalar:
        return self.body.add(arith.OrIOp(self.value, self.like(other).value), self.dtype_name)

    def _compared(self, other: Scalar | Number, names: str) -> Scalar:
        """A comparison by one of the predicates `names`: for floats, for signed integers, for unsigned ones."""
        kinds = dict(zip("fiu", names.split(), strict=True))
        kinds["b"] = kinds["u"]
        predicate, rhs = kinds[self.dtype.kind], self.like(other).value
        cls = arith.CmpfOp if self.dtype.kind == "f" else arith.CmpiOp
        return self.body.add(cls(self.value, rhs, predicate), "i1")

    def __lt__(self, other: Scalar | Number) -> Scalar:
        return self._compared(other, "olt slt ult")

    def __le__(self, other: Scalar | Number) -> Scalar:
        return self._compared(other, "ole sle ule")

    def __gt__(self, other: Scalar | Number) -> Scalar:
        return self._compared(other, "ogt sgt ugt")

    def __ge__(self, other: Scalar | Number) -> Scalar:
        return self._compared(other, "oge sge uge")

    def __eq__(self, other: object) -> Scalar:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compared(cast("Scalar | Number", other), "oeq eq eq")

    def __ne__(self, other: object) -> Scalar:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compared(cast("Scalar | Number", other), "une ne ne")


class ScalarNumPy:
    """The functions of NumPy that definitions use, and `erf`, which it lacks, on Scalars."""

    @staticmethod
    def iinfo(dtype: ScalarType) -> IntegerBounds:
        """The bounds of an integer type."""
        return dtype.bounds

    @classmethod
    def abs(cls, x: Scalar) -> Scalar:
        """The magnitude; of the least signed integer, itself."""
        if x.dtype.kind == "f":
            return x.body.add(math_dialect.AbsFOp(x.value), x.dtype_name)
        # Not math.absi, which the lowering of math to libm does not take.
        return x if x.dtype.kind == "u" else cls.maximum(x, -x)

    @classmethod
    def sign(cls, x: Scalar) -> Scalar:
        """-1, 0, 1, or NaN."""
        return cls.where(x > 0, 1, cls.where(x < 0, -1, x))

    @staticmethod
    def where(condition: Scalar, x: Scalar | Number, y: Scalar | Number) -> Scalar:
        """`x` where the condition is true, else `y`; one of the two is a Scalar."""
        known = x if isinstance(x, Scalar) else y
        assert isinstance(known, Scalar)
        values = known.like(x).value, known.like(y).value
        return known.body.add(arith.SelectOp(condition.value, *values), known.dtype_name)

    @staticmethod
    def maximum(x: Scalar, y: Scalar | Number) -> Scalar:
        """The larger one; NaN if either is."""
        return x._op(y, "MaximumfOp MaxSIOp MaxUIOp")  # pyright: ignore[reportPrivateUsage]

    @staticmethod
    def minimum(x: Scalar, y: Scalar | Number) -> Scalar:
        """The smaller one; NaN if either is."""
        return x._op(y, "MinimumfOp MinSIOp MinUIOp")  # pyright: ignore[reportPrivateUsage]

    @classmethod
    def clip(cls, x: Scalar, low: Number, high: Number) -> Scalar:
        """`x` within the bounds."""
        return cls.minimum(cls.maximum(x, low), high)

    @classmethod
    def power(cls, x: Scalar, y: Scalar | Number) -> Scalar:
        """`x` to the power of `y`; of integers with wrap-around, 1 / x^|y| cut off where `y` is negative."""
        if x.dtype.kind == "f":
            return x.body.add(math_dialect.PowFOp(x.value, x.like(y).value), x.dtype_name)
        y = x.like(y)
        # In 64 bits, so that an exponent of ui8 has a sign bit of 0.
        base, exponent = (converted(side, "i64") for side in (x, y))
        is_negative = exponent < 0
        exponent = cls.where(is_negative, exponent & 1, exponent)
        raised = x.body.add(math_dialect.IPowIOp(base.value, exponent.value), "i64")
        vanishes = is_negative & (base != 1) & (base != -1)
        return converted(cls.where(vanishes, 0, raised), x.dtype_name)


def _unary(op: Callable[[SSAValue], Operation]) -> Any:
    def apply(x: Scalar) -> Scalar:
        return x.body.add(op(x.value), x.dtype_name)

    return staticmethod(apply)


for _name, _op in {
    "rint": math_dialect.RoundEvenOp, "trunc": math_dialect.TruncOp, "floor": math_dialect.FloorOp,
    "ceil": math_dialect.CeilOp, "sqrt": math_dialect.SqrtOp, "exp": math_dialect.ExpOp, "log": math_dialect.LogOp,
    "sin": math_dialect.SinOp, "cos": math_dialect.CosOp, "tanh": math_dialect.TanhOp, "erf": math_dialect.ErfOp,
    "expm1": math_dialect.ExpM1Op, "log1p": math_dialect.Log1pOp,
}.items():  # fmt: skip
    setattr(ScalarNumPy, _name, _unary(_op))


def divided(np: ScalarNumPy, x: Scalar, y: Scalar) -> Scalar:
    """The quotient of integers cut off towards zero, 0 by 0, and with wrap-around, none of which traps."""
    by_zero = y == 0
    if x.dtype.kind == "u":
        return np.where(by_zero, 0, x / np.where(by_zero, 1, y))
    by_minus_one = y == -1
    quotient = x / np.where(by_zero | by_minus_one, 1, y)
    return np.where(by_zero, 0, np.where(by_minus_one, -x, quotient))


# Conversions ------------------------------------------------------------------------------------------------------


def converted(x: Scalar, dtype: str, *, rounding: str = "truncate") -> Scalar:
    """`x` as `dtype`, by the rules of `layout_ir.elements.numpy_types.convert`.

    The result is stored: f16 and bf16 are not in f32.
    """
    source, target = x.dtype, ScalarType(dtype)
    body, element = x.body, element_of(dtype)
    if x.dtype_name == dtype:
        return x
    if target.kind == "b":
        return x != 0
    if target.kind == "f" and source.kind == "f":
        cls: Any = arith.ExtFOp if source.bits < target.bits else arith.TruncFOp
        return body.add(cls(x.value, element), dtype)
    if target.kind == "f":
        cls: Any = arith.SIToFPOp if source.kind == "i" else arith.UIToFPOp
        return body.add(cls(x.value, element), dtype)
    if source.kind == "f":
        np: Any = ScalarNumPy
        return _saturated(np.trunc(x) if rounding == "truncate" else np.rint(x), dtype)
    if rounding == "nearest" and source.kind != "b":
        x = _bounded(x, target)
    if source.bits == target.bits:
        return Scalar(body, x.value, dtype)
    if source.bits > target.bits:
        return body.add(arith.TruncIOp(x.value, cast("IntegerType[Any, Any]", element)), dtype)
    extend: Any = arith.ExtSIOp if source.kind == "i" else arith.ExtUIOp
    return body.add(extend(x.value, element), dtype)


def _saturated(whole: Scalar, dtype: str) -> Scalar:
    """Whole numbers of a float as integers: out of range is the nearest bound, NaN is 0."""
    np, body = ScalarNumPy, whole.body
    low, high = ScalarNumPy.iinfo(ScalarType(dtype))
    # As a float the upper bound may round up to a number that is out of range.
    above = whole >= float(high) + 1.0
    below, is_nan = whole < float(low), whole != whole
    inside = np.where(above | below | is_nan, 0.0, whole)
    cls: Any = arith.FPToUIOp if ScalarType(dtype).kind == "u" else arith.FPToSIOp
    number = body.add(cls(inside.value, element_of(dtype)), dtype)
    return np.where(above, high, np.where(below, low, number))


def _bounded(x: Scalar, target: ScalarType) -> Scalar:
    """An integer within the bounds of another integer type, as far as they are bounds of its own."""
    (low, high), own = ScalarNumPy.iinfo(target), ScalarNumPy.iinfo(x.dtype)
    if low > own.min:
        x = ScalarNumPy.maximum(x, low)
    return ScalarNumPy.minimum(x, high) if high < own.max else x
