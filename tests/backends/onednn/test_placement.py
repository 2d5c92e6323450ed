"""Concats and slices by placement: what lies where, what is still moved, and that nothing is written over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.dialects import nn
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers

pytestmark = needs_library

SHAPE = (1, 16, 6, 5)


def convolution(program: Program, x: Any, seed: int, layout: str, inputs: int = 16) -> Any:
    """A 3x3 convolution to 16 channels."""
    w = program.constant(numbers((16, inputs, 3, 3), seed, -0.2, 0.2))
    return program.add(nn.ConvOp, x, w, pads=(1, 1, 1, 1), format=layout)


def ran(executable: li.Executable, *inputs: Any) -> list[str]:
    """The ops of all steps."""
    return [op for step in executable.profile(inputs) for op in step.ops]


@pytest.mark.parametrize("layout", ["nchw", "nChw8c", "nChw16c"])
def test_what_is_joined_is_written_where_it_lies(layout: str):
    program = Program(SHAPE)
    x = program.argument(0, layout)
    parts = [convolution(program, x, seed, layout) for seed in range(3)]
    y = program.add(nn.ConcatOp, *parts, axis=1, format=layout)
    executable = compare(program.module(convolution(program, y, 9, layout, 48)), numbers(SHAPE))
    assert "nn.concat" not in ran(executable, numbers(SHAPE))


@pytest.mark.parametrize("layout", ["nhwc", "nChw8c"])
def test_negative_parts_that_are_no_tensors_of_their_own_are_moved(layout: str):
    """Channels of nhwc are not contiguous, nor are those of two pictures in blocks."""
    shape = (2, *SHAPE[1:]) if layout == "nChw8c" else SHAPE
    program = Program(shape)
    x = program.argument(0, layout)
    parts = [convolution(program, x, seed, layout) for seed in range(2)]
    executable = compare(
        program.module(program.add(nn.ConcatOp, *parts, axis=1, format=layout)), numbers(shape)
    )
    assert "nn.concat" in ran(executable, numbers(shape))
    times = executable.profile([numbers(shape)])
    assert {time.implementation for time in times if "nn.concat" in time.ops} == {"reorder"}


def test_a_dense_block_keeps_all_its_features_in_one_buffer():
    """Each concat takes the one before: parts of parts."""
    program = Program(SHAPE)
    features, channels = convolution(program, program.arguments[0], 0, "nchw"), 16
    for seed in range(1, 4):
        new = convolution(program, program.add(nn.ReluOp, features, format="nchw"), seed, "nchw", channels)
        features = program.add(nn.ConcatOp, features, new, axis=1, format="nchw")
        channels += 16
    executable = compare(program.module(features), numbers(SHAPE))
    assert "nn.concat" not in ran(executable, numbers(SHAPE))


def test_negative_what_lies_in_another_is_not_written_over():
    """The part, the whole, and the slice are each needed once more when the others have died."""
    program = Program(SHAPE)
    x = program.add(nn.ReluOp, program.arguments[0], format="nchw")
    a, b = convolution(program, x, 1, "nchw"), convolution(program, x, 2, "nchw")
    whole = program.add(nn.ConcatOp, a, b, axis=1, format="nchw")
    first = program.add(nn.TanhOp, whole, format="nchw")
    again = program.add(nn.SigmoidOp, a, format="nchw")
    sliced = program.add(nn.SliceOp, first, starts=(0, 8, 0, 0), sizes=SHAPE, format="nchw")
    total = program.add(nn.AddOp, convolution(program, again, 3, "nchw"), sliced, format="nchw")
    late = program.add(nn.ExpOp, first, format="nchw")
    compare(program.module(total, late, b, again), numbers(SHAPE))


def test_one_value_in_two_concats_and_twice_in_one():
    program = Program(SHAPE)
    a = convolution(program, program.arguments[0], 1, "nchw")
    twice = program.add(nn.ConcatOp, a, a, program.arguments[0], axis=1, format="nchw")
    other = program.add(nn.ConcatOp, program.arguments[0], a, axis=1, format="nchw")
    compare(program.module(twice, other, a), numbers(SHAPE))


def test_a_slice_is_read_where_it_lies():
    program = Program((1, 32, 6, 5))
    x = program.arguments[0]
    halves = [program.add(nn.SliceOp, x, starts=(0, k, 0, 0), sizes=SHAPE, format="nchw") for k in (0, 16)]
    y = program.add(nn.ConcatOp, convolution(program, halves[0], 1, "nchw"), halves[1], axis=1, format="nchw")
    executable = compare(program.module(y), numbers((1, 32, 6, 5)))
    assert "nn.slice" not in ran(executable, numbers((1, 32, 6, 5)))


def test_results_that_are_parts_of_each_other_are_arrays_of_their_own():
    program = Program(SHAPE)
    a = convolution(program, program.arguments[0], 1, "nchw")
    y = program.add(nn.ConcatOp, a, program.arguments[0], axis=1, format="nchw")
    executable = compare(program.module(y, a), numbers(SHAPE))
    whole, part = executable([numbers(SHAPE)])
    assert not np.shares_memory(whole, part)
