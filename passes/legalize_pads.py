"""layout-legalize-pads: pads are filled where a consumer needs them and they are not already right.

Three steps, each along the program: result types promise all that their op leaves in the pads (relu of zero is zero,
exp of it is one); uses that need a number in the pads which is not promised get a `layout.fill_pads`; and fills that no
use needs are removed again. What a value promises in a signature is never changed.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.pads import PadPolicy
from layout_ir.diagnostics import PassError
from layout_ir.dialects.layout import (
    CastOp,
    FillPadsOp,
    ReorderOp,
    format_of,
    has_layout,
    is_any,
    is_tensor,
    layout_of,
    with_format,
)
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.interfaces import LayoutOp
from layout_ir.passes.fold_reorders import free_reorder, pads_only, same_type
from layout_ir.passes.layout_pass import LayoutPass
from layout_ir.passes.pad_queries import has_pad_behaviour, needed_pad, provided_pad
from layout_ir.passes.rewriting import erase_dead, insert_after, replace_op, retype

ONE_TYPE = ("arith", "math")
"""Dialects whose ops want all tensors of one type: an operand with other pads would be of another."""


def legalize_pads(module: ModuleOp) -> None:
    """Legalizes in place. Raises PassError for an op that needs pads which its type cannot promise."""
    for op in list(module.walk()):
        if isinstance(op, LayoutOp):
            _fill_operands(op)
            _promise_provided_pads(op)
        elif has_pad_behaviour(op):
            _fill_operands(op)
        else:
            value = same_type(op) or pads_only(op) or free_reorder(op)
            if value is not None:
                replace_op(op, value)
    fills = [op for op in module.walk() if isinstance(op, FillPadsOp)]
    for fill in fills:
        for use in list(fill.result.uses):
            if not _needs_fill(use.operation, use.index, fill):
                use.operation.operands[use.index] = fill.input
    erase_dead(list(fills))


def _has_known_layouts(op: Operation) -> bool:
    """Whether no tensor of `op` has a layout that is still to be chosen, or can have none."""
    return not any(
        is_tensor(value.type) and (is_any(value.type) or not has_layout(value.type))
        for value in (*op.operands, *op.results)
    )


def _promise_provided_pads(op: LayoutOp) -> None:
    """Lets a result with undefined pads promise what the op leaves there, unless a signature or view has its type."""
    result = op.results[0]
    fmt = format_of(result.type)
    if (
        not _has_known_layouts(op)
        or fmt is None
        or fmt.pad != "undef"
        or not layout_of(result.type).is_padded
    ):
        return
    if not all(isinstance(use.operation, LayoutOp | FillPadsOp | ReorderOp | CastOp) for use in result.uses):
        return
    held = provided_pad(op)
    if held is not None:
        retype(result, with_format(result.type, fmt.with_pad(held)))


def _fill_operands(op: Operation) -> None:
    """Inserts the fills that `op` needs and its operands do not promise."""
    if not _has_known_layouts(op):
        return
    for k, operand in enumerate(op.operands):
        needed = needed_pad(op, k)
        fmt = format_of(operand.type) if needed is not None else None
        if needed is not None and fmt is not None and fmt.with_pad(needed) != fmt:
            if op.dialect_name() in ONE_TYPE:
                raise PassError(
                    f"{op.name} needs {needed:g} in the pads of operand {k}, which its type {operand.type}, that of "
                    "all its tensors, does not promise: give them a layout without pads",
                    op,
                )
            op.operands[k] = _filled(operand, needed)


def _filled(value: SSAValue, policy: PadPolicy) -> SSAValue:
    """`value` with pads that hold `policy`: an existing fill of it, or a new one behind its definition."""
    fmt = format_of(value.type)
    assert fmt is not None
    wanted = with_format(value.type, fmt.with_pad(policy))
    for use in value.uses:
        if isinstance(use.operation, FillPadsOp) and use.operation.result.type == wanted:
            return use.operation.result
    fill = FillPadsOp(value, wanted.encoding)
    insert_after(value, fill)
    return fill.result


def _needs_fill(user: Operation, index: int, fill: FillPadsOp) -> bool:
    """Whether `user` needs what `fill` promises: for itself, or to keep the promise of its own result."""
    if not isinstance(user, LayoutOp) or not _has_known_layouts(user):
        return True
    if needed_pad(user, index) is not None:
        return True
    result = format_of(user.results[0].type)
    if result is None or result.pad == "undef" or not layout_of(user.results[0].type).is_padded:
        return False
    before = tensor_type(user.results[0].type)
    user.operands[index] = fill.input
    held = provided_pad(user)
    user.operands[index] = fill.result
    return held is None or with_format(before, result.with_pad(held)) != before


@dataclass(frozen=True)
class LayoutLegalizePadsPass(LayoutPass):
    """Fills pads where needed, and only there."""

    name = "layout-legalize-pads"

    def rewrite(self, module: ModuleOp) -> None:
        """Legalizes; raises PassError where a type cannot promise the pads that its op needs."""
        legalize_pads(module)
