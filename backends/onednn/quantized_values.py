"""Reorders that make real numbers of stored 8-bit integers, and such integers of real numbers."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, dtype_of

_BYTES = ("i8", "ui8")


@dataclass(frozen=True, slots=True)
class Dequantized:
    """Real numbers that are stored as integers of 8 bits: (stored - zero_point) * scale."""

    stored: SSAValue
    scale: tuple[float, ...]
    """One number, or one per index of `dim`."""
    zero_point: tuple[float, ...]
    dim: int | None

    @property
    def is_per_tensor(self) -> bool:
        """Whether scale and zero point are the same for all elements."""
        return len(self.scale) == len(self.zero_point) == 1

    def is_stored_as(self, other: Dequantized) -> bool:
        """Whether equal integers of both stand for equal numbers."""
        types = [dtype_of(found.stored.type) for found in (self, other)]
        parameters = [(found.scale, found.zero_point, found.dim) for found in (self, other)]
        return types[0] == types[1] and parameters[0] == parameters[1]


def dequantized(value: SSAValue) -> Dequantized | None:
    """What `value` is dequantized from, 8-bit integers; None for any other value."""
    op = value.owner
    if (
        not isinstance(op, ReorderOp)
        or dtype_of(value.type) != "f32"
        or dtype_of(op.input.type) not in _BYTES
    ):
        return None
    if _side(op, "scale", 1) != (1.0,) or _side(op, "zero_point", 1) != (0.0,):
        return None
    dim = None if op.dim is None else op.dim.value.data
    return Dequantized(op.input, _side(op, "scale", 0), _side(op, "zero_point", 0), dim)


def quantizing(op: Operation) -> tuple[float, float] | None:
    """Scale and zero point of the 8-bit integers as which `op` stores real numbers; None for any other op, and for one
    with parameters per channel."""
    if not isinstance(op, ReorderOp) or dtype_of(op.result.type) not in _BYTES or op.dim is not None:
        return None
    if dtype_of(op.input.type) != "f32":
        return None
    if _side(op, "scale", 0) != (1.0,) or _side(op, "zero_point", 0) != (0.0,):
        return None
    return _side(op, "scale", 1)[0], _side(op, "zero_point", 1)[0]


def erase_unused(owner: object) -> None:
    """Erases a reorder that nobody uses, and the constant that it alone reads."""
    if isinstance(owner, ReorderOp) and not list(owner.result.uses):
        source = owner.input.owner
        Rewriter.erase_op(owner)
        if isinstance(source, nn.ConstantOp) and not list(source.result.uses):
            Rewriter.erase_op(source)


def _side(op: ReorderOp, name: str, side: int) -> tuple[float, ...]:
    found = op.quantization_parameter(name)[side]
    return found if isinstance(found, tuple) else (found,)
