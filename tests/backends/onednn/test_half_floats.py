"""Programs on floats of 16 bits where the library computes in none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.onednn.half_floats import widen_half_floats
from layout_ir.backends.onednn.library import Library
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, dtype_of
from layout_ir.elements.numpy_types import narrow, widen
from tests.backends.onednn.small_programs import Program, needs_library, numbers


class Poor(Library):
    """A library that computes in f32 alone."""

    def __init__(self) -> None: ...

    def computes(self, dtype: str) -> bool:
        return False


def convolved(program: Program) -> Any:
    w = program.constant(numbers((6, 8, 3, 3), 1, -0.2, 0.2))
    return program.add(nn.ReluOp, program.add(nn.ConvOp, program.argument(0), w))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_only_arguments_and_results_stay_as_they_were(dtype: str):
    program = Program((2, 8, 6, 5), dtype=dtype)
    module = program.module(convolved(program))
    expected = li.run(module, [narrow(numbers((2, 8, 6, 5)), dtype)])[0]
    widen_half_floats(program.function, Poor())
    module.verify()
    types = {dtype_of(op.results[0].type) for op in module.walk() if isinstance(op, nn.NNOp)}
    assert types == {"f32"}
    assert [dtype_of(value.type) for value in program.function.args] == [dtype]
    found = li.run(module, [narrow(numbers((2, 8, 6, 5)), dtype)])[0]
    assert found.dtype == expected.dtype
    ours, theirs = widen(found, dtype), widen(expected, dtype)
    # Rounded once instead of after each op: two units in the last place of the largest.
    assert np.max(np.abs(ours - theirs)) <= 2 ** (-9 if dtype == "f16" else -6) * np.max(np.abs(theirs))


def test_a_cast_that_changes_nothing_any_more_is_a_reorder():
    program = Program((2, 3))
    half = program.converted(program.argument(0), "f16")
    module = program.module(program.converted(program.add(nn.NegOp, half), "f32"))
    widen_half_floats(program.function, Poor())
    module.verify()
    assert not any(dtype_of(op.results[0].type) == "f16" for op in module.walk() if op.results)
    assert all(op.is_unquantized for op in module.walk() if isinstance(op, ReorderOp))


def test_negative_a_program_on_f32_stays_as_it_is():
    program = Program((2, 8, 6, 5))
    module = program.module(convolved(program))
    before = str(module)
    widen_half_floats(program.function, Poor())
    assert str(module) == before


@needs_library
def test_a_network_on_f16_runs_without_the_reference():
    program = Program((2, 8, 6, 5), dtype="f16")
    module = program.module(convolved(program))
    x = narrow(numbers((2, 8, 6, 5)), "f16")
    executable = li.compile(module, checked=True)
    assert not executable.fallbacks
    (found,), (expected,) = executable([x]), li.run(module, [x])
    assert found.dtype == expected.dtype == np.float16
    # An f16 has eleven bits: two units in the last place of the largest.
    assert np.max(np.abs(found.astype(float) - expected.astype(float))) <= 2**-9 * np.max(np.abs(expected))
