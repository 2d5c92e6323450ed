"""Programs on floats of 16 bits where the library computes in none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

import layout_ir as li
from layout_ir.backends.onednn.library import Library, library
from layout_ir.backends.onednn.op_group import Group, single_op_group
from layout_ir.backends.onednn.op_primitives.primitive_operands import Values
from layout_ir.backends.onednn.rewrites import half_floats
from layout_ir.backends.onednn.rewrites.half_floats import widen_half_floats, widen_ops_without_kernels
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReorderOp, attribute_of, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of
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


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("by", ["cast", "reorder"])
@pytest.mark.parametrize("through", [False, True])
def test_negative_between_two_conversions_numbers_are_rounded(dtype: str, by: str, through: bool):
    program, x = Program((6, 5)), numbers((6, 5))

    def converted(value: SSAValue, to: str) -> SSAValue:
        if by == "reorder":
            return program.converted(value, to)
        type = TensorType(attribute_of(to), shape_of(value))
        return program.insert(nn.CastOp(value, result_type=type))

    half = converted(program.argument(0), dtype)
    moved = program.insert(PermuteOp(half, (1, 0))) if through else half
    negative = program.insert(nn.NegOp(half))
    module = program.module(converted(moved, "f32"), converted(negative, "f32"))
    widen_half_floats(program.function, Poor())
    module.verify()
    rounded = widen(narrow(x, dtype), dtype)
    found, computed = li.run(module, [x])
    np.testing.assert_array_equal(found, rounded.T if through else rounded)
    np.testing.assert_array_equal(computed, -x)
    assert (rounded != x).any()


def test_negative_a_program_on_f32_stays_as_it_is():
    program = Program((2, 8, 6, 5))
    module = program.module(convolved(program))
    before = str(module)
    widen_half_floats(program.function, Poor())
    assert str(module) == before


@needs_library
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_an_op_without_a_kernel_is_widened_alone(dtype: str, monkeypatch: pytest.MonkeyPatch):
    def without_convolutions(op: Operation, values: Values) -> Group:
        return Group([op]) if isinstance(op, nn.ConvOp) else single_op_group(op, values)

    monkeypatch.setattr(half_floats, "single_op_group", without_convolutions)
    program = Program((2, 8, 6, 5), dtype=dtype)
    w = program.constant(numbers((8, 8, 1, 1), 1, -0.2, 0.2))
    x = program.add(nn.ReluOp, program.argument(0))
    y = program.add(nn.ConvOp, x, w)
    # The constant is used as it is as well, and so is the result of the convolution.
    module = program.module(program.add(nn.AddOp, x, y), program.add(nn.ReluOp, w))
    x = narrow(numbers((2, 8, 6, 5)), dtype)
    expected = li.run(module, [x])
    widen_ops_without_kernels(program.function, library())
    module.verify()
    types = [(op.name, dtype_of(op.result.type)) for op in module.walk() if isinstance(op, nn.NNOp)]
    assert sorted(types) == sorted(
        [
            ("nn.add", dtype),
            ("nn.constant", dtype),
            ("nn.constant", "f32"),
            ("nn.conv", "f32"),
            ("nn.relu", dtype),
            ("nn.relu", dtype),
        ]
    )
    for ours, theirs in zip(li.run(module, [x]), expected, strict=True):
        assert ours.dtype == theirs.dtype
        ours, theirs = widen(ours, dtype), widen(theirs, dtype)
        assert np.max(np.abs(ours - theirs)) <= 2 ** (-9 if dtype == "f16" else -6) * np.max(np.abs(theirs))


@needs_library
def test_negative_ops_with_kernels_or_loops_are_not_widened():
    program = Program((2, 8, 6, 5), dtype="bf16")
    module = program.module(program.add(nn.SigmoidOp, program.add(nn.ReluOp, program.argument(0))))
    before = str(module)
    widen_ops_without_kernels(program.function, library())
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
