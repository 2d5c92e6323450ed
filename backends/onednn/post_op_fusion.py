"""Which ops are computed together: a primitive takes the elementwise ops behind it as post-ops.

    conv, relu                      the activation is applied to numbers that are still in registers
    conv, add(other), relu          the same for a residual: read once, and where nobody needs it later, the result is
                                    written over it
    matmul, add(vector), gelu       a bias that the op itself does not have

An op joins the one before it where that has no other user, both results lie alike, and the library has an
implementation for the two that is no slower kind than the one for the first alone. The measure that each of them makes
smaller is the bytes that are moved: the result of the first is neither written nor read again (`bytes_not_moved`).
Floats of 16 bits are rounded once, behind the last post-op. A quantization is the last op of a group on integers.

A function of one number joins any primitive that accepts it, unless one more pass over its result by a compiled loop is
faster (`_is_faster_by_itself`). An op with a second tensor joins those primitives alone
that are known to compute it right (`_TAKES_SUM`, `_TAKES_TENSOR`, `_takes_broadcast`): the library accepts more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.onednn.library import Library, Refused
from layout_ir.backends.onednn.op_loops import OpLoop, has_row_pool
from layout_ir.backends.onednn.op_primitives import integer_primitives, recurrent_primitives
from layout_ir.backends.onednn.op_primitives.candidates import candidates
from layout_ir.backends.onednn.op_primitives.elementwise_functions import BINARY, COMMUTATIVE, function_of
from layout_ir.backends.onednn.op_primitives.primitive_operands import (
    FLOATS,
    Operand,
    OpPrimitive,
    Values,
    lie_alike,
)
from layout_ir.backends.onednn.primitives import (
    POST_OP_STEP,
    Argument,
    BinaryPostOp,
    PostOp,
    PrimitiveDescriptor,
    Quantization,
    SumPostOp,
)
from layout_ir.backends.onednn.quantized_values import quantizing
from layout_ir.dialects import layout, nn
from layout_ir.dialects.layout import dtype_of
from layout_ir.elements.numpy_types import Array
from layout_ir.passes.selection.options.onednn_query import vector_extension

VIEWS = (layout.PermuteOp, layout.ReshapeOp, layout.SliceOp, layout.CastOp)
"""Ops whose result is the memory of their operand."""

_SMALL = 4096
"""Elements of operands and result up to which the library's reference is taken: it computes one in some nanoseconds,
and NumPy takes some ten microseconds for any op."""


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


_BIAS = {"convolution_forward": 4, "deconvolution_forward": 4, "matmul": 2, "inner_product_forward": 3}
"""Where the request for a primitive has its bias."""

_PRODUCTS = frozenset({"matmul", "inner_product_forward"})
"""Of matrices."""

_TAKES_SUM = _PRODUCTS | {"convolution_forward", "deconvolution_forward", "binary", "reduction"}
"""Primitives that add what the result held before. A pool or resampling by loops of C++ accepts the post-op and leaves
it out (3.2)."""

_TAKES_TENSOR = _TAKES_SUM | {"eltwise_forward", "softmax_forward"}
"""Primitives that combine their result with a tensor that lies like it. In 3.2 a pool by `jit` on NCHW, which works on
blocks of channels, reads that tensor by their addresses, behind its end too; a resampling by `simple` reads it by those
of an NCHW tensor, whatever the format."""


def _takes_broadcast(name: str, extents: Sequence[int]) -> bool:
    """Whether the primitive `name` combines its result with a constant of `extents`, broadcast to it.

    A convolution does, and the product of two matrices with a row. In 3.2 others compute something else for some shapes
    (a binary primitive per channel on one pixel, a softmax per channel on NCHW, pools and resamplings along space), and
    products in batches that do not lie in row-major order crash.
    """
    if name in _PRODUCTS:
        return len(extents) == 2 and extents[0] == 1
    return name in ("convolution_forward", "deconvolution_forward")


def _takes_post_ops(descriptor: PrimitiveDescriptor) -> bool:
    """Whether an implementation applies post-ops to what is still in registers.

    A convolution by matrix products over unrolled windows goes over its result again, one element after the other: in
    3.2 a relu takes 1 ns per element there and a sum 5 ns, a primitive of its own 0.1 ns.
    """
    name = descriptor.implementation
    return "gemm" not in name or descriptor.request.name not in (
        "convolution_forward",
        "deconvolution_forward",
    )


def _is_faster_by_itself(op: nn.ElementwiseOp, group: Group, result: Layout) -> bool:
    """Whether a loop computes `op` in less time than a primitive takes longer with it as a post-op: functions that the
    library is slow at, or primitives that are slow at any, on results large enough for a step of their own, which the
    last cache still holds."""
    assert group.primitive is not None
    is_large = result.nelems >= _SMALL and result.nbytes("f32") <= host().l3
    is_plain = dtype_of(op.result.type) == "f32" and not group.primitive.is_on_integers
    return is_large and is_plain and (_is_slow_post_op(op) or _goes_over_products_again(group.descriptor))


def _goes_over_products_again(descriptor: PrimitiveDescriptor | None) -> bool:
    """Whether a product of matrices applies post-ops to its finished result, slower than a step of their own does.

    That is so of products by the library's `gemm`: with AVX2 (Zen 3), 128x64 by 64x1024, ns per element, as a post-op
    and by a step of its own: a row that is added 0.95 and 0.13, relu 0.5 and 0.1, hard swish 0.4 and 0.2, GELU 1.1 and
    0.9. A tensor that is added in place costs 0.2 either way.
    """
    assert descriptor is not None
    return descriptor.request.name == "matmul" and descriptor.implementation.startswith("gemm")


class Liveness:
    """Which op of a block uses the memory of a value last; views share the memory of what they view."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        self._roots: dict[SSAValue, SSAValue] = {}
        self._last: dict[SSAValue, int] = {}
        self.index = {op: number for number, op in enumerate(ops)}
        for number, op in enumerate(ops):
            for operand in op.operands:
                self._last[self.root(operand)] = number
            if isinstance(op, VIEWS):
                self._roots[op.results[0]] = self.root(op.operands[0])

    def root(self, value: SSAValue) -> SSAValue:
        """The value whose memory `value` is."""
        return self._roots.get(value, value)

    def dies_at(self, value: SSAValue, op: Operation) -> bool:
        """Whether no op behind `op` uses the memory of `value`, which an op of the block computes."""
        root = self.root(value)
        owner = root.owner
        is_computed = isinstance(owner, Operation) and not isinstance(owner, nn.ConstantOp)
        return is_computed and self._last.get(root, -1) <= self.index[op]


