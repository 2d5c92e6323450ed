"""Ops that run in another Format, so that the reorders around them vanish.

From a reorder, paths go down to its users or up to its producer, along ops that run in any Format (`is_reformattable`).
For each path its ops are made anew on trial in the Format of the other side of the reorder, with every change of layout
that this takes: of other operands, of pads that they read, of results that others use. If the trial costs less than
what it replaces, it stays; if not, it is dropped and a longer path is tried.

Which Formats an op can run in is asked of its model, and what its pads must hold of the op, so broadcasts, concats,
slices, pads, pools, reductions, reshapes and transpositions need no rules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, ViewOp, format_of, is_any, is_tensor, layout_of, with_format
from layout_ir.errors import LayoutError
from layout_ir.interfaces import CHOSEN, OPTIONS
from layout_ir.passes.dialect_extensions import is_extended
from layout_ir.passes.folding.cost_changes import (
    Draft,
    LayoutOnly,
    cost_of,
    erase_unused,
    is_layout_change,
    is_literal,
)
from layout_ir.passes.pad_queries import has_pad_behaviour, needed_pad, provided_pad
from layout_ir.passes.rewriting import retype
from layout_ir.passes.selection.options.foreign.conform import alike
from layout_ir.passes.selection.options.models import options_of
from layout_ir.passes.selection.options.targets import target_named
from layout_ir.passes.selection.options.tensor_formats import bound

PATH_LIMIT = 8
"""Ops of a path at most. Longer chains of ops between reorders are left to layout-propagate."""

OperandFormats = tuple[tuple[Format | None, ...], Format]
"""Formats of the operands (None: stays as it is) and of the result."""


def is_reformattable(op: Operation) -> bool:
    """Whether `op` may be made to run in another Format: known layouts, one result, and the same speed in any.

    An op that carries options, or the name of the kernel that was chosen for it, is left to selection."""
    if len(op.results) != 1 or OPTIONS in op.attributes or CHOSEN in op.attributes or op.successors:
        return False
    values = [value for value in (*op.operands, *op.results) if is_tensor(value.type)]
    if not values or any(is_any(value.type) or format_of(value.type) is None for value in values):
        return False
    if isinstance(op, ViewOp):
        return True
    if isinstance(op, nn.NNOp):
        # Where the Format of the result only follows from that of an operand, moving a reorder is left to selection.
        return op.SAME_FORMAT and op.dim_images() is None
    return bool(op.operands) and is_extended(op) and has_pad_behaviour(op) and not _has_kernel(op)


def _has_kernel(op: Operation) -> bool:
    """Whether `op` has kernels whose speed depends on the layout, which is for selection to weigh."""
    return "conv" in op.name or "matmul" in op.name or "pool" in op.name


def formats_where(op: Operation, value: SSAValue, fmt: Format) -> OperandFormats | None:
    """The Formats in which `op` runs when `value`, an operand or its result, has `fmt`; None where it cannot."""
    if isinstance(op, ViewOp):
        return _view_formats(op, value, fmt)
    wanted = bound(fmt, value)
    if wanted is None:
        return None
    tensors = [operand for operand in op.operands if is_tensor(operand.type)]
    kept = [isinstance(op, nn.NNOp) and operand not in op.formatted_operands() for operand in tensors]
    if value in tensors and kept[tensors.index(value)]:
        return None
    for option in options_of(op, lambda v: (fmt,) if v is value else (), target_named("host")):
        given = option.outs[0] if value is op.results[0] else option.ins[tensors.index(value)]
        layout = None if given is None else bound(given, value)
        if layout is not None and layout.same_store(wanted):
            given_for = iter(None if stays else f for f, stays in zip(option.ins, kept, strict=True))
            ins = tuple(next(given_for) if is_tensor(operand.type) else None for operand in op.operands)
            return ins, option.outs[0]
    return None


def _view_formats(op: ViewOp, value: SSAValue, fmt: Format) -> OperandFormats | None:
    layout = bound(fmt, value)
    if layout is None:
        return None
    try:
        if value is op.result:
            return (op.unview(layout).format,), fmt
        return (fmt,), op.view(layout).format
    except LayoutError:
        return None


# Walks ---------------------------------------------------------------------------------------------------------------


def reformat_users(op: Operation) -> bool:
    """Lets users of a reorder run in the Format in front of it, where that is cheaper; returns whether any does."""
    if not isinstance(op, ReorderOp) or not is_layout_change(op):
        return False
    fmt = format_of(op.source_type)
    assert fmt is not None
    for user in dict.fromkeys(use.operation for use in op.result.uses):
        if any(_is_better(path) for path in _down(user, op.result, fmt)):
            return True
    return False


def reformat_producers(op: Operation) -> bool:
    """Lets the producer of a reorder's operand run in the Format behind it, where that is cheaper; whether it does."""
    if not isinstance(op, ReorderOp) or not is_layout_change(op):
        return False
    fmt = format_of(op.result_type)
    assert fmt is not None
    return any(_is_better(path) for path in _up(op.input, fmt))


