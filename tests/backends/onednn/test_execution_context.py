"""The memory of one call, and its steps as records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.onednn import execution_context as context_module
from layout_ir.backends.onednn.plan_runner import PlanRunner
from layout_ir.backends.onednn.plan_steps import PrimitiveStep
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers

pytestmark = needs_library

SHAPE = (1, 17, 9, 8)


def test_negative_a_write_outside_of_the_arena_is_seen(monkeypatch: pytest.MonkeyPatch):
    program = Program(SHAPE)
    module = program.module(program.add(nn.CosOp, program.add(nn.ReluOp, program.argument(0)), format="nchw"))
    executable: Any = li.compile(module, checked=True)
    runner: PlanRunner = executable._static.runner
    tensor = Tensor.store(numbers(SHAPE), runner.plan.inputs[0].layout, "f32")
    runner([tensor])
    context: Any = runner._idle[0]  # pyright: ignore[reportPrivateUsage]
    start = context.arena.ctypes.data - context.raw.ctypes.data

    def writes_too_far() -> None:
        context.raw[start + context.arena.nbytes] = 0

    context.calls.append(writes_too_far)
    with pytest.raises(LayoutError, match="outside of the arena"):
        runner([tensor])


def test_arguments_that_lie_alike_in_one_place_are_one_memory_object():
    program = Program((4, 8))
    x = program.argument(0)
    w = program.constant(numbers((8, 8), 1))
    a = program.add(nn.MatmulOp, x, w)
    b = program.add(nn.MatmulOp, a, w)
    executable = compare(program.module(program.add(nn.MatmulOp, b, w), a), numbers((4, 8)))
    steps = [step for step in executable.plan.steps if isinstance(step, PrimitiveStep)]
    places = {
        (argument.descriptor, argument.buffer, argument.offset)
        for step in steps
        for argument in step.arguments
    }
    context: Any = PlanRunner(executable.plan, threads=1).new_context()
    assert len(context._objects) <= len(places) < sum(len(step.arguments) for step in steps)
    results = context.run([numbers((4, 8), 2)], None, (), {})
    assert all((x == y).all() for x, y in zip(results, executable([numbers((4, 8), 2)]), strict=True))


def test_the_guards_are_as_large_as_a_page():
    assert context_module._GUARD == 4096  # pyright: ignore[reportPrivateUsage]


def test_arrays_as_they_are_and_arrays_that_are_looked_at_give_the_same(monkeypatch: pytest.MonkeyPatch):
    program = Program(SHAPE, SHAPE)
    x, y = program.argument(0), program.argument(1)
    w = program.constant(numbers((17, 17, 1, 1), 3, -0.2, 0.2))
    module = program.module(program.add(nn.ConvOp, program.add(nn.AddOp, x, y), w), program.add(nn.CosOp, x))
    inputs = numbers(SHAPE, 1), numbers(SHAPE, 2)
    executable: Any = li.compile(module)
    executable(inputs)
    assert executable._static.runner._idle[0].is_records
    found = executable(dict(zip(executable.input_names, inputs, strict=True)))
    strided = [np.asfortranarray(array) for array in inputs]
    assert all(np.array_equal(a, b) for a, b in zip(found, executable(strided), strict=True))
    monkeypatch.setattr(context_module, "finds_elements", lambda: False)
    other: Any = li.compile(module)
    assert all(np.array_equal(a, b) for a, b in zip(found, other(inputs), strict=True))
    assert not other._static.runner._idle[0].is_records
