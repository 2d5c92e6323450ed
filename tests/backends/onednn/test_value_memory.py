"""Where values lie: with the caller, in the arena, as constants."""

from __future__ import annotations

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.onednn.plan_steps import Owner
from layout_ir.dialects import nn
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers
from tests.processes import run_python

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
    # Once each: packed matrices have columns up to a whole block, of 64 at most.
    assert len(stored) == 2 and all(4 * 32 * 32 <= size <= 4 * 32 * 64 for size in stored)


@pytest.mark.parametrize("shape", [(64, 128), (64, 2500)], ids=["a few bytes", "more than are moved at once"])
def test_rows_of_a_constant_are_put_in_order_as_they_are_packed(shape: tuple[int, int]):
    # As of a flattened picture in channels last: the product is one with rows of the constant in that order.
    k = shape[0]
    order = f"(m, k) : [m*{k}, k*1, k:{k // 4}*4]"
    program = Program((12, k))
    b = program.constant(numbers(shape, 1))
    compare(program.module(program.add(nn.GemmOp, program.argument(0, order), b)), numbers((12, k)))


_PEAK = """
import tracemalloc
import numpy as np
import layout_ir as li
from layout_ir.dialects import nn
from tests.backends.onednn.small_programs import Program

program = Program((12, 4096))
weights = np.arange(4096 * 1024, dtype=np.float32).reshape(4096, 1024)
order = "(m, k) : [m*4096, k*1, k:1024*4]"
module = program.module(program.add(nn.GemmOp, program.argument(0, order), program.constant(weights)))
li.compile(module, threads=1)  # loads code
tracemalloc.start()
li.compile(module, threads=1)
print(tracemalloc.get_traced_memory()[1] / weights.nbytes)
"""


@pytest.mark.parametrize("instructions", ["AVX2", "AVX512_CORE"])
def test_weights_in_another_order_are_not_copied_before_they_are_packed(instructions: str):
    # With AVX2 products want them row by row; with AVX-512 in blocks, of which some are put in order at a time.
    child = run_python("-c", _PEAK, variables={"ONEDNN_MAX_CPU_ISA": instructions})
    # The module is the caller's; its weights once more as they are packed, and a part of them.
    assert 1 < float(child.stdout) < 1.7
