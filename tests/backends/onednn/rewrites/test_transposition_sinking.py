"""Transpositions around elementwise ops."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.transposition_sinking import sink_transpositions
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers

SHAPE = 2, 7, 6, 8
FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def channels_last(program: Program, x: SSAValue, seed: int = 0) -> SSAValue:
    """A convolution of a tensor in channels last, whose result is in channels last, too."""
    x = program.insert(PermuteOp(x, FIRST))
    w = program.constant(numbers((8, 8, 3, 3), seed + 1, -0.3, 0.3))
    return program.insert(PermuteOp(program.insert(nn.ConvOp(x, w, pads=(1, 1, 1, 1))), LAST))


def transpositions(module: ModuleOp) -> int:
    sunk = module.clone()
    sink_transpositions(sunk)
    sunk.verify()
    return sum(isinstance(op, PermuteOp) for op in sunk.walk())


def apply(program: Program, op: Any, *operands: SSAValue, **attributes: Any) -> SSAValue:
    return program.insert(op(*operands, **attributes))


@needs_library
@pytest.mark.parametrize("extents", [(8,), (1, 1, 8), (), (1,), (6, 1), (2, 1, 1, 8)])
def test_ops_between_convolutions_become_post_ops(extents: tuple[int, ...]):
    program = Program(SHAPE)
    x = channels_last(program, program.arguments[0])
    x = apply(program, nn.AddOp, x, program.constant(numbers(extents, 5)))
    x = apply(program, nn.ReluOp, x)
    module = program.module(channels_last(program, x, 1))
    assert transpositions(module) == 2  # of the argument and the result
    executable = compare(module, numbers(SHAPE))
    per_channel = all(extent == 1 for extent in extents[:-1])  # no other addend is a post-op
    wanted = ("nn.conv", "nn.add", "nn.relu") if per_channel else ("nn.add", "nn.relu")
    assert wanted in [time.ops for time in executable.profile([numbers(SHAPE)])]


@needs_library
def test_a_sum_of_two_that_exchange_dims_alike():
    program = Program(SHAPE)
    x = channels_last(program, program.arguments[0])
    y = apply(program, nn.AddOp, x, channels_last(program, x, 2))
    module = program.module(channels_last(program, y, 1))
    assert transpositions(module) == 2
    compare(module, numbers(SHAPE))


def test_negative_operands_that_exchange_dims_otherwise_stay():
    program = Program((4, 4, 4), (4, 4, 4))
    x = program.insert(PermuteOp(program.arguments[0], (1, 0, 2)))
    y = program.insert(PermuteOp(program.arguments[1], (2, 1, 0)))
    total = apply(program, nn.AddOp, x, y)
    assert transpositions(program.module(apply(program, nn.AddOp, total, program.arguments[0]))) == 2


def test_negative_an_operand_of_fewer_dims_stays():
    program = Program((4, 5), (3, 4, 5))
    x = program.insert(PermuteOp(program.arguments[0], (1, 0)))
    y = program.insert(PermuteOp(program.arguments[1], (0, 2, 1)))
    module = program.module(apply(program, nn.AddOp, x, y))
    before = str(module)
    sink_transpositions(module)
    assert str(module) == before


@pytest.mark.parametrize("is_first", [True, False])
def test_negative_a_constant_of_more_dims_stays(is_first: bool):
    program = Program((4, 5))
    x = program.insert(PermuteOp(program.arguments[0], (1, 0)))
    operands = [program.constant(numbers((3, 5, 1), 5)), x]
    module = program.module(apply(program, nn.MulOp, *(operands if is_first else reversed(operands))))
    before = str(module)
    sink_transpositions(module)
    assert str(module) == before


@needs_library
def test_two_transpositions_are_one_or_none():
    program = Program((2, 3, 4))
    x = apply(program, nn.NegOp, program.arguments[0])
    once = program.insert(PermuteOp(program.insert(PermuteOp(x, (1, 2, 0))), (1, 2, 0)))
    back = program.insert(PermuteOp(once, (1, 2, 0)))
    module = program.module(apply(program, nn.NegOp, once), apply(program, nn.NegOp, back))
    assert transpositions(module) == 1
    compare(module, numbers((2, 3, 4)))
