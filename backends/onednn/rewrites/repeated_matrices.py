"""Products by a matrix that is repeated for several heads are one product with the rows of all of them.

    a (.., k*g, M, K) by b, a reshape of expand(s (.., k, 1, K, N)) to (.., k*g, K, N)
    a (.., k*g, M, K) by b, expand(s (.., 1, K, N))                                          k = 1
    a (.., k*g, M, K) by b (.., 1, K, N)                                                     k = 1

become a reshape of a (.., k, g*M, K) by s (.., k, K, N); b may also be the transposes of such matrices. That is how
exporters write attention whose queries share keys and values (GQA, MQA). The measure: the matrices that are read.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp, is_any
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.passes.rewriting import erase_dead


def share_repeated_matrices(module: ModuleOp) -> None:
    """Applies the rules above, in place, where layouts are open."""
    for op in list(module.walk()):
        if isinstance(op, nn.MatmulOp) and is_any(op.result.type):
            _share(op)
    erase_dead([op for op in module.walk() if isinstance(op, PermuteOp | ReshapeOp | nn.ExpandOp)])


def _share(op: nn.MatmulOp) -> None:
    left, right = shape_of(op.a), shape_of(op.b)
    if len(left) != len(right) or len(left) < 3:
        return
    found = _repeated(op.b, left[-3])
    if found is None or left[:-3] != found.shape[:-3] or left[-3] != found.shape[-3] * found.times:
        return
    *batches, heads, rows, k = left
    shared = heads // found.times
    ops = InsertedOps(op)
    matrices = ops.insert(ReshapeOp(found.value, found.shape))
    if found.turned:
        order = [*range(len(left) - 2), len(left) - 1, len(left) - 2]
        matrices = ops.insert(PermuteOp(matrices, order))
    together = ops.insert(ReshapeOp(op.a, (*batches, shared, found.times * rows, k)))
    product = ops.apply(nn.MatmulOp, together, matrices)
    ops.replace(ops.insert(ReshapeOp(product, shape_of(op.result))))


@dataclass(frozen=True)
class _Repeated:
    """Matrices of which each stands for so many behind each other."""

    value: SSAValue
    """A value of the elements that are not repeated, in any shape."""
    shape: tuple[int, ...]
    times: int
    turned: bool
    """Whether their transposes are meant."""


def _repeated(value: SSAValue, heads: int) -> _Repeated | None:
    """What `value`, the right operand of a product of so many `heads`, repeats; None where it repeats nothing."""
    rank = len(shape_of(value))
    turned = False
    if isinstance(value.owner, PermuteOp):
        if list(value.owner.ints("perm")) != [*range(rank - 2), rank - 1, rank - 2]:
            return None
        value, turned = value.owner.input, True
    shape = shape_of(value)
    if shape[-3] == 1 < heads:
        return _Repeated(value, shape, heads, turned)
    merged = isinstance(value.owner, ReshapeOp)
    expand = value.owner.input.owner if isinstance(value.owner, ReshapeOp) else value.owner
    if not isinstance(expand, nn.ExpandOp):
        return None
    narrow, wide = shape_of(expand.operands[0]), shape_of(expand.results[0])
    if not len(narrow) == len(wide) == rank + merged or narrow[-3] != 1:
        return None
    times = wide[-3]
    if times == 1 or (*narrow[:-3], times, *narrow[-2:]) != wide:
        return None
    if not merged:
        return _Repeated(expand.operands[0], narrow, times, turned)
    if shape != (*wide[:-4], wide[-4] * times, *wide[-2:]):
        return None
    return _Repeated(expand.operands[0], (*narrow[:-3], *narrow[-2:]), times, turned)
