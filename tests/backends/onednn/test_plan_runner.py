"""Calls of one plan from many threads, memory that is checked, and what a profile tells."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers

pytestmark = needs_library

SHAPE = (1, 17, 9, 8)


def network() -> Any:
    """Convolutions in blocks with pads, a pool, an op by a loop, and one by the reference."""
    program = Program(SHAPE)
    x = program.argument(0, "nChw8c")
    for seed in range(3):
        w = program.constant(numbers((17, 17, 3, 3), seed, -0.2, 0.2))
        x = program.add(nn.ConvOp, x, w, pads=(1, 1, 1, 1), format="nChw8c")
        x = program.add(nn.ReluOp, x, format="nChw8c")
    y = program.reordered(program.add(nn.MaxPoolOp, x, kernel=(2, 2), format="nChw8c"), "nchw")
    z = program.add(nn.CosOp, program.add(nn.GlobalAvgPoolOp, y, format="nchw"), format="nchw")
    return program.module(program.add(nn.CumSumOp, z, axis=1, format="nchw"), y)


def test_threads_that_call_one_executable_do_not_meet():
    module = network()
    executable = li.compile(module, checked=True)
    inputs = [numbers(SHAPE, seed) for seed in range(8)]
    expected = [executable([x]) for x in inputs]
    wrong: list[int] = []

    def call(number: int) -> None:
        for _ in range(20):
            found = executable([inputs[number]])
            if not all(np.array_equal(a, b) for a, b in zip(found, expected[number], strict=True)):
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_are_deterministic_and_leave_their_inputs_as_they_are(threads: int):
    executable = compare(network(), numbers(SHAPE), threads=threads, fallbacks={"nn.cum_sum": 1})
    x = numbers(SHAPE)
    first = executable([x])
    again = executable([x])
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert all(not np.shares_memory(a, b) for a, b in zip(first, again, strict=True))
    assert np.array_equal(x, numbers(SHAPE))


def test_a_result_that_is_an_input_or_a_constant_is_a_copy():
    program = Program((2, 3))
    constant = program.constant(numbers((2, 3), 1))
    executable = compare(program.module(program.arguments[0], constant, constant), numbers((2, 3)))
    x = numbers((2, 3))
    given, kept, twice = executable([x])
    assert not np.shares_memory(given, x) and not np.shares_memory(kept, twice)
    kept[...] = 0
    assert executable([x])[1].any()


def test_a_profile_names_every_step():
    executable = li.compile(network())
    times = executable.profile([numbers(SHAPE)])
    assert [name for time in times for name in time.ops if name.startswith("nn.")] == [
        *["nn.conv", "nn.relu"] * 3, "nn.max_pool", "nn.global_avg_pool", "nn.cos", "nn.cum_sum",
    ]  # fmt: skip
    assert all(time.nbytes > 0 and time.nanoseconds > 0 and time.layouts for time in times)
    assert {time.implementation for time in times} >= {"reorder", "loop", "reference"}


def test_an_executable_that_is_dropped_returns_its_memory():
    executable = li.compile(network())
    executable([numbers(SHAPE)])
    program: Any = executable._static  # pyright: ignore[reportPrivateUsage]
    context = program.runner._idle[0]
    gone = [weakref.ref(context), weakref.ref(program)]
    del executable, program, context
    import gc

    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_the_error_of_an_op_by_the_reference_names_the_op():
    from tests.programs import parse

    module = parse(
        "func.func @main(%x: tensor<3xf32>, %i: tensor<2xi64>) -> tensor<2xf32> {\n"
        "  %y = nn.gather %x, %i : (tensor<3xf32>, tensor<2xi64>) -> tensor<2xf32>\n  func.return %y : tensor<2xf32>\n}"
    )
    executable = li.compile(module)
    with pytest.raises(LayoutError, match=r"nn\.gather"):
        executable([numbers((3,)), np.array([0, 7])])
    (found,) = executable([numbers((3,)), np.array([0, 2])])
    assert np.array_equal(found, numbers((3,))[[0, 2]])


def test_negative_wrong_arrays_are_refused_after_right_ones():
    program = Program(SHAPE)
    executable = li.compile(program.module(program.add(nn.ReluOp, program.argument(0))))
    x = numbers(SHAPE)
    executable([x])
    (name,) = executable.input_names
    for wrong in (x.astype(np.float64), x[:, :16], x.astype(x.dtype.newbyteorder())):
        with pytest.raises(LayoutError, match="the array given is"):
            executable([wrong])
    for given in ([], [x, x], {}, {"other": x}, {name: x, "other": x}):
        with pytest.raises(LayoutError, match=r"takes|missing"):
            executable(given)
    assert np.array_equal(executable({name: x})[0], np.maximum(x, 0))
