"""A program in random formats: every op takes its operands in formats of its own, by reorders on every edge."""

from __future__ import annotations

from random import Random
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.algebra.format import Format
from layout_ir.dialects.layout import Encoding, ReorderOp, ViewOp, with_format
from layout_ir.dialects.nn import NNOp
from tests.backends.reference.formats import roomy_format


def with_random_formats(module: ModuleOp, rng: Random) -> ModuleOp:
    """A copy of `module`, all of whose types are plain, with formats chosen at random for each op alone."""
    module = module.clone()
    for function in module.ops:
        (block,) = function.regions[0].blocks
        for op in list(block.ops):
            if isinstance(op, NNOp | ViewOp):
                _reformat(op, block, rng)
            elif isinstance(op, ReturnOp):
                for number, (value, type) in enumerate(
                    zip(op.operands, _result_types(function), strict=True)
                ):
                    op.operands[number] = _reordered(value, type.encoding, op)
    return module


def _result_types(function: Any) -> list[Any]:
    return list(function.function_type.outputs)


def _reordered(value: SSAValue, format: Encoding, user: Operation) -> SSAValue:
    reorder = ReorderOp(value, format)
    Rewriter.insert_op(reorder, InsertPoint.before(user))
    return reorder.result


def _reformat(op: Any, block: Block, rng: Random) -> None:
    if isinstance(op, ViewOp):
        source = roomy_format(rng, [op.source_type.get_shape()])
        try:
            result = op.view(source.bind(op.source_type.get_shape())).format
        except ValueError:  # no format says this view of `source`
            source = Format.row_major(source.names)
            result = op.view(source.bind(op.source_type.get_shape())).format
        op.operands[0] = _reordered(op.input, source, op)
        Rewriter.replace_value_with_new_type(op.result, with_format(op.result.type, result))
        return
    rank = len(op.result.type.get_shape())
    same = [v for v in op.formatted_operands() if len(v.type.get_shape()) == rank] if op.SAME_FORMAT else []
    common = roomy_format(rng, [v.type.get_shape() for v in (*same, op.result)])
    for number, value in enumerate(list(op.operands)):
        shape = value.type.get_shape()
        format = common if value in same else roomy_format(rng, [shape])
        padded = format.bind(shape).padded_dims()
        neutral = [read.neutral for read in op.pad_reads(number) if read.dim in padded]
        op.operands[number] = _reordered(value, format.with_pad(neutral[0] if neutral else "undef"), op)
    Rewriter.replace_value_with_new_type(op.result, with_format(op.result.type, common))
