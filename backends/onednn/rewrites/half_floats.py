"""Programs on floats of 16 bits, where the library does not compute in them: computed in f32, between conversions.

Of a type that it does not compute in at all, that are all values; else the ops that have no kernel for it.

Arguments and results keep their type, constants are converted once, and what lies in between is f32, rounded only where
it leaves, and between two conversions: more exact than the program says, and like what ONNX Runtime does on CPUs. What
only the reference runs (opaque nodes, registered ops) gets and gives the type that it was written for.
"""

from __future__ import annotations

from collections.abc import Collection

from xdsl.builder import Builder
from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.backends.onednn.library import Library
from layout_ir.backends.onednn.op_group import single_op_group
from layout_ir.backends.onednn.op_loops import has_loop
from layout_ir.backends.onednn.op_primitives.candidates import builders_of
from layout_ir.backends.onednn.op_primitives.primitive_operands import Values, widened
from layout_ir.backends.reference.semantics import literal_array
from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    CastOp,
    FillPadsOp,
    ReorderOp,
    ViewOp,
    attribute_of,
    dtype_of,
    has_layout,
    is_tensor,
)
from layout_ir.dialects.nn.constant import literal
from layout_ir.dialects.nn.tensor_types import shape_of, tensor_type

_HALF = ("f16", "bf16")


def widen_half_floats(function: FuncOp, library: Library) -> None:
    """Rewrites, in place, the values of a function of one block that are floats of 16 bits, of those types that the
    library does not compute in."""
    types = {dtype for dtype in _HALF if not library.computes(dtype)}
    blocks = list(function.body.blocks)
    if len(blocks) == 1 and types:
        ops = set(function.body.block.ops)
        wide = {op for op in ops if isinstance(op, nn.NNOp | ReorderOp | CastOp | FillPadsOp | ViewOp)}
        _Widening(types, wide).block(function.body.block)


def widen_ops_without_kernels(function: FuncOp, library: Library) -> None:
    """Rewrites, in place, those ops of a function of one block that lie where the library has no kernel for floats of
    16 bits, though it computes in them elsewhere: convolutions on f16 are compiled for channels last alone."""
    blocks = list(function.body.blocks)
    if len(blocks) == 1:
        values = Values(library)
        ops = {op for op in blocks[0].ops if isinstance(op, nn.NNOp) and _lacks_kernel(op, values)}
        if ops:
            _Widening(set(_HALF), ops).block(blocks[0])


def _lacks_kernel(op: nn.NNOp, values: Values) -> bool:
    result = op.results[0]
    if not has_layout(result.type) or dtype_of(result.type) not in _HALF or has_loop(op):
        return False
    return bool(builders_of(op)) and single_op_group(op, values).primitive is None


class _Widening:
    """Rewrites the ops `wide` of a block to compute in f32 instead of `types`, with conversions around them."""

    def __init__(self, types: set[str], wide: Collection[Operation]) -> None:
        self._types = types
        self._wide = wide
        self._was: dict[SSAValue, str] = {}
        """The types, before, of values that are f32 now."""

    def block(self, block: Block) -> None:
        ops = list(block.ops)
        begin = Builder(InsertPoint.at_start(block))
        for argument in block.args:
            self._widen_uses(argument, begin)
        for op in ops:
            if isinstance(op, nn.ConstantOp):
                self._constant(op)
            elif op in self._wide:
                self._retype(op)
            else:
                self._as_written(op)
                if op.results:
                    behind = Builder(InsertPoint.after(op))
                    for result in op.results:
                        self._widen_uses(result, behind)

    def _half(self, value: SSAValue) -> str | None:
        dtype = dtype_of(value.type) if is_tensor(value.type) and has_layout(value.type) else None
        return dtype if dtype in self._types else None

    def _retype(self, op: Operation) -> None:
        """Lets an op compute in f32. A conversion rounds for all that is no computation: two say nothing else."""
        result = op.results[0]
        dtype = self._half(result)
        if dtype is None:
            return
        if isinstance(op, nn.CastOp | ReorderOp) and dtype_of(op.operands[0].type) == "f32":
            computing = [use for use in self._wide_uses(result) if _computes(use.operation)]
            if computing:
                made = ReorderOp.create(
                    operands=op.operands,
                    result_types=[_wide(result)],
                    properties=op.properties if isinstance(op, ReorderOp) else {},
                )
                made.location = op.location
                Builder(InsertPoint.before(op)).insert(made)
                self._was[made.result] = dtype
                for use in computing:
                    use.operation.operands[use.index] = made.result
            self._widen_uses(result, Builder(InsertPoint.after(op)))
            if not list(result.uses):
                Rewriter.erase_op(op)
            return
        result = Rewriter.replace_value_with_new_type(result, _wide(result))
        self._was[result] = dtype

    def _constant(self, op: nn.ConstantOp) -> None:
        dtype = self._half(op.result)
        uses = self._wide_uses(op.result)
        if dtype is None or not uses:
            return
        elements = widened(literal_array(op), dtype)
        shape = shape_of(op.result)
        type = TensorType(f32, shape)
        # A splat stays one.
        data = literal(type, elements.astype("<f4").tobytes())
        made = nn.ConstantOp(data, _wide(op.result))
        made.location = op.location
        made.result.name_hint = op.result.name_hint
        Builder(InsertPoint.before(op)).insert(made)
        self._was[made.result] = dtype
        for use in uses:
            use.operation.operands[use.index] = made.result
        if not list(op.result.uses):
            Rewriter.erase_op(op)

    def _widen_uses(self, value: SSAValue, build: Builder) -> None:
        """Has those that are widened among the users of `value` take it as f32."""
        dtype = self._half(value)
        uses = self._wide_uses(value)
        if dtype is None or not uses:
            return
        wide = build.insert(ReorderOp.create(operands=[value], result_types=[_wide(value)])).result
        self._was[wide] = dtype
        for use in uses:
            use.operation.operands[use.index] = wide

    def _wide_uses(self, value: SSAValue) -> list[Use]:
        return [use for use in value.uses if use.operation in self._wide]

    def _as_written(self, op: Operation) -> None:
        """Gives an op operands of the types that it was written for."""
        build = Builder(InsertPoint.before(op))
        for number, value in enumerate(op.operands):
            dtype = self._was.get(value)
            if dtype is None:
                continue
            type = tensor_type(value)
            half = TensorType(attribute_of(dtype), type.get_shape(), type.encoding)
            op.operands[number] = build.insert(ReorderOp.create(operands=[value], result_types=[half])).result


def _computes(op: Operation) -> bool:
    return isinstance(op, nn.NNOp) and not isinstance(op, nn.CastOp)


def _wide(value: SSAValue) -> TensorType[Attribute]:
    type = tensor_type(value)
    return TensorType(f32, type.get_shape(), type.encoding)
