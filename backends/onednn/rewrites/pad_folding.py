"""Elements that an op of its own puts around a tensor, as pads of the window op that reads them.

    conv(pad(x))              conv of x with longer pads, where zeros are added; transpositions may be in between
    avg_pool(pad(x))          the same, where the pool counts its pads or has none
    max_pool(pad(x))          the same, where no element is less than what is added

The measure: the bytes that a pad of its own would write and the window op read again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, is_any
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.passes.rewriting import erase_dead

_LOWEST = float(np.finfo(np.float32).min)

Windowed = nn.ConvOp | nn.AvgPoolOp | nn.MaxPoolOp


def fold_pads(module: ModuleOp) -> None:
    """Folds pads, in place, where layouts are open."""
    for op in list(module.walk()):
        if isinstance(op, Windowed) and is_any(op.result.type):
            _fold(op)
    erase_dead([op for op in module.walk() if isinstance(op, PermuteOp | nn.PadOp)])


def _fold(op: Windowed) -> None:
    found = _pad_behind(op.x)
    if found is None:
        return
    pad, orders = found
    rank = len(shape_of(op.x))
    pads = [pad.pads[:rank], pad.pads[rank:]]
    for order in orders:
        pads = [tuple(side[d] for d in order) for side in pads]
    begins, ends = pads
    if (
        min(*begins, *ends) < 0
        or any((*begins[:2], *ends[:2]))
        or not _takes(op, pad, (*begins[2:], *ends[2:]))
    ):
        return
    ops = InsertedOps(op)
    x = pad.x
    for order in orders:
        x = ops.insert(PermuteOp(x, order))
    longer = tuple(own + more for own, more in zip(op.pads, (*begins[2:], *ends[2:]), strict=True))
    attributes = {name: getattr(op, name) for name in op.__fields__} | {"pads": longer}
    if isinstance(op, nn.AvgPoolOp):
        attributes["count_include_pad"] = True
    ops.replace(ops.apply(type(op), x, *op.operands[1:], **attributes))


def _pad_behind(value: SSAValue) -> tuple[nn.PadOp, list[Sequence[int]]] | None:
    """The pad that makes `value`, and the transpositions behind it, in order."""
    orders: list[Sequence[int]] = []
    owner = value.owner
    while isinstance(owner, PermuteOp):
        orders.insert(0, owner.ints("perm"))
        owner = owner.input.owner
    return (owner, orders) if isinstance(owner, nn.PadOp) and owner.mode == "constant" else None


def _takes(op: Windowed, pad: nn.PadOp, more: Sequence[int]) -> bool:
    """Whether the op reads as its own pads what `pad` adds."""
    if isinstance(op, nn.ConvOp):
        return pad.value == 0
    if op.ceil_mode:
        return False
    if isinstance(op, nn.AvgPoolOp):
        return pad.value == 0 and (op.count_include_pad or not any(op.pads))
    # No window lies on pads alone: each holds an element that is no less.
    reach = [own + extra for own, extra in zip(op.pads, more, strict=True)]
    return pad.value <= _LOWEST and all(
        own < extent for own, extent in zip(reach, (*op.kernel, *op.kernel), strict=True)
    )
