"""Ops that are computed together, and how long their values are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from layout_ir.backends.onednn.library import Library, Refused
from layout_ir.backends.onednn.op_loops import OpLoop
from layout_ir.backends.onednn.op_primitives import recurrent_primitives
from layout_ir.backends.onednn.op_primitives.candidates import candidates
from layout_ir.backends.onednn.op_primitives.primitive_operands import Operand, OpPrimitive, Values
from layout_ir.backends.onednn.primitives import PrimitiveDescriptor
from layout_ir.dialects import layout, nn

VIEWS = (layout.PermuteOp, layout.ReshapeOp, layout.SliceOp, layout.CastOp)
"""Ops whose result is the memory of their operand."""

FEW_ELEMENTS = 4096
"""Elements of operands and result up to which the library's reference is taken: it computes one in some nanoseconds,
and NumPy takes some ten microseconds for any op."""


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


def single_op_group(op: Operation, values: Values) -> Group:
    """The op with the first primitive that is no reference of the library's, else with none."""
    group = Group([op])
    for candidate in _candidates(op, values):
        try:
            descriptor = implementation_of(values.library, candidate)
        except Refused:
            continue
        small = not isinstance(op, nn.ConvOp | nn.ConvTransposeOp | nn.MatmulOp | nn.GemmOp)
        small = small and sum(values.layout(v).nelems for v in (*op.operands, *op.results)) <= FEW_ELEMENTS
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


def implementation_of(library: Library, primitive: OpPrimitive) -> PrimitiveDescriptor:
    """The implementation of a primitive with its post-ops. Raises Refused where there is none."""
    return PrimitiveDescriptor(library, primitive.request, primitive.post_ops, primitive.quantization)