@dataclass(eq=False)
class Group:
    """Ops that are computed together: by one primitive, or a single op without one."""

    ops: list[Operation]
    primitive: OpPrimitive | None = None
    descriptor: PrimitiveDescriptor | None = None
    over: SSAValue | None = None
    """The value over whose memory the result is written."""
    bytes_not_moved: int = 0
    loop: OpLoop | None = None
    """The compiled loop that computes the ops, where that is not a primitive."""
    operands: dict[int, Operand] = field(default_factory=dict[int, Operand])

    @property
    def result(self) -> SSAValue:
        """What the last op computes."""
        return self.ops[-1].results[0]

    def read(self) -> list[SSAValue]:
        """The values that it reads, and the one over which it writes: those of its ops, its loop, or its primitive."""
        if self.loop is not None:
            return list(self.loop.operands)
        if self.primitive is None:
            return list(self.ops[0].operands)
        given = [operand.value for operand in self.operands.values()]
        return [value for value in (*given, self.over) if value is not None]


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
                group = Group([op], candidate, _asked(self.values.library, candidate))
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
        if not isinstance(op, nn.ElementwiseOp):
            return False
        assert group.primitive is not None and group.descriptor is not None
        is_looped = (
            isinstance(group.ops[0], nn.ElementwiseOp | nn.ReduceOp) and not group.primitive.is_on_integers
        )
        if (group.descriptor.is_slow and is_looped) or has_row_pool(group.ops[0]):
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
        absorbed = _scale_constants, _scale_product, _add_row
        if any(absorb(group, op, value, values) for absorb in absorbed):
            group.ops.append(op)
            group.bytes_not_moved += 2 * before.nbytes(dtype)
            return True
        if not (whole or _takes_post_ops(group.descriptor)):
            return False
        for post_op, operand in self._post_ops(group, op, value, whole):
            if not isinstance(post_op, SumPostOp) and _is_faster_by_itself(op, group, after):
                continue
            chain = (*group.primitive.post_ops, post_op)
            try:
                descriptor = _asked(values.library, replace(group.primitive, post_ops=chain))
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
            descriptor = _asked(self.values.library, found)
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
            extents = None if whole else _seen(shape, values.layout(value).shape, primitive.extents)
            if extents is None or not _takes_broadcast(name, extents):
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


