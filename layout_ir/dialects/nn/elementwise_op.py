"""What the elementwise ops have in common: shapes that broadcast, element types, and numbers in pads.

An op is a class with a function that computes it (`elementwise_op`). The function takes NumPy itself, `np`, which tools
that compute nothing do not import; then the operands as arrays, then the attributes in order. Arrays are of a type that
NumPy computes in (f16 and bf16 in single precision), or hold exact integers (dtype object). One function serves all:
the reference runs it on the whole padded box, verifiers and passes on the numbers in the pads of the operands, which
gives those in the pads of the result, and ONNX import on constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeVar, cast

from xdsl.dialects.builtin import AnyFloat, BFloat16Type, Float16Type, TensorType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def

from layout_ir.dialects.nn.nn_op import NNOp
from layout_ir.dialects.nn.tensor_types import (
    ELEMENTS,
    FLOATS,
    NUMBERS,
    Shape,
    round_to,
    shape_of,
    tensor_type,
)
from layout_ir.elements.elementwise_formulas import Compute, broadcast

_LIMITS = {0.0, 0.5, 1.0, -1.0, math.inf, -math.inf}
"""Arguments and results of which every library is exact: exp(0) is 1, tanh(inf) is 1, the sigmoid of 0 is 0.5."""

SIGNED = (*FLOATS, "i8", "i16", "i32", "i64")
"""Element types of numbers below 0."""


class ElementwiseOp(NNOp):
    """Operands broadcast as NumPy does; those that have the result's shape must have its format."""

    ALLOWED: ClassVar[tuple[str, ...]] = FLOATS
    SAME_FORMAT: ClassVar[bool] = True

    EXACT: ClassVar[bool] = True
    """Whether every kernel computes the op to the last bit; of one that approximates it, only limits are promised."""

    COMPUTE: ClassVar[Callable[..., Any]]
    """The op on arrays: NumPy, the operands, the attributes."""

    def parameters(self) -> tuple[Any, ...]:
        """The last arguments of `COMPUTE`: the values of the attributes, in order."""
        return tuple(getattr(self, name) for name in self.__fields__)

    def compute(self, np: Any, *operands: Any) -> Any:
        """The op, with its attributes, on arrays that broadcast."""
        return self.COMPUTE(np, *operands, *self.parameters())

    def infer(self) -> Shape:
        """The shape to which all operands broadcast."""
        return broadcast(*self.shapes)

    def formatted_operands(self) -> Sequence[SSAValue]:
        """The operands that are not broadcast."""
        shape = shape_of(self.result)
        return [operand for operand in self.operands if shape_of(operand) == shape]

    def pad_result(self, pads: Sequence[float | None]) -> float | None:
        """`COMPUTE` of the numbers in the operands' pads.

        None where an operand is broadcast (its pads need not lie under those of the result), where a number is not
        known, or where libraries that approximate the op may differ in the result.
        """
        full = all(shape == shape_of(self.result) for shape in self.shapes)
        # Stored pads hold the promised number rounded to the element type.
        held = [
            None if pad is None else round_to(pad, tensor_type(operand).element_type)
            for operand, pad in zip(self.operands, pads, strict=True)
        ]
        known = [pad for pad in held if pad is not None]
        if not full or len(known) != len(self.operands):
            return None
        if not self.EXACT and not _LIMITS.issuperset(known):
            return None
        floats = tuple(isinstance(tensor_type(operand).element_type, AnyFloat) for operand in self.operands)
        value = _compute_number(self.COMPUTE, tuple(known), floats, self.parameters())
        if value is None or not (self.EXACT or value in _LIMITS):
            return None
        element = self.infer_element()
        rounded = round_to(value, element)
        # Half precision may be computed in a wider one, which rounds twice.
        twice = isinstance(element, Float16Type | BFloat16Type)
        return None if twice and rounded != value else rounded


@lru_cache(maxsize=1024)
def _compute_number(
    compute: Callable[..., Any],
    numbers: tuple[float, ...],
    floats: tuple[bool, ...],
    parameters: tuple[Any, ...],
) -> float | None:
    """`compute` of one number per operand, in double precision or exact integers.

    None where the result depends on the sign of a zero, is NaN, or has a pole (1 / 0).
    """
    import numpy as np

    # A 0 in pads may have either sign. Exact integers do not wrap, unlike those of the element type.
    operands = [
        np.array([value, -value] if value == 0 else [value]) if is_float else np.array([int(value)], object)
        for value, is_float in zip(numbers, floats, strict=True)
    ]
    # A pole, such as 1 / 0, is an error; libraries raise the same flag at infinite operands, where it is none.
    pole = "raise" if all(map(math.isfinite, numbers)) else "ignore"
    try:
        with np.errstate(all="ignore", divide=pole):
            values = compute(np, *np.ix_(*operands), *parameters).ravel().tolist()
    except ArithmeticError:
        return None
    # NaN is no value either, and not equal to itself.
    if not all(value == values[0] for value in values):
        return None
    return int(values[0]) if isinstance(values[0], bool) else values[0]


class UnaryOp(ElementwiseOp):
    """An elementwise op of one operand."""

    x = operand_def(TensorType)


class BinaryOp(ElementwiseOp):
    """An elementwise op of two operands."""

    ALLOWED: ClassVar[tuple[str, ...]] = NUMBERS

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)


class ComparisonOp(BinaryOp):
    """Two operands of one element type, and a result of truth values."""

    ALLOWED: ClassVar[tuple[str, ...]] = ELEMENTS
    SAME_ELEMENT: ClassVar[bool] = False

    def infer_element(self) -> Attribute:
        """The element type of the result, i1."""
        return i1

    def check_elements(self) -> None:
        """Raises LayoutError where the operands differ in their element types, or the result's is not i1."""
        self.check_allowed(self.operands)
        self.check_equal_elements(self.operands)
        self.check_truth_value(self.result)


class LogicOp(BinaryOp):
    """Two operands of truth values."""

    ALLOWED: ClassVar[tuple[str, ...]] = ("i1",)


_Op = TypeVar("_Op", bound=ElementwiseOp)


def elementwise_op(
    name: str, compute: Compute, *, elements: tuple[str, ...] | None = None, exact: bool = True
) -> Callable[[type[_Op]], type[_Op]]:
    """Defines the op `name` that `compute` computes, for other element types than its base class has if given."""

    def define(op: type[_Op]) -> type[_Op]:
        op.name = name
        op = irdl_op_definition(op)
        op.COMPUTE = staticmethod(cast("Callable[..., Any]", compute))
        op.EXACT = exact
        op.ALLOWED = elements or op.ALLOWED
        return op

    return define
