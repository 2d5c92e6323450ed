"""Opaque nodes each element of whose result comes from one element of each operand, as functions of these.

They are rare in networks, so that they have no ops of their own: a loop computes what the function here says. Functions
take NumPy, as those of `dialects.nn.elementwise` do, or what stands for it (`backends.llvm.loops.expression`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of
from layout_ir.elements.element_types import bits_of, element_type
from layout_ir.elements.elementwise_formulas import divide

Compute = Callable[..., Any]
"""NumPy, then the operands as arrays."""


def elementwise_function(op: nn.OpaqueOp) -> Compute | None:
    """What a node computes at each element of its one result; None where it is no such node, or is used otherwise."""
    if op.domain.data or op.captures.data or not all(op.given_inputs) or len(op.results) != 1:
        return None
    kinds = [element_type(dtype_of(value.type)) for value in op.operands]
    integers = [not kind.is_float and kind.kind != "bool" for kind in kinds]
    match op.title:
        case "Acos" | "Acosh" | "Asin" | "Asinh" | "Atan" | "Atanh" | "Cosh" | "Sinh" | "Tan":
            return partial(_called, name=_NAMES.get(op.title, op.title.lower()))
        case "IsNaN":
            return _is_nan if len(kinds) == 1 and kinds[0].is_float else None
        case "IsInf":
            if not kinds[0].is_float:
                return None
            return partial(
                _is_infinite,
                positive=bool(op.node_attribute("detect_positive", 1)),
                negative=bool(op.node_attribute("detect_negative", 1)),
            )
        case "Shrink":
            bias, bound = op.node_attribute("bias", 0.0), op.node_attribute("lambd", 0.5)
            return partial(_shrunk, bias=bias, bound=bound) if kinds[0].is_float else None
        case "BitwiseAnd" | "BitwiseOr" | "BitwiseXor":
            return _BITWISE[op.title] if all(integers) else None
        case "BitwiseNot":
            return _inverted if all(integers) else None
        case "BitShift":
            left = op.node_attribute("direction", "") == "LEFT"
            return partial(_shifted, bits=kinds[0].bits, left=left) if all(integers) else None
        case "Mod":
            if all(kind.is_float for kind in kinds):
                return _float_remainder if op.node_attribute("fmod", 0) else None
            if not all(integers):
                return None
            return _signed_remainder if op.node_attribute("fmod", 0) else _remainder
        case _:
            return None


def same_bits(op: nn.OpaqueOp) -> str | None:
    """The integer type in which a node moves elements as they are: a BitCast to elements of the same width."""
    if op.title != "BitCast" or op.domain.data:
        return None
    source, result = (bits_of(dtype_of(value.type)) for value in (op.operands[0], op.results[0]))
    return f"i{source}" if source == result else None


_NAMES = {
    "Acos": "arccos", "Acosh": "arccosh", "Asin": "arcsin", "Asinh": "arcsinh", "Atan": "arctan", "Atanh": "arctanh",
}  # fmt: skip
"""What NumPy calls functions that ONNX calls otherwise."""


def _called(np: Any, x: Any, *, name: str) -> Any:
    return getattr(np, name)(x)


def _is_nan(np: Any, x: Any) -> Any:
    return np.isnan(x)


def _is_infinite(np: Any, x: Any, *, positive: bool, negative: bool) -> Any:
    infinity = float("inf")
    if positive and negative:
        return np.abs(x) == infinity
    if not positive and not negative:
        return x > infinity  # which nothing is
    return x == (infinity if positive else -infinity)


def _shrunk(np: Any, x: Any, *, bias: float, bound: float) -> Any:
    """x moved towards 0 by the bias where it is beyond the bounds, else 0, as for what is no number."""
    return np.where(x < -bound, x + bias, np.where(x > bound, x - bias, x.dtype.type(0)))


def _shifted(np: Any, x: Any, y: Any, *, bits: int, left: bool) -> Any:
    """x shifted by y bits. By all that it has, or by fewer than none, nothing is left of it but its sign, which shifts
    to the right repeat."""
    is_outside = y >= bits
    if y.dtype.kind == "i":
        is_outside = is_outside | (y < 0)
    by = np.where(is_outside, bits - 1, y)
    moved = x << by if left else x >> by
    return moved if x.dtype.kind == "i" and not left else np.where(is_outside, x.dtype.type(0), moved)


def _remainder(np: Any, x: Any, y: Any) -> Any:
    """What a division rounded down leaves, of the sign of the divisor; x where that is 0."""
    return x - x // y * y


def _signed_remainder(np: Any, x: Any, y: Any) -> Any:
    """What a division cut off towards 0 leaves, of the sign of x."""
    return x - divide(np, x, y) * y


def _float_remainder(np: Any, x: Any, y: Any) -> Any:
    """What a division cut off towards 0 leaves, exactly, of the sign of x."""
    return np.fmod(x, y)


def _inverted(np: Any, x: Any) -> Any:
    return x ^ -1


def _and(np: Any, x: Any, y: Any) -> Any:
    return x & y


def _or(np: Any, x: Any, y: Any) -> Any:
    return x | y


def _xor(np: Any, x: Any, y: Any) -> Any:
    return x ^ y


_BITWISE: dict[str, Compute] = {"BitwiseAnd": _and, "BitwiseOr": _or, "BitwiseXor": _xor}
