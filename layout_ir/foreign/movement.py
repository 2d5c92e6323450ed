"""Ops of tensor and tosa that cut, widen, repeat or reverse dims, as numbers per dim.

    tosa.slice %x, %start, %size                cuts      start, size, step of each dim
    tosa.pad %x, %padding, %number              widening  elements in front and behind of each dim
    tosa.tile %x, %multiples                    multiples of each dim
    tosa.reverse %x {axis = 1 : i32}            the dim

tensor has some numbers in attributes and others as operands, tosa has them all as operands, shapes: what is no constant
is known at run time only.
"""

from __future__ import annotations

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseIntOrFPElementsAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from layout_ir.dialects.upstream.tosa_ops import TOSA_OPS
from layout_ir.foreign.structured import shape

SLICE, PAD, TILE, REVERSE = (TOSA_OPS[f"tosa.{name}"] for name in ("slice", "pad", "tile", "reverse"))
RESHAPES = (tensor.CollapseShapeOp, tensor.ExpandShapeOp, tensor.ReshapeOp, TOSA_OPS["tosa.reshape"])
"""Ops that give the same elements other dims."""

Cut = tuple[int, int, int]
"""Start, size and step of a slice of one dim; DYNAMIC_INDEX for what only the run time knows."""


def shape_values(value: SSAValue) -> tuple[int, ...] | None:
    """The numbers of a shape of tosa; None where it is no constant."""
    owner = value.owner
    if not isinstance(owner, TOSA_OPS["tosa.const_shape"]):
        return None
    values = owner.properties.get("values")
    if not isinstance(values, DenseIntOrFPElementsAttr):
        return None
    return tuple(int(number) for number in values.get_values())  # pyright: ignore


def _second_operand_values(op: Operation, count: int) -> tuple[int, ...] | None:
    """The `count` numbers of a shape, operand 1; None where there are others, or they are not known."""
    values = shape_values(op.operands[1]) if len(op.operands) > 1 else None
    return values if values is not None and len(values) == count else None


def cuts_of(op: Operation) -> list[Cut] | None:
    """Per dim what a slice takes; None for an op of another kind, and where nothing is known of it."""
    if isinstance(op, tensor.ExtractSliceOp | tensor.InsertSliceOp):
        fields = (op.static_offsets, op.static_sizes, op.static_strides)
        return list(zip(*(field.get_values() for field in fields), strict=True))
    if isinstance(op, SLICE):
        sizes = shape(op.results[0])
        starts = _second_operand_values(op, len(sizes))
        # A start that is -1, or a size that does not fit, is not one that tosa's verifier takes.
        ends = zip(starts or (), sizes, shape(op.operands[0]), strict=False)
        if starts is None or any(start < 0 or start + size > extent for start, size, extent in ends):
            return None
        return [(start, size, 1) for start, size in zip(starts, sizes, strict=True)]
    return None


def widening_of(op: Operation) -> list[tuple[int, int]] | None:
    """Per dim how many elements a pad adds in front and behind; None for an op of another kind, and where nothing is
    known of it."""
    if isinstance(op, tensor.PadOp):
        return list(zip(op.static_low.get_values(), op.static_high.get_values(), strict=True))
    if isinstance(op, PAD):
        source, result = shape(op.operands[0]), shape(op.results[0])
        numbers = _second_operand_values(op, 2 * len(result))
        ends = None if numbers is None else list(zip(numbers[::2], numbers[1::2], strict=True))
        if ends is None or min(numbers or (0,)) < 0 or len(op.operands) != 3:
            return None
        fits = all(
            low + extent + high == whole
            for (low, high), extent, whole in zip(ends, source, result, strict=True)
        )
        return ends if fits else None
    return None


def multiples_of(op: Operation) -> tuple[int, ...] | None:
    """Per dim how often tosa.tile repeats it; None for an op of another kind, and where nothing is known of it."""
    if not isinstance(op, TILE):
        return None
    source, result = shape(op.operands[0]), shape(op.results[0])
    found = _second_operand_values(op, len(result))
    fits = found is not None and all(
        count >= 1 and count * extent == whole
        for count, extent, whole in zip(found, source, result, strict=True)
    )
    return found if fits else None


def reversed_dim_of(op: Operation) -> int | None:
    """The dim that tosa.reverse reads backwards; None for an op of another kind."""
    axis = op.properties.get("axis") if isinstance(op, REVERSE) else None
    if not isinstance(axis, IntegerAttr) or not 0 <= axis.value.data < len(shape(op.results[0])):
        return None
    return axis.value.data


def whole_dims_of(op: Operation) -> list[int] | None:
    """The dims that tosa.tile repeats or tosa.reverse reverses; None for other ops, and where they are not known."""
    multiples, reversed_dim = multiples_of(op), reversed_dim_of(op)
    if multiples is not None:
        return [dim for dim, count in enumerate(multiples) if count > 1]
    return None if reversed_dim is None else [reversed_dim]


def is_known(numbers: tuple[int, ...]) -> bool:
    """Whether the program states all of `numbers`."""
    return DYNAMIC_INDEX not in numbers