Path = list[tuple[Operation, OperandFormats]]


def _down(user: Operation, value: SSAValue, fmt: Format) -> Iterator[Path]:
    """Ever longer chains of ops behind `value`."""
    path: Path = []
    while len(path) < PATH_LIMIT and is_reformattable(user):
        chosen = formats_where(user, value, fmt)
        if chosen is None:
            return
        path.append((user, chosen))
        yield list(path)
        value, fmt = user.results[0], chosen[1]
        uses = list(value.uses)
        if len({use.operation for use in uses}) != 1 or uses[0].operation.parent is not user.parent:
            return
        user = uses[0].operation


def _up(value: SSAValue, fmt: Format) -> Iterator[Path]:
    """Ever longer chains of ops in front of `value`, first op first."""
    path: Path = []
    while len(path) < PATH_LIMIT:
        op = value.owner
        if (
            not isinstance(op, Operation)
            or not is_reformattable(op)
            or (path and op.parent is not path[0][0].parent)
        ):
            return
        chosen = formats_where(op, value, fmt)
        if chosen is None:
            return
        path.insert(0, (op, chosen))
        yield list(path)
        inner = [
            (operand, needed)
            for operand, needed in zip(op.operands, chosen[0], strict=True)
            if needed is not None and isinstance(operand.owner, Operation) and is_reformattable(operand.owner)
        ]
        if len(inner) != 1 or len({use.operation for use in inner[0][0].uses}) != 1:
            return
        value, fmt = inner[0]


# Trials --------------------------------------------------------------------------------------------------------------


def _is_better(path: Path) -> bool:
    """Makes the ops of `path` anew; keeps them and returns True if they cost less than what they replace."""
    inside = {op for op, _ in path}
    replaced = _replaced(inside)
    draft = Draft()
    made = _trial(path, draft)
    results = None if made is None else _use_changes(path, made, draft)
    still_used = {operand for op, _ in draft.ops for operand in op.operands}
    gone = [op for op in replaced if op.results[0] not in still_used]
    now = sum(cost_of(op) for op in gone), len(gone)
    if results is None or (draft.cost, draft.changes) >= now:
        draft.drop()
        return False
    draft.commit()
    inputs = [operand for op, _ in path for operand in op.operands]
    for user, index, value in results:
        if index is None:
            user.results[0].replace_all_uses_with(value)
            user.detach()
            user.erase()
        else:
            user.operands[index] = value
    for op, _ in reversed(path):
        op.detach()
        op.erase()
    erase_unused([value for value in inputs if value.owner not in inside])
    return True


def _replaced(inside: set[Operation]) -> list[Operation]:
    """The layout ops around `inside` that would not be needed any more."""
    found: dict[Operation, None] = {}
    for op in inside:
        for operand in op.operands:
            owner = operand.owner
            if is_layout_change(owner) and all(use.operation in inside for use in operand.uses):
                assert isinstance(owner, Operation)
                found[owner] = None
        for use in op.results[0].uses:
            if use.operation not in inside and is_layout_change(use.operation):
                found[use.operation] = None
    return list(found)