def single_op_group(op: Operation, values: Values) -> Group:
    """The op with the first primitive that is no reference of the library's, else with none."""
    group = Group([op])
    for candidate in _candidates(op, values):
        try:
            descriptor = _asked(values.library, candidate)
        except Refused:
            continue
        small = not isinstance(op, nn.ConvOp | nn.ConvTransposeOp | nn.MatmulOp | nn.GemmOp)
        small = small and sum(values.layout(v).nelems for v in (*op.operands, *op.results)) <= _SMALL
        # The reference of recurrent nodes calls compiled products; that of the onnx package is 200 times slower.
        if not descriptor.is_slow or small or isinstance(op, nn.OpaqueOp):
            group.primitive, group.descriptor = candidate, descriptor
            group.operands = dict(candidate.operands)
            return group
    return group


def _candidates(op: Operation, values: Values) -> Iterator[OpPrimitive]:
    if isinstance(op, nn.OpaqueOp):
        return recurrent_primitives.recurrent_candidates(op, values)
    return candidates(op, values)


def _asked(library: Library, primitive: OpPrimitive) -> PrimitiveDescriptor:
    """The implementation of a primitive with its post-ops. Raises Refused where there is none."""
    return PrimitiveDescriptor(library, primitive.request, primitive.post_ops, primitive.quantization)


def _scale_constants(group: Group, op: nn.ElementwiseOp, value: SSAValue, values: Values) -> bool:
    """Multiplies or shifts the constants of a convolution or normalization by those of `op`, one per channel; whether
    that is what `op` is."""
    head = group.ops[0]
    if not isinstance(op, nn.AddOp | nn.MulOp) or not isinstance(head, nn.ConvOp | nn.BatchNormOp):
        return False
    assert group.primitive is not None
    shape = values.layout(value).shape
    other = op.operands[1] if op.operands[0] is value else op.operands[0]
    constant = values.constant(other)
    if constant is None or group.primitive.post_ops or group.primitive.quantization:
        return False
    wide = constant.reshape((1,) * (len(shape) - constant.ndim) + constant.shape)
    if any(extent != 1 for d, extent in enumerate(wide.shape) if d != 1):
        return False
    channels = np.broadcast_to(wide.reshape(-1), shape[1:2])
    shift = Argument.BIAS if isinstance(head, nn.ConvOp) else Argument.SHIFT
    scaled = Argument.WEIGHTS if isinstance(head, nn.ConvOp) else Argument.SCALE
    if isinstance(op, nn.AddOp):
        old = group.operands.get(shift)
        if old is None and isinstance(head, nn.ConvOp):
            return _add_bias(group, channels, values)
        if old is None or old.constant is None:
            return False
        group.operands[shift] = replace(old, constant=old.constant + channels)
        return True
    touched = [argument for argument in (scaled, shift) if argument in group.operands]
    if any(group.operands[argument].constant is None for argument in touched):
        return False
    for argument in touched:
        old = group.operands[argument]
        assert old.constant is not None
        lead = (
            (head.group, -1)
            if isinstance(head, nn.ConvOp) and head.group > 1 and argument is scaled
            else (-1,)
        )
        factor = channels.reshape(*lead, *(1,) * (old.constant.ndim - len(lead)))
        group.operands[argument] = replace(old, constant=old.constant * factor)
    return True


def _add_bias(group: Group, channels: Array, values: Values) -> bool:
    """Gives a convolution that has none the bias `channels`; whether there is an implementation with one."""
    return _set_bias(group, np.ascontiguousarray(channels), values)


