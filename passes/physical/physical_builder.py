"""Values of a physical program, and the ops that bring one to other physical dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import copysign, prod
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, DenseResourceAttr, NoneAttr, TensorType, i64
from xdsl.dialects.tensor import InsertSliceOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.algebra.pads import PadPolicy, pad_number
from layout_ir.algebra.physical import (
    PadStep,
    PhysicalDim,
    PhysicalTensor,
    ReshapeStep,
    SliceStep,
    TensorStep,
    TransposeStep,
    evaluate,
    pad_boxes,
    reorder_steps,
    row_major,
)
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp, dtype_of
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.dialects.nn.constant import literal
from layout_ir.errors import LayoutError, shape_text
from layout_ir.interfaces import CHOSEN, OPTIONS
from layout_ir.passes.selection.options.in_place import ATTRIBUTE as IN_PLACE


@dataclass(frozen=True)
class PhysicalValue:
    """A value of the physical program, and how its dims are those of the value that it stands for."""

    value: SSAValue
    tensor: PhysicalTensor

    @property
    def element(self) -> Attribute:
        """The element type."""
        return tensor_type(self.value.type).element_type


class PhysicalBuilder:
    """Makes the ops that stand for `op`, in front of it and with its location.

    `inserts` says that pads may be written by tensor.insert_slice, which writes them alone; else a tensor with other
    pads is made by slices and pads of the whole.
    """

    def __init__(self, op: Operation, *, inserts: bool = False):
        self.op = op
        self.inserts = inserts

    def insert(self, op: Operation) -> SSAValue:
        """Puts `op` in front; returns its result."""
        op.location = self.op.location
        Rewriter.insert_op(op, InsertPoint.before(self.op))
        return op.results[0]

    def nn(
        self, op: nn.NNOp, operands: Sequence[PhysicalValue], tensor: PhysicalTensor, **changes: Any
    ) -> PhysicalValue:
        """An op like `op` on other operands, with the shape of `tensor` and some attributes changed."""
        values = {name: getattr(op, name) for name in op.__fields__} | changes
        return self.new(type(op), operands, tensor, tensor_type(op.result.type).element_type, **values)

    def new(
        self, cls: type[nn.NNOp], operands: Sequence[PhysicalValue], tensor: PhysicalTensor, element: Attribute,
        **values: Any,
    ) -> PhysicalValue:  # fmt: skip
        """An op of class `cls` whose result has `element`s and the shape of `tensor`."""
        result = TensorType(element, tensor.shape)
        new = cls(*(operand.value for operand in operands), result_type=result, **values)
        if cls is type(self.op):
            kept = {k: v for k, v in self.op.attributes.items() if k not in (OPTIONS, CHOSEN, IN_PLACE)}
            new.attributes.update(kept)
        return PhysicalValue(self.insert(new), tensor)

    # Other dims -----------------------------------------------------------------------------------------------

    def reorder(self, x: PhysicalValue, tensor: PhysicalTensor) -> PhysicalValue:
        """The elements of `x` in the physical dims of `tensor`, pads as its policy says."""
        if promises(x.tensor, tensor):
            return PhysicalValue(x.value, tensor)
        steps, owner = reorder_steps(x.tensor, tensor), x.value.owner
        is_made_now = isinstance(owner, nn.ConstantOp) and _can_move(owner, steps, tensor)
        if self.inserts and not is_made_now and _same_dims(x.tensor, tensor):
            return self._with_pads(x, tensor)
        return self.apply(steps, x, tensor)

    def kept(self, x: PhysicalValue, tensor: PhysicalTensor) -> PhysicalValue:
        """The elements of `x` in the physical dims of `tensor`; where these are those of `x`, it is `x` with the pads
        that it has, which whoever reads them fills."""
        if _same_dims(x.tensor, tensor):
            return PhysicalValue(x.value, replace(tensor, pad=x.tensor.pad))
        return self.reorder(x, tensor)

    def _with_pads(self, x: PhysicalValue, tensor: PhysicalTensor) -> PhysicalValue:
        """`x` with its pads overwritten as the policy of `tensor` says."""
        number, dtype, value = pad_value(tensor.pad), dtype_of(x.value.type), x.value
        for starts, sizes in pad_boxes(tensor):
            if 0 in sizes:
                continue
            type = TensorType(x.element, sizes)
            pads = nn.ConstantOp(literal(type, _stored(number, dtype)), type)
            properties = {
                name: DenseArrayBase.from_list(i64, list(numbers))
                for name, numbers in (
                    ("static_offsets", starts),
                    ("static_sizes", sizes),
                    ("static_strides", (1,) * len(sizes)),
                )
            }
            insert = InsertSliceOp(
                operands=[self.insert(pads), value, [], [], []],
                result_types=[value.type],
                properties=properties,
            )
            value = self.insert(insert)
        return PhysicalValue(value, tensor)

    def reshaped(self, x: PhysicalValue, tensor: PhysicalTensor) -> PhysicalValue:
        """The elements of the physical tensor of `x`, pads too, in row-major order under the shape of `tensor`."""
        same = x.tensor.shape == tensor.shape
        return self.apply([] if same else [ReshapeStep(tensor.shape)], x, tensor)

    def apply(self, steps: Sequence[TensorStep], x: PhysicalValue, tensor: PhysicalTensor) -> PhysicalValue:
        """`x` after `steps`, which make `tensor` of it; of a constant another constant, and of two reshapes one."""
        value = x.value
        if steps and isinstance(value.owner, nn.ConstantOp) and _can_move(value.owner, steps, tensor):
            return PhysicalValue(self.insert(_moved(value.owner, steps, tensor)), tensor)
        for step in steps:
            if isinstance(step, ReshapeStep) and isinstance(value.owner, ReshapeOp):
                value = value.owner.input
                if tensor_type(value.type).get_shape() == step.shape:
                    continue
            value = self.insert(_op_of(step, value))
        return PhysicalValue(value, tensor)

    def splat(self, op: nn.ConstantOp, tensor: PhysicalTensor) -> PhysicalValue:
        """The constant `op`, one value everywhere, in the physical dims of `tensor`: its pads hold that value too."""
        type = TensorType(op.infer_element(), tensor.shape)
        data = op.literal.data.data
        value = nn.ConstantOp.create(
            result_types=[type], properties={"value": literal(type, data)}, attributes=op.attributes
        )
        promised = tensor.pad != "undef" and _stored(pad_value(tensor.pad), dtype_of(op.result.type)) == data
        return PhysicalValue(self.insert(value), tensor if promised else unknown_pads(tensor))

    def padded(
        self, x: PhysicalValue, before: Mapping[int, int], after: Mapping[int, int], number: float,
        tensor: PhysicalTensor,
    ) -> PhysicalValue:  # fmt: skip
        """More elements of `number` around the physical dims that are named, which makes `tensor` of `x`."""
        if not any(before.values()) and not any(after.values()):
            return PhysicalValue(x.value, tensor)
        rank = len(x.tensor.dims)
        pads = [side.get(k, 0) for side in (before, after) for k in range(rank)]
        result = TensorType(x.element, tensor.shape)
        return PhysicalValue(
            self.insert(nn.PadOp(x.value, pads=pads, value=number, result_type=result)), tensor
        )

    def broadcast(self, x: PhysicalValue, result: PhysicalTensor) -> PhysicalValue:
        """`x` in the digits that `result` has, with one value in those of dims along which it is broadcast."""
        first = len(result.extents) - len(x.tensor.extents)
        shifted = PhysicalTensor(
            (1,) * first + x.tensor.extents,
            tuple(replace(place, dim=place.dim + first) for place in x.tensor.dims),
            (0,) * first + x.tensor.lo,
            x.tensor.pad,
        )
        full = [dim >= first and shifted.extents[dim] == extent for dim, extent in enumerate(result.extents)]
        dims = [place if full[place.dim] else PhysicalDim(place.dim, 1, 1) for place in result.dims]
        while first and len(dims) > len(x.tensor.dims) and dims[0].count == 1:
            dims.pop(0)
        lo = tuple(low if full[dim] else 0 for dim, low in enumerate(result.lo))
        return self.reorder(PhysicalValue(x.value, shifted), PhysicalTensor(shifted.extents, tuple(dims), lo))

    def row_major(self, x: PhysicalValue, number: int) -> PhysicalValue:
        """Operand `number` of the op, `x`, in its logical dims. Raises LayoutError where that is a transposition."""
        plain = row_major(x.tensor.extents)
        if not moves_nothing(x.tensor, plain):
            raise LayoutError(
                f"it takes its operands in the order of their dims, but operand {number} {_where(x.tensor)}"
            )
        return self.reorder(x, plain)

    def check_row_major(self, result: PhysicalTensor) -> None:
        """Raises LayoutError where making the result from its row-major elements is a transposition."""
        if not moves_nothing(row_major(result.extents), result):
            raise LayoutError(f"it makes its result in the order of its dims, but that {_where(result)}")

    def place(self, x: PhysicalTensor, dim: int) -> int:
        """The physical dim that holds all of logical dim `dim`. Raises LayoutError where there are several."""
        places = x.places(dim)
        if len(places) != 1:
            raise LayoutError(f"it works along dim {dim}, which {_where(x)} holds in blocks")
        return places[0]

    def trimmed(self, x: PhysicalValue, dim: int) -> PhysicalValue:
        """`x` without the pads of `dim`, which lies in one physical dim. Raises LayoutError where it does not."""
        self.place(x.tensor, dim)
        if not x.tensor.is_padded(dim):
            return x
        return self.reorder(x, x.tensor.with_dim(dim, x.tensor.extents[dim], 0))

    def single(self, x: PhysicalValue, dim: int) -> PhysicalValue:
        """`x` with the elements of `dim`, and no pads of it, in exactly one physical dim.

        Raises LayoutError where it lies in several digits of more than one value.
        """
        x = self.trimmed(x, dim)
        at = self.place(x.tensor, dim)
        dims = tuple(place for k, place in enumerate(x.tensor.dims) if place.dim != dim or k == at)
        return self.reshaped(x, replace(x.tensor, dims=dims))


LARGE_CONSTANT = 1 << 16
"""Elements from which on a constant of one number everywhere is never written out, whatever its pads shall hold."""


def promises(source: PhysicalTensor, tensor: PhysicalTensor) -> bool:
    """Whether a value in `source` is one in `tensor`: the same dims, and pads that hold what the policy says."""
    if not _same_dims(source, tensor):
        return False
    return tensor.pad == "undef" or prod(source.shape) == prod(source.extents) or _same_pads(source, tensor)


def _same_dims(source: PhysicalTensor, tensor: PhysicalTensor) -> bool:
    return (source.dims, source.lo) == (tensor.dims, tensor.lo)


def _same_pads(source: PhysicalTensor, tensor: PhysicalTensor) -> bool:
    held, wanted = pad_number(source.pad), pad_number(tensor.pad)
    if held is None or wanted is None:
        return source.pad == tensor.pad
    return held == wanted and copysign(1, held) == copysign(1, wanted)


def unknown_pads(tensor: PhysicalTensor) -> PhysicalTensor:
    """`tensor`, of whose pads nothing is known."""
    return replace(tensor, pad="undef")


def pad_value(policy: PadPolicy) -> float:
    """The number in pads of a policy, 0 where any will do. Raises LayoutError where it is not exact as a double."""
    number = pad_number(policy)
    if number is not None and float(number) != number and number == number:
        raise LayoutError(f"pad = {policy} is not exact as a number in double precision")
    return 0.0 if number is None else float(number)


@lru_cache(maxsize=4096)
def moves_nothing(src: PhysicalTensor, dst: PhysicalTensor) -> bool:
    """Whether the reorder from `src` to `dst` transposes nothing: it only slices, pads, reshapes."""
    return not any(isinstance(step, TransposeStep) for step in reorder_steps(src, dst))


def _where(tensor: PhysicalTensor) -> str:
    """How messages say in which physical dims a value is."""
    digits = [f"{d.dim}" + f"/{d.unit}" * (d.unit > 1) for d in tensor.dims]
    return f"{shape_text(tensor.extents)} in memory as {shape_text(tensor.shape)} (dims {', '.join(digits)})"


def _can_move(op: nn.ConstantOp, steps: Sequence[TensorStep], tensor: PhysicalTensor) -> bool:
    """Whether the constant `op` after `steps` is made now: its values are there, and it does not become large by it."""
    if isinstance(op.value, DenseResourceAttr):
        return False
    return not op.is_splat or prod(tensor.shape) < LARGE_CONSTANT or _stays_splat(op, steps, tensor)


def _stays_splat(op: nn.ConstantOp, steps: Sequence[TensorStep], tensor: PhysicalTensor) -> bool:
    """Whether the one value of `op` is all that it has after `steps`: no other number comes as pads."""
    if tensor.pad == "undef" or not any(isinstance(step, PadStep) for step in steps):
        return True
    return _stored(pad_value(tensor.pad), dtype_of(op.result.type)) == op.literal.data.data


def _moved(op: nn.ConstantOp, steps: Sequence[TensorStep], tensor: PhysicalTensor) -> nn.ConstantOp:
    """The constant `op` after `steps`. One value for all elements stays one, unless others come as pads."""
    import numpy as np

    from layout_ir.elements.numpy_types import storage, stored_number

    type = TensorType(op.infer_element(), tensor.shape)
    data = op.literal.data.data
    if not op.is_splat or not _stays_splat(op, steps, tensor):
        dtype = dtype_of(op.result.type)
        elements = np.frombuffer(data, storage(dtype).newbyteorder("<"))
        elements = np.broadcast_to(elements.reshape(() if op.is_splat else op.infer()), op.infer())
        data = evaluate(steps, elements, stored_number(pad_value(tensor.pad), dtype)).tobytes()
    return nn.ConstantOp.create(
        result_types=[type], properties={"value": literal(type, data)}, attributes=op.attributes
    )


def _stored(number: float, dtype: str) -> bytes:
    """`number` as the bytes of one element."""
    from layout_ir.elements.numpy_types import stored_number

    return stored_number(number, dtype).tobytes()


def _op_of(step: TensorStep, x: SSAValue) -> Operation:
    type = tensor_type(x.type)
    shape = type.get_shape()
    match step:
        case SliceStep(starts, sizes):
            return nn.SliceOp(x, starts=starts, sizes=sizes, result_type=TensorType(type.element_type, sizes))
        case PadStep(before, after, policy):
            padded = [b + n + a for b, n, a in zip(before, shape, after, strict=True)]
            result = TensorType(type.element_type, padded)
            return nn.PadOp(x, pads=(*before, *after), value=pad_value(policy), result_type=result)
        case ReshapeStep(new):
            return ReshapeOp(x, new, NoneAttr())
        case TransposeStep(perm):
            return PermuteOp(x, perm, NoneAttr())