def _trial(path: Path, draft: Draft) -> dict[SSAValue, SSAValue] | None:
    """New ops for those of `path`: new result per old one. None where one of them cannot run that way."""
    made: dict[SSAValue, SSAValue] = {}
    for op, (ins, out) in path:
        operands: list[SSAValue] = []
        for operand, fmt in zip(op.operands, ins, strict=True):
            if fmt is None:
                if operand in made:
                    return None
                operands.append(operand)
                continue
            value = made.get(operand)
            if value is not None:
                held = bound(fmt, value)
                if held is None or not held.same_store(layout_of(value.type)):
                    return None
                operands.append(draft.change_layout(value, _with_pads_of(value, fmt), op))
            else:
                operands.append(_supply(operand, fmt, draft, op))
        made[op.results[0]] = _make(op, operands, out, draft)
    return made


def _make(op: Operation, operands: Sequence[SSAValue], out: Format, draft: Draft) -> SSAValue:
    """`op` on other operands with a result in `out`; pads are filled where it reads them, and its result promises what
    it leaves."""
    new = op.clone()
    new.operands = operands
    result = retype(new.results[0], with_format(new.results[0].type, out.with_pad("undef")))
    for k, operand in enumerate(operands):
        needed = needed_pad(new, k)
        fmt = format_of(operand.type) if needed is not None else None
        if needed is not None and fmt is not None and fmt.with_pad(needed) != fmt:
            new.operands[k] = draft.change_layout(
                operand, with_format(operand.type, fmt.with_pad(needed)), op
            )
    if isinstance(new, ViewOp):
        view = new.view(layout_of(new.input.type))
        result = retype(result, with_format(result.type, view.format))
    elif not layout_of(result.type).is_padded:
        result = retype(result, with_format(result.type, _usual(out)))
    elif (held := provided_pad(new)) is not None:
        result = retype(result, with_format(result.type, out.with_pad(held)))
    for cast in alike(new):
        draft.add(cast, op)
        draft.changes += 1
        draft.cost += cost_of(cast) if isinstance(cast, ReorderOp) else 0
    result.name_hint = op.results[0].name_hint
    return draft.add(new, op)


def _usual(fmt: Format) -> Format:
    """`fmt` with the usual pad policy, zero if it has blocks: where any will do, that spares a cast or a fill."""
    return fmt.with_pad("zero" if any(block > 1 for block in fmt.blocks()) else "undef")


def _with_pads_of(value: SSAValue, fmt: Format) -> Attribute:
    own = format_of(value.type)
    assert own is not None
    return with_format(value.type, fmt.with_pad(own.pad))


def _supply(value: SSAValue, fmt: Format, draft: Draft, before: Operation) -> SSAValue:
    """`value`, or what it is a reorder of, in `fmt`, by the cheapest move; literals are made again for nothing."""
    sources = [value]
    while isinstance(owner := sources[-1].owner, LayoutOnly) and is_layout_change(owner):
        sources.append(owner.input)
    literal = sources[-1].owner
    if isinstance(literal, Operation) and is_literal(literal):
        again = literal.clone()
        made = retype(again.results[0], with_format(value.type, _usual(fmt)))
        made.name_hint = sources[-1].name_hint
        return draft.add(again, before)
    for source in reversed(sources):
        own = format_of(source.type)
        layout = layout_of(source.type)
        if own is not None and layout.same_map(fmt.bind(layout.shape)):
            wanted = with_format(source.type, fmt.with_pad(own.pad))
            if layout_of(wanted).extent <= layout.extent:
                return draft.change_layout(source, wanted, before)
    return draft.change_layout(sources[-1], with_format(value.type, _usual(fmt)), before)


UseChange = tuple[Operation, int | None, SSAValue]
"""A user, the number of its operand that is replaced (None: it is a layout op, which goes), and by what."""


def _use_changes(path: Path, made: dict[SSAValue, SSAValue], draft: Draft) -> list[UseChange]:
    """What each use outside of `path` gets in place of an old result."""
    inside = {op for op, _ in path}
    found: list[UseChange] = []
    for op, _ in path:
        old = op.results[0]
        for use in old.uses:
            user = use.operation
            if user in inside:
                continue
            if is_layout_change(user):
                found.append((user, None, draft.change_layout(made[old], user.results[0].type, op)))
            else:
                found.append((user, use.index, draft.change_layout(made[old], old.type, op)))
    return found
