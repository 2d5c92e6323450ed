"""The rules that every op of the dialect obeys, in the order in which they are asked.

1. The element types are allowed, and equal.
2. The result has the inferred shape.
3. Every encoding fits its shape.
4. Where an op needs one Format, its operands and its result have it.
5. Pads that the op reduces over hold the neutral element of the operation.
6. The result's type promises of its pads no more than the op provides.

A value whose format is still to be chosen (`#layout.any`) takes part in the first three only, as does one in an
opaque layout where the op allows that at all.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, SSAValue

from layout_ir.dialects.layout import format_of, is_any, layout_of, strip_type, verify_encoding
from layout_ir.dialects.nn.tensors import Tensor, pad_value, round_to, shape_of, tensor_type
from layout_ir.errors import LayoutError, shape_text

if TYPE_CHECKING:
    from layout_ir.dialects.nn.common import NNOp


def check_elements(op: NNOp) -> None:
    values = (*op.operands, op.result)
    for value in values:
        element = _element_text(tensor_type(value).element_type)
        if element not in op.ALLOWED:
            raise LayoutError(
                f"element type {element} of {_title(op, value)} is not supported by {op.name}, "
                f"expected one of {', '.join(op.ALLOWED)}"
            )
    for value in values if op.SAME_ELEMENT else ():
        ours, theirs = tensor_type(values[0]).element_type, tensor_type(value).element_type
        if ours != theirs:
            raise LayoutError(
                f"element type mismatch between {_title(op, values[0])} and {_title(op, value)}: {ours} != {theirs}"
            )


@cache
def _element_text(element: Attribute) -> str:
    return str(element)


def check_shapes(op: NNOp) -> None:
    for value in (*op.operands, op.result):
        if any(extent < 0 for extent in shape_of(value)):
            raise LayoutError(f"{_title(op, value)} has a dynamic dim in {strip_type(tensor_type(value))}")
    inferred, declared = op.infer(), shape_of(op.result)
    if inferred != declared:
        raise LayoutError(
            f"shape mismatch between the inferred result and the declared one: "
            f"{shape_text(inferred)} != {shape_text(declared)}"
        )
    for value in (*op.operands, op.result):
        verify_encoding(tensor_type(value))


def check_formats(op: NNOp) -> None:
    result = tensor_type(op.result)
    for value in () if is_any(result) else op.formatted_operands():
        type = tensor_type(value)
        if not is_any(type) and type.encoding != result.encoding and not _same_format(type, result):
            raise LayoutError(
                f"{op.name} needs one format, but {_title(op, value)} has {_format_text(type)} "
                f"and the result has {_format_text(result)}; insert a layout.reorder"
            )


def _same_format(type: Tensor, other: Tensor) -> bool:
    """Whether the Format of `type`, as a recipe, puts a tensor of the shape of `other` where `other` has it."""
    ours, theirs = format_of(type), format_of(other)
    if ours is None or theirs is None or ours.rank != theirs.rank:
        return False
    try:
        return ours.bind(other.get_shape()).same_map(layout_of(other))
    except LayoutError:
        return ours == theirs


def _format_text(type: Tensor) -> str:
    fmt = format_of(type)
    return str(type.encoding if fmt is None else fmt)


def check_pads(op: NNOp) -> None:
    for number, value in enumerate(op.operands):
        type = tensor_type(value)
        for read in op.pad_reads(number) if format_of(type) is not None else ():
            padded = read.dim in layout_of(type).padded_dims()
            if padded and not _same_number(pad_value(type), read.neutral):
                raise LayoutError(
                    f"{op.name} reduces over dim {read.dim} of {_title(op, value)}, pads included, so they "
                    f"must hold {read.neutral:g}, but the format is {format_of(type)}; use layout.fill_pads"
                )
    result = tensor_type(op.result)
    fmt = format_of(result)
    if fmt is None or fmt.pad == "undef" or not layout_of(result).is_padded:
        return
    provided, claim = op.pad_result(operand_pads(op)), pad_value(result)
    provided = None if provided is None else round_to(provided, result.element_type)
    claim = None if claim is None else round_to(claim, result.element_type)
    if not _same_number(provided, claim):
        left = "values that are not known" if provided is None else f"{provided:g}"
        raise LayoutError(
            f"the result claims {fmt}, but {op.name} leaves {left} in its pads; "
            f"declare pad = undef and use layout.fill_pads"
        )


def operand_pads(op: NNOp) -> list[float | None]:
    """What the pads of each operand hold at the addresses that are pads of the result; None if unknown."""
    result = tensor_type(op.result)
    pads: list[float | None] = []
    for value in op.operands:
        type = tensor_type(value)
        known = pad_value(type) if type.get_shape() == result.get_shape() else None
        aligned = known is not None and layout_of(type).same_store(layout_of(result))
        pads.append(known if aligned else None)
    return pads


def _same_number(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return False
    return left == right or (math.isnan(left) and math.isnan(right))


def _title(op: NNOp, value: SSAValue) -> str:
    """`value` in words."""
    for number, operand in enumerate(op.operands):
        if operand is value:
            return f"operand {number}"
    return "the result"
