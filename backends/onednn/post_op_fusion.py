"""Which ops are computed together: a primitive takes the elementwise ops behind it as post-ops.

    conv, relu                      the activation is applied to numbers that are still in registers
    conv, add(other), relu          the same for a residual: read once, and where nobody needs it later, the result is
                                    written over it
    matmul, add(vector), gelu       a bias that the op itself does not have (`absorbed_constants`)

An op joins the one before it where that has no other user, both results lie alike, and the library has an
implementation for the two that is no slower kind than the one for the first alone. The measure that each of them makes
smaller is the bytes that are moved: the result of the first is neither written nor read again (`bytes_not_moved`).
Floats of 16 bits are rounded once, behind the last post-op. A quantization is the last op of a group on integers.

A function of one number joins any primitive that accepts it, unless one more pass over its result by a compiled loop is
faster (`_is_faster_by_itself`). An op with a second tensor joins those primitives alone that are known to compute it
right (`_TAKES_SUM`, `_TAKES_TENSOR`, `takes_broadcast`): the library accepts more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.onednn.absorbed_constants import (
    PRODUCTS,
    absorb,
    broadcast_extents,
    goes_over_products_again,
    takes_broadcast,
    takes_post_ops,
)
from layout_ir.backends.onednn.library import Refused
from layout_ir.backends.onednn.op_group import (
    FEW_ELEMENTS,
    VIEWS,
    Group,
    Liveness,
    implementation_of,
    single_op_group,
)
from layout_ir.backends.onednn.op_loops import has_product_loop, has_row_pool
from layout_ir.backends.onednn.op_primitives import integer_primitives
from layout_ir.backends.onednn.op_primitives.elementwise_functions import BINARY, COMMUTATIVE, function_of
from layout_ir.backends.onednn.op_primitives.primitive_operands import FLOATS, Operand, Values, lie_alike
from layout_ir.backends.onednn.primitives import (
    POST_OP_STEP,
    Argument,
    BinaryPostOp,
    PostOp,
    SumPostOp,
)
from layout_ir.backends.onednn.quantized_values import quantizing
from layout_ir.dialects import layout, nn
from layout_ir.dialects.layout import dtype_of
from layout_ir.passes.selection.options.onednn_query import vector_extension


def _is_slow_post_op(op: nn.ElementwiseOp) -> bool:
    """Whether the library computes a function so slowly that a compiled loop over what lies in the caches is faster.

    Measured in ns per element, as a post-op of convolutions and by a loop in place: with AVX-512 (Zen 4) swish 0.54 and
    0.25, sigmoid 0.36 and 0.25, hard swish 0.05 and 0.08; with AVX2 (Zen 3) swish 1.1 and 0.7, tanh 4.1 and 0.8, GELU
    by tanh 4.4 and 1.2, GELU 0.9 and 1.1.
    """
    if isinstance(op, nn.SwishOp):
        return True
    is_by_tanh = isinstance(op, nn.TanhOp) or (isinstance(op, nn.GeluOp) and op.approximate == "tanh")
    return is_by_tanh and vector_extension() == "avx2"


_TAKES_SUM = PRODUCTS | {"convolution_forward", "deconvolution_forward", "binary", "reduction"}
"""Primitives that add what the result held before. A pool or resampling by loops of C++ accepts the post-op and leaves
it out (3.2)."""

_TAKES_TENSOR = _TAKES_SUM | {"eltwise_forward", "softmax_forward"}
"""Primitives that combine their result with a tensor that lies like it. In 3.2 a pool by `jit` on NCHW, which works on
blocks of channels, reads that tensor by their addresses, behind its end too; a resampling by `simple` reads it by those
of an NCHW tensor, whatever the format."""


def _is_faster_by_itself(op: nn.ElementwiseOp, group: Group, result: Layout) -> bool:
    """Whether a loop computes `op` in less time than a primitive takes longer with it as a post-op: functions that the
    library is slow at, or primitives that are slow at any, on results large enough for a step of their own, which the
    last cache still holds."""
    assert group.primitive is not None
    is_large = result.nelems >= FEW_ELEMENTS and result.nbytes("f32") <= host().l3
    is_plain = dtype_of(op.result.type) == "f32" and not group.primitive.is_on_integers
    return is_large and is_plain and (_is_slow_post_op(op) or goes_over_products_again(group.descriptor))


Join = Callable[[Sequence[Group], Liveness], list[Group]]


def group_ops(
    ops: Sequence[Operation],
    values: Values,
    *,
    fuse: bool = True,
    kept: Iterable[SSAValue] = (),
    join: Join | None = None,
) -> list[Group]:
    """The ops of a block in groups, each at the place of its last op; without `fuse`, one op in each.

    No result is written over the values `kept`. `join` makes one group of several that are computed together without a
    primitive.
    """
    fusion = _Fusion(ops, values)
    fusion.kept.update(kept)
    while True:
        groups = fusion.groups(fuse)
        if fuse and join is not None:
            groups = join(groups, fusion.liveness)
        late = _overwritten_too_early(groups, fusion.liveness)
        if late is None:
            return _needed(groups)
        fusion.kept.add(late)


def _needed(groups: Sequence[Group]) -> list[Group]:
    """The groups without conversions and views whose results no group reads: integers are taken as they are stored."""
    found: list[Group] = []
    read: set[SSAValue] = set()
    for group in reversed(groups):
        idle = group.primitive is None and isinstance(group.ops[0], (layout.ReorderOp, *VIEWS))
        if idle and group.result not in read:
            continue
        read.update(group.read())
        found.append(group)
    return found[::-1]


def _overwritten_too_early(groups: Sequence[Group], liveness: Liveness) -> SSAValue | None:
    """A value over which a result is written while a later group still reads it: a group is as late as its last op."""
    last: dict[SSAValue, int] = {}
    for number, group in enumerate(groups):
        last.update((liveness.root(value), number) for value in group.read())
    for number, group in enumerate(groups):
        if group.over is not None and last[liveness.root(group.over)] > number:
            return group.over
    return None


class _Fusion:
    def __init__(self, ops: Sequence[Operation], values: Values) -> None:
        self.ops = ops
        self.values = values
        self.liveness = Liveness(ops)
        self.kept: set[SSAValue] = set()
        """Values over which nothing may be written."""
        self.taken: set[Operation] = set()

    def groups(self, fuse: bool) -> list[Group]:
        """All groups, in the order of their last ops."""
        self.taken = set()
        groups: dict[Operation, Group] = {}
        for op in self.ops:
            if op in self.taken:
                continue
            group = self._on_integers(op, fuse) or self._grown(single_op_group(op, self.values), fuse)
            self.taken.update(group.ops)
            groups[group.ops[-1]] = group
        return [groups[op] for op in self.ops if op in groups]

    def _on_integers(self, op: Operation, fuse: bool) -> Group | None:
        """The group of an op that is computed on the integers that its operands are dequantized from.

        None where there is none, or only by the library's reference: some primitives are compiled for results that are
        integers as well, and for no others.
        """
        for candidate in integer_primitives.integer_candidates(op, self.values.library):
            try:
                group = Group([op], candidate, implementation_of(self.values.library, candidate))
            except Refused:
                continue
            group.operands = dict(candidate.operands)
            self._grown(group, fuse)
            if group.descriptor is not None and not group.descriptor.is_slow:
                return group
        return None

    def _grown(self, group: Group, fuse: bool) -> Group:
        """The group with all ops behind it that join it."""
        while fuse and group.primitive is not None and (self._extend(group) or self._quantize(group)):
            pass
        return group

    def _extend(self, group: Group) -> bool:
        """Takes the one user of the group's result into the group, if that can be; whether it was."""
        values = self.values
        value = group.result
        op = self._one_user(group)
        if not isinstance(op, nn.ElementwiseOp) or self._is_left_to_a_later_one(op, value):
            return False
        assert group.primitive is not None and group.descriptor is not None
        is_looped = (
            isinstance(group.ops[0], nn.ElementwiseOp | nn.ReduceOp) and not group.primitive.is_on_integers
        )
        if (
            (group.descriptor.is_slow and is_looped)
            or has_row_pool(group.ops[0])
            or has_product_loop(group.ops[0])
        ):
            return False  # a compiled loop takes both, or the reduction or pool by itself
        dtype = dtype_of(value.type)
        if dtype not in FLOATS or any(dtype_of(other.type) != dtype for other in (*op.operands, op.result)):
            return False
        before, after = values.layout(value), values.layout(op.result)
        if not lie_alike(before, after):
            return False
        whole = group.primitive.extents == (before.extent,) != before.shape
        if not whole and after.is_padded and after.pad not in ("zero", "undef"):
            return False
        if absorb(group, op, value, values):
            group.ops.append(op)
            group.bytes_not_moved += 2 * before.nbytes(dtype)
            return True
        if not (whole or takes_post_ops(group.descriptor)):
            return False
        for post_op, operand in self._post_ops(group, op, value, whole):
            if not isinstance(post_op, SumPostOp) and _is_faster_by_itself(op, group, after):
                continue
            chain = (*group.primitive.post_ops, post_op)
            try:
                descriptor = implementation_of(values.library, replace(group.primitive, post_ops=chain))
            except Refused:
                continue
            if descriptor.is_slow and not group.descriptor.is_slow:
                continue
            if isinstance(post_op, SumPostOp):
                assert operand is not None
                group.over = operand.value
            elif operand is not None:
                group.operands[Argument.SRC_OF_POST_OP + (len(chain) - 1) * POST_OP_STEP] = operand
            group.primitive = replace(group.primitive, post_ops=chain)
            group.descriptor = descriptor
            group.ops.append(op)
            group.bytes_not_moved += 2 * before.nbytes(dtype)
            return True
        return False

    def _is_left_to_a_later_one(self, op: nn.ElementwiseOp, value: SSAValue) -> bool:
        """Whether `op` adds to `value` what a later convolution gives, which can be computed on top of it: the sum of
        many convolutions then takes the memory of one, not of all of them."""
        if not isinstance(op, nn.AddOp) or not isinstance(value.owner, nn.ConvOp | nn.AddOp):
            return False
        other = op.operands[1] if op.operands[0] is value else op.operands[0]
        later, index = other.owner, self.liveness.index
        if not isinstance(later, nn.ConvOp) or later in self.taken or len(list(other.uses)) > 1:
            return False
        if index.get(later, -1) < index[value.owner]:
            return False
        descriptor = single_op_group(later, self.values).descriptor
        return descriptor is not None and takes_post_ops(descriptor)

    def _quantize(self, group: Group) -> bool:
        """Has the primitive of the group store its result as the integers that the one user makes of it, if it can;
        whether it does."""
        op = self._one_user(group)
        given = None if op is None else quantizing(op)
        if given is None or not isinstance(op, layout.ReorderOp):
            return False
        assert group.primitive is not None and group.descriptor is not None
        try:
            whole = replace(group.primitive, operands=group.operands)
            found = integer_primitives.quantized_result(whole, op, *given)
            if found is None:
                return False
            descriptor = implementation_of(self.values.library, found)
        except Refused:
            return False
        if group.over is not None or (descriptor.is_slow and not group.descriptor.is_slow):
            return False
        group.bytes_not_moved += 2 * self.values.layout(group.result).nbytes("f32")
        group.primitive, group.descriptor, group.operands = found, descriptor, dict(found.operands)
        group.ops.append(op)
        return True

    def _one_user(self, group: Group) -> Operation | None:
        """The one op that uses the result of a group, if it may join; None where there are more, or none."""
        uses = list(group.result.uses)
        op = uses[0].operation if len(uses) == 1 else None
        return None if op not in self.liveness.index or op in self.taken else op

    def _post_ops(
        self, group: Group, op: nn.ElementwiseOp, value: SSAValue, whole: bool
    ) -> list[tuple[PostOp, Operand | None]]:
        """The post-ops that `op` may be, best first, and the operand of each."""
        values, liveness = self.values, self.liveness
        function = function_of(op, values)
        if function is not None:
            return [(function[1], None)] if function[0] is value else []
        algorithm = BINARY.get(type(op))
        if algorithm is None or (op.operands[0] is not value and not isinstance(op, COMMUTATIVE)):
            return []
        other = op.operands[1] if op.operands[0] is value else op.operands[0]
        if other is value:
            return []
        primitive = group.primitive
        assert primitive is not None
        name = primitive.request.name
        shape = values.layout(other).shape
        found: list[tuple[PostOp, Operand | None]] = []
        constant = values.constant(other)
        if constant is not None:
            extents = (
                None if whole else broadcast_extents(shape, values.layout(value).shape, primitive.extents)
            )
            if extents is None or not takes_broadcast(name, extents):
                return []
            operand, descriptor = values.packed(np.broadcast_to(constant, shape).reshape(extents))
            return [(BinaryPostOp(algorithm, descriptor), operand)]
        if name not in _TAKES_TENSOR or not lie_alike(values.layout(other), values.layout(value)):
            return []
        operand = Operand(other, primitive.result)
        read = {liveness.root(o.value) for o in group.operands.values() if o.value is not None}
        has_sum = any(isinstance(post_op, SumPostOp) for post_op in primitive.post_ops)
        if (
            isinstance(op, nn.AddOp)
            and name in _TAKES_SUM
            and not whole
            and not has_sum
            and liveness.root(other) not in read
            and liveness.root(other) is other
            and liveness.dies_at(other, op)
            and other not in self.kept
        ):
            found.append((SumPostOp(), operand))
        return [*found, (BinaryPostOp(algorithm, primitive.result), operand)]
