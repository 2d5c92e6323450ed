"""Which ops are computed by one compiled loop: chains and trees of elementwise ops of one shape, a reduction of them.

    div, erf, add, mul, mul      a GELU as exporters write it: what is between is in registers, and never in memory
    sub, mul, reduce_mean        a variance: one pass over the operands

An op joins the one that uses its result where that has no other user, both have one shape, and each is computed by
itself: what a convolution or product takes as a post-op stays with it. A loop replaces primitives where it joins at
least two, or an op that has none. The measure that each join makes smaller is the bytes that are moved: the result of
the first is neither written nor read again.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from layout_ir.backends.onednn.op_group import Group, Liveness
from layout_ir.backends.onednn.op_loops import has_product_loop, loop_of
from layout_ir.backends.onednn.op_primitives.primitive_operands import Values
from layout_ir.backends.reference.semantics import layout_at_run_time
from layout_ir.backends.reference.tensor import is_row_major
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of

_MOST_OPERANDS = 12
"""Tensors that a loop reads at most: each is a pointer, and there are 16 registers for them."""


def join_loops(groups: Sequence[Group], values: Values, liveness: Liveness, threads: int) -> list[Group]:
    """The groups, in their order, with those of elementwise ops joined that one loop computes."""
    of: dict[SSAValue, Group] = {group.result: group for group in groups if _is_elementwise(group)}
    joined: dict[Group, Group] = {}
    taken: set[Group] = set()
    for root in reversed(groups):
        if root in taken or not (_is_elementwise(root) or _is_reduction(root)):
            continue
        members = _members(root, of, taken, values)
        if len(members) == 1:
            continue
        ops = sorted((op for group in members for op in group.ops), key=lambda op: liveness.index[op])
        loop = loop_of(ops, threads)
        if loop is None:
            continue
        taken.update(members)
        between = [group.result for group in members if group is not root]
        saved = sum(2 * values.layout(value).nbytes(dtype_of(value.type)) for value in between)
        saved += sum(group.bytes_not_moved for group in members)
        joined[root] = Group(ops, loop=loop, bytes_not_moved=saved)
    result = [joined.get(group, group) for group in groups if group in joined or group not in taken]
    return [_without_slow_primitive(group, threads) for group in result]


def _without_slow_primitive(group: Group, threads: int) -> Group:
    """A single op by a loop, where that is faster: the library may compute one element after the other."""
    op, descriptor = group.ops[0], group.descriptor
    if descriptor is None or len(group.ops) > 1 or not isinstance(op, _LOOPED):
        return group
    if descriptor.is_vectorized and not _is_faster_by_loop(op):
        return group
    loop = loop_of(group.ops, threads)
    return group if loop is None else Group(group.ops, loop=loop)


def _is_faster_by_loop(op: Operation) -> bool:
    """Whether a loop is faster than kernels of the library that handle several elements at once."""
    if isinstance(op, nn.MatmulOp):
        return has_product_loop(op)
    if isinstance(op, nn.ReduceOp):
        # Means of 1024 rows of 49, on a Zen 4: 17 us by a loop, 24 by the primitive; of 4096 rows of 768: 174 and 199.
        return is_row_major(layout_at_run_time(op.x.type))
    if isinstance(op, nn.MaxPoolOp | nn.AvgPoolOp):
        # Windows of 3x3 over 64 channels of 112x112 bytes, on a Zen 3: 34 us by a loop, 237 by the primitive. There are
        # loops of bytes with channels last, and of row-major floats.
        return True
    is_half = isinstance(op, nn.ElementwiseOp) and dtype_of(op.results[0].type) != "f32"
    is_by_tanh = isinstance(op, nn.GeluOp) and op.approximate == "tanh"
    return (isinstance(op, _FASTER) or is_by_tanh) and not is_half


_FASTER = (
    nn.SoftmaxOp, nn.LogSoftmaxOp, nn.SwishOp, nn.SigmoidOp, nn.TanhOp, nn.EluOp, nn.ExpOp, nn.LogOp, nn.BinaryOp
)  # fmt: skip
"""Ops whose loop is faster than a primitive of the library, where they are elementwise on f32. Measured on a Zen 4, in
us by a loop and by a primitive of `jit`: rows of a softmax, 3072 of 49 98 and 177, 1536 of 128 85 and 161, 32 of 32000
400 and 757; 94,080 elements of swish 32 and 68, sigmoid 32 and 46, ELU 24 and 40, exp 22 and 33; 112x112 pixels of 32
channels times a number per channel 45 and 140, 12x128 rows of 128 plus a row 19 and 34, sums of 50,176 elements 8 and
9, of eight 1.0 and 1.8. GELU, tanh and softplus take as long by either, and mish three times as long by a loop. On a
Zen 3 with AVX2, tanh takes 0.8 ns per element by a loop and 3.5 to 5 by a primitive, so does GELU by tanh, and log 0.8
and 1.6."""

_LOOPED = (
    nn.ElementwiseOp, nn.ReduceOp, nn.SoftmaxOp, nn.LogSoftmaxOp, nn.LayerNormOp, nn.BatchNormOp, nn.MaxPoolOp,
    nn.AvgPoolOp, nn.MatmulOp,
)  # fmt: skip
"""Ops of which the loop is better than a primitive that is no kernel for vectors. Measured on a Zen 4, the mean of 128
rows of 768: 5 us, and 79 by `simple_nchw`; a row-major batch normalization of 1.6 million elements: 249 us, and 1684
by `ncsp_bnorm`."""


def _is_elementwise(group: Group) -> bool:
    """Whether a group is one of elementwise ops alone, and computes each of them as it is."""
    return group.over is None and all(isinstance(op, nn.ElementwiseOp) for op in group.ops)


def _is_reduction(group: Group) -> bool:
    """Whether a group is a reduction of numbers as they are, with nothing behind it."""
    [op, *behind] = group.ops
    is_on_integers = group.primitive is not None and group.primitive.is_on_integers
    return isinstance(op, nn.ReduceOp) and not behind and not is_on_integers


def _members(root: Group, of: dict[SSAValue, Group], taken: set[Group], values: Values) -> list[Group]:
    """The groups that end in `root`, and of which nothing else is used."""
    last = root.ops[-1]
    shape = values.layout(last.x if isinstance(last, nn.ReduceOp) else root.result).shape
    members, ops = [root], set[Operation](root.ops)
    grew = True
    while grew:
        grew = False
        for operand in dict.fromkeys(value for op in ops for value in op.operands if value.owner not in ops):
            group = of.get(operand)
            if group is None or group in taken or values.layout(operand).shape != shape:
                continue
            if any(use.operation not in ops for use in operand.uses):
                continue
            more = ops | set(group.ops)
            read = {
                value
                for op in more
                for value in op.operands
                if value.owner not in more and values.scalar(value) is None
            }
            if len(read) > _MOST_OPERANDS:
                continue
            members.append(group)
            ops = more
            grew = True
            break
    return members
