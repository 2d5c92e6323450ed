"""Ops of tensor and tosa that move elements, on the tensors of their memory.

A slice or a pad of a dim is one of the outermost digit of the dim, where it begins and ends at whole blocks; of a dim
without blocks it may begin anywhere, at numbers that only the run time knows too. What is pads already and becomes
elements, behind the last of a block, is written first. A dim without pads is repeated in its outermost digit, and
reversed in each. A reshape is the algebra's: the same memory in other digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from xdsl.dialects import arith, tensor, tosa
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntElementsAttr,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    TensorType,
    UnitAttr,
    i32,
)
from xdsl.ir import Block, Operation, Region, SSAValue

from layout_ir.algebra.pads import PadPolicy
from layout_ir.algebra.physical import PhysicalTensor, physical_tensor
from layout_ir.dialects.layout import layout_of
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.dialects.upstream.tosa_ops import TOSA_OPS, ShapeType
from layout_ir.errors import LayoutError
from layout_ir.foreign import movement
from layout_ir.foreign.scalar import constant_value
from layout_ir.passes.physical.op_rewrites import concatenated
from layout_ir.passes.physical.physical_builder import PhysicalBuilder, PhysicalValue, unknown_pads

T = TypeVar("T")

Number = SSAValue | int
"""A number that the program states, or the value that has it at run time."""


def rewrite_move(
    build: PhysicalBuilder, op: Operation, values: Mapping[SSAValue, PhysicalValue], result: PhysicalTensor
) -> PhysicalValue | None:
    """What stands for the result of `op`, whose physical tensor is to be `result`; None for an op of another kind.

    Raises LayoutError where the op cuts through blocks, or changes the rank of tensors that are not row-major.
    """
    match op:
        case tensor.ConcatOp():
            parts = [values[x] for x in op.inputs]
            return build.kept(concatenated(build, op.dim.value.data, parts, result), result)
        case tosa.ConcatOp():
            parts = [values[x] for x in op.operands]
            return build.kept(concatenated(build, op.axis.value.data, parts, result), result)
        case tensor.PadOp():
            ends = list(zip(op.static_low.get_values(), op.static_high.get_values(), strict=True))
            made = _pad(build, values[op.source], ends, lambda: _yielded(op), result, op.nofold)
            return build.kept(made, result)
        case tensor.ExtractSliceOp():
            return build.kept(_extract(build, op, values[op.source], result), result)
        case tensor.InsertSliceOp():
            return _insert(build, op, values[op.source], values[op.dest], result)
        case tensor.CastOp():
            return build.kept(values[op.source], result)
        case _ if isinstance(op, movement.RESHAPES):
            return _reshape(build, op, values[op.operands[0]], result)
        case _ if isinstance(op, movement.SLICE):
            made = _slice(build, _known(movement.cuts_of(op)), values[op.operands[0]], result)
            return build.kept(made, result)
        case _ if isinstance(op, movement.PAD):
            ends = _known(movement.widening_of(op))
            number = values[op.operands[2]]
            made = _pad(build, values[op.operands[0]], ends, lambda: _only_element(build, number), result)
            return build.kept(made, result)
        case _ if isinstance(op, movement.TILE):
            made = _tile(build, _known(movement.multiples_of(op)), values[op.operands[0]], result)
            return build.kept(made, result)
        case _ if isinstance(op, movement.REVERSE):
            made = _reverse(build, _known(movement.reversed_dim_of(op)), values[op.operands[0]])
            return build.kept(made, result)
        case _:
            return None


def _reshape(
    build: PhysicalBuilder, op: Operation, x: PhysicalValue, result: PhysicalTensor
) -> PhysicalValue:
    """The same memory in the digits that the algebra finds for it under the other shape."""
    seen = layout_of(op.operands[0].type).reshape(result.extents)
    return build.kept(build.reshaped(x, replace(physical_tensor(seen), pad=x.tensor.pad)), result)


# Pads ----------------------------------------------------------------------------------------------------------------


def _pad(
    build: PhysicalBuilder, x: PhysicalValue, ends: Sequence[tuple[int, int]], yielded: Callable[[], SSAValue],
    result: PhysicalTensor, nofold: UnitAttr | None = None,
) -> PhysicalValue:  # fmt: skip
    """`x` with elements in front and behind of each dim, of the value that `yielded` makes."""
    low, high = tuple(front for front, _ in ends), tuple(behind for _, behind in ends)
    if DYNAMIC_INDEX in (*low, *high):
        raise LayoutError("how many elements it adds is known at run time only")
    value = yielded()
    changed = [dim for dim in range(len(low)) if low[dim] or high[dim]]
    for dim in changed:
        if len(x.tensor.places(dim)) == 1:
            x = build.trimmed(x, dim)
        elif x.tensor.is_padded(dim) and high[dim]:
            x = build.reorder(x, replace(x.tensor, pad=_policy(value)))
    physical, rank = x.tensor, len(x.tensor.dims)
    before, after = [0] * rank, [0] * rank
    for dim in changed:
        at = physical.places(dim)[0]
        unit, had = physical.dims[at].unit, physical.dims[at].count
        if physical.lo[dim] or low[dim] % unit:
            raise LayoutError(f"the {low[dim]} elements in front of dim {dim} are no whole blocks of {unit}")
        before[at] = low[dim] // unit
        count = -(-result.extents[dim] // unit)
        after[at] = count - before[at] - had
        physical = physical.with_dim(dim, count, 0)
    if min((*before, *after), default=0) < 0:
        raise LayoutError("it takes elements away")
    physical = unknown_pads(replace(physical, extents=result.extents))
    if not any((*before, *after)):
        return PhysicalValue(x.value, physical)
    block = Block(arg_types=[IndexType()] * rank)
    block.add_op(tensor.YieldOp(value))
    type = TensorType(x.element, physical.shape)
    new = tensor.PadOp(x.value, [], [], Region(block), before, after, type, nofold)
    return PhysicalValue(build.insert(new), physical)


def _yielded(op: tensor.PadOp) -> SSAValue:
    """What the pads hold: one value from outside. Raises LayoutError where it is computed of the place."""
    block = op.region.block
    value = cast("tensor.YieldOp", block.last_op).operands[0]
    if (
        isinstance(value.owner, Operation)
        and value.owner.parent is block
        and constant_value(value) is not None
    ):
        constant = value.owner.clone()
        constant.location = op.location
        cast("Block", op.parent).insert_op_before(constant, op)
        return constant.results[0]
    if value.owner is block or (isinstance(value.owner, Operation) and value.owner.parent is block):
        raise LayoutError("what its pads hold is computed, and not one value")
    return value


def _only_element(build: PhysicalBuilder, x: PhysicalValue) -> SSAValue:
    """The element of `x`, a tensor of one: a constant where that is one."""
    owner = x.value.owner
    literal = (
        owner.properties.get("values" if isinstance(owner, tosa.ConstOp) else "value")
        if isinstance(owner, tosa.ConstOp | arith.ConstantOp)
        else None
    )
    if isinstance(literal, DenseIntOrFPElementsAttr):
        return build.insert(arith.ConstantOp(literal.get_attrs()[0]))
    zeros = [build.insert(arith.ConstantOp(IntegerAttr.from_index_int_value(0))) for _ in x.tensor.dims]
    return build.insert(tensor.ExtractOp(x.value, zeros, x.element))


def _policy(value: SSAValue) -> PadPolicy:
    number = constant_value(value)
    if number is None or number != number:
        raise LayoutError("what its pads hold is no known number, and they lie behind a partial block")
    return "zero" if number == 0 else number.item()


# Slices --------------------------------------------------------------------------------------------------------------


def _extract(
    build: PhysicalBuilder, op: tensor.ExtractSliceOp, x: PhysicalValue, result: PhysicalTensor
) -> PhysicalValue:
    return _slice(build, _cuts(op, result.extents), x, result)


def _slice(
    build: PhysicalBuilder, cuts: Sequence[tuple[Number, int, Number]], x: PhysicalValue, result: PhysicalTensor
) -> PhysicalValue:  # fmt: skip
    starts, sizes, steps, physical = _part(x.tensor, cuts)
    type = TensorType(x.element, sizes)
    new = tensor.ExtractSliceOp(x.value, starts, sizes, steps, type)
    return PhysicalValue(build.insert(new), replace(physical, extents=result.extents))


def _insert(
    build: PhysicalBuilder, op: tensor.InsertSliceOp, source: PhysicalValue, to: PhysicalValue, result: PhysicalTensor
) -> PhysicalValue:  # fmt: skip
    cuts = _cuts(op, source.tensor.extents)
    to = build.reorder(to, unknown_pads(result))
    starts, sizes, steps, physical = _part(to.tensor, cuts)
    part = build.reorder(source, replace(physical, extents=source.tensor.extents))
    static_starts, dynamic_starts = _split(starts)
    static_steps, dynamic_steps = _split(steps)
    new = tensor.InsertSliceOp.get(
        part.value, to.value, sizes, static_starts, static_steps, dynamic_starts, [], dynamic_steps,
        tensor_type(to.value.type),
    )  # fmt: skip
    return PhysicalValue(build.insert(new), unknown_pads(result))


def _cuts(
    op: tensor.ExtractSliceOp | tensor.InsertSliceOp, extents: tuple[int, ...]
) -> list[tuple[Number, int, Number]]:
    """Per dim where the slice starts, how many elements it has, and their step.

    Raises LayoutError where it leaves out dims, or its sizes are known at run time only.
    """
    starts = _mixed(op.static_offsets.get_values(), op.offsets)
    steps = _mixed(op.static_strides.get_values(), op.strides)
    sizes = tuple(op.static_sizes.get_values())
    if sizes != extents:
        raise LayoutError("the slice has other dims than the whole, which is known of row-major tensors only")
    return list(zip(starts, sizes, steps, strict=True))


def _mixed(static: Sequence[int], dynamic: Sequence[SSAValue]) -> list[Number]:
    values = iter(dynamic)
    return [next(values) if number == DYNAMIC_INDEX else number for number in static]


def _split(numbers: Sequence[Number]) -> tuple[list[int], list[SSAValue]]:
    static = [DYNAMIC_INDEX if isinstance(number, SSAValue) else number for number in numbers]
    return static, [number for number in numbers if isinstance(number, SSAValue)]


def _part(
    whole: PhysicalTensor, cuts: Sequence[tuple[Number, int, Number]]
) -> tuple[list[Number], list[int], list[Number], PhysicalTensor]:
    """Starts, sizes and steps of a slice in physical dims, and the physical tensor that it is, but for its extents.

    Raises LayoutError where it cuts through a block.
    """
    starts: list[Number] = [0] * len(whole.dims)
    sizes, steps = list(whole.shape), list[Number]([1] * len(whole.dims))
    physical = unknown_pads(whole)
    for dim, (start, size, step) in enumerate(cuts):
        extent = whole.extents[dim]
        if (start, size, step) == (0, extent, 1):
            continue
        at = whole.places(dim)[0]
        unit, low = whole.dims[at].unit, whole.lo[dim]
        if len(whole.places(dim)) == 1 and unit == 1 and (not low or not isinstance(start, SSAValue)):
            starts[at] = start if isinstance(start, SSAValue) else start + low
            sizes[at], steps[at] = size, step
        elif (
            not isinstance(start, SSAValue)
            and step == 1
            and (start + low) % unit == 0
            and (size % unit == 0 or start + size == extent)
        ):
            starts[at], sizes[at] = (start + low) // unit, -(-size // unit)
        else:
            raise LayoutError(f"it cuts dim {dim} inside a block of {unit}")
        physical = physical.with_dim(dim, sizes[at], 0)
    return starts, sizes, steps, physical


# Repetitions and reversals --------------------------------------------------------------------------------------------


def _tile(
    build: PhysicalBuilder, multiples: Sequence[int], x: PhysicalValue, result: PhysicalTensor
) -> PhysicalValue:
    repeated = [dim for dim, count in enumerate(multiples) if count != 1]
    for dim in repeated:
        x = _without_pads(build, x, dim)
    counts, physical = [1] * len(x.tensor.dims), unknown_pads(x.tensor)
    for dim in repeated:
        at = physical.places(dim)[0]
        counts[at] = multiples[dim]
        physical = physical.with_dim(dim, physical.dims[at].count * multiples[dim], 0)
    physical = replace(physical, extents=result.extents)
    if not repeated:
        return PhysicalValue(x.value, physical)
    shape = TOSA_OPS["tosa.const_shape"].create(
        result_types=[ShapeType(IntAttr(len(counts)))],
        properties={"values": DenseIntElementsAttr.from_list(TensorType(IndexType(), [len(counts)]), counts)},
    )
    type = TensorType(x.element, physical.shape)
    new = movement.TILE.create(operands=[x.value, build.insert(shape)], result_types=[type])
    return PhysicalValue(build.insert(new), physical)


def _reverse(build: PhysicalBuilder, dim: int, x: PhysicalValue) -> PhysicalValue:
    x = _without_pads(build, x, dim)
    value = x.value
    for at in x.tensor.places(dim):
        axis = IntegerAttr(at, i32)
        new = movement.REVERSE.create(operands=[value], result_types=[value.type], properties={"axis": axis})
        value = build.insert(new)
    return PhysicalValue(value, unknown_pads(x.tensor))


def _without_pads(build: PhysicalBuilder, x: PhysicalValue, dim: int) -> PhysicalValue:
    """`x` without pads of `dim`, which lies somewhere. Raises LayoutError where blocks have them."""
    if len(x.tensor.places(dim)) <= 1:
        return build.single(x, dim)
    if x.tensor.is_padded(dim):
        raise LayoutError(f"dim {dim} has pads in its last block")
    return x


def _known(numbers: T | None) -> T:
    """Raises LayoutError where the numbers that an op takes as an operand are None, not known."""
    if numbers is None:
        raise LayoutError("its numbers are known at run time only, or do not fit its tensors")
    return numbers
