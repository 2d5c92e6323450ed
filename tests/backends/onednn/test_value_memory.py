"""Where values lie: with the caller, in the arena, as constants."""

from __future__ import annotations

import numpy as np

import layout_ir as li
from layout_ir.backends.onednn.plan_steps import Owner
from layout_ir.dialects import nn
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers

pytestmark = needs_library

SHAPE = (2, 16, 6, 5)


def test_results_are_written_where_the_caller_gets_them():
    program = Program(SHAPE)
    y = program.add(nn.ReluOp, program.argument(0))
    plan = li.compile(program.module(y)).plan
    assert [place.buffer.owner for place in plan.results] == [Owner.RESULT]
    assert plan.arena.size == 0


def test_negative_one_value_that_is_returned_twice_is_two_arrays():
    program = Program(SHAPE)
    y = program.add(nn.ReluOp, program.argument(0))
    first, second = compare(program.module(y, y), numbers(SHAPE))([numbers(SHAPE)])
    assert not np.shares_memory(first, second)


def test_equal_constants_are_stored_once():
    """As the weights of a recurrent layer that is unrolled in time."""
    program = Program((4, 32))
    y = program.argument(0)
    for _ in range(3):
        y = program.add(nn.GemmOp, y, program.constant(numbers((32, 32), 1)), trans_b=True)
        y = program.add(nn.TanhOp, y)
    other = program.add(nn.GemmOp, y, program.constant(numbers((32, 32), 2)), trans_b=True)
    module = program.module(other)
    compare(module, numbers((4, 32)))
    stored = [buffer.size for buffer in li.compile(module).plan.buffers if buffer.owner is Owner.CONSTANT]
    # Once each: packed matrices have a few columns more.
    assert len(stored) == 2 and all(4 * 32 * 32 <= size < 2 * 4 * 32 * 32 for size in stored)