def _add_row(group: Group, op: nn.ElementwiseOp, value: SSAValue, values: Values) -> bool:
    """Gives a product of matrices the constant row that `op` adds as its bias, which costs nothing; whether it did."""
    primitive = group.primitive
    assert primitive is not None
    if not isinstance(op, nn.AddOp) or not isinstance(group.ops[0], nn.MatmulOp):
        return False
    if primitive.post_ops or primitive.quantization or Argument.BIAS in group.operands:
        return False
    other = op.operands[1] if op.operands[0] is value else op.operands[0]
    constant, shape = values.constant(other), values.layout(other).shape
    extents = _seen(shape, values.layout(value).shape, primitive.extents)
    if constant is None or extents is None or not _takes_broadcast(primitive.request.name, extents):
        return False
    row = np.broadcast_to(np.broadcast_to(constant, shape).reshape(-1), primitive.extents[-1:])
    return _set_bias(group, row[None] if primitive.request.name == "matmul" else row, values)


def _set_bias(group: Group, constant: Array, values: Values) -> bool:
    """Gives the primitive of a group, which has none, a bias; whether there is an implementation with one."""
    assert group.primitive is not None and group.descriptor is not None
    operand, bias = values.packed(np.ascontiguousarray(constant))
    request = group.primitive.request
    place = _BIAS[request.name]
    arguments = (*request.arguments[:place], bias, *request.arguments[place + 1 :])
    request = replace(request, arguments=arguments)
    try:
        descriptor = PrimitiveDescriptor(values.library, request)
    except Refused:
        return False
    if descriptor.is_slow and not group.descriptor.is_slow:
        return False
    group.descriptor = descriptor
    group.primitive = replace(group.primitive, request=request)
    group.operands[Argument.BIAS] = operand
    return True


def _scale_product(group: Group, op: nn.ElementwiseOp, value: SSAValue, values: Values) -> bool:
    """Gives a product by the library's `gemm` the number that `op` multiplies or divides by as a factor of all sums,
    which costs nothing; whether it did. Other kernels take it as a post-op for as little."""
    primitive = group.primitive
    assert primitive is not None
    if not isinstance(op, nn.MulOp | nn.DivOp) or not _goes_over_products_again(group.descriptor):
        return False
    if primitive.post_ops or primitive.quantization or Argument.BIAS in group.operands:
        return False
    factor = _factor(op, value, values)
    if factor is None:
        return False
    scale = Argument.SCALE_OF | Argument.SRC
    scaled = replace(primitive, quantization=(Quantization(scale, 0),))
    try:
        descriptor = _asked(values.library, scaled)
    except Refused:
        return False
    if descriptor.implementation != group.descriptor.implementation:
        return False
    group.primitive, group.descriptor = scaled, descriptor
    group.operands[scale] = integer_primitives.vector(values.library, [factor], np.float32)
    return True


def _factor(op: nn.MulOp | nn.DivOp, value: SSAValue, values: Values) -> float | None:
    """The number by which `op` multiplies all elements of `value`.

    None where there is none, or it is no normal number in f32: products leave out their sums where they are multiplied
    by zero, NaN among them, and the inverse of what is almost zero has no digits.
    """
    other = op.operands[1] if op.operands[0] is value else op.operands[0]
    number = values.scalar(other)
    if number is None or (isinstance(op, nn.DivOp) and (other is op.operands[0] or number == 0)):
        return None
    factor = 1 / number if isinstance(op, nn.DivOp) else number
    limits = np.finfo(np.float32)
    return factor if limits.tiny <= abs(factor) <= limits.max else None


def _seen(
    shape: tuple[int, ...], result: tuple[int, ...], extents: tuple[int, ...]
) -> tuple[int, ...] | None:
    """A tensor of `shape`, broadcast to `result`, as extents that broadcast to those that the primitive knows.

    None where there are none, or the primitive has dims of its own."""
    wide = (1,) * (len(result) - len(shape)) + shape
    if not extents:
        return None
    if extents == result:
        return wide
    if all(extent == 1 for extent in wide):
        return (1,) * len(extents)
    if all(extent == 1 for extent in wide[:-1]) and result[-1] == extents[-1]:
        return (*(1 for _ in extents[:-1]), wide[-1])
    return None
