"""Steps, and the memory that they run on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.onednn.execution_plan import ExecutionPlan, KernelStep, ReferenceStep
from layout_ir.backends.onednn.memory_descriptors import MemoryDescriptor
from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers
from tests.programs import parse

pytestmark = needs_library

SHAPE = (2, 16, 6, 5)


def plan_of(executable: li.Executable) -> ExecutionPlan:
    program: Any = executable._static  # pyright: ignore[reportPrivateUsage]
    return program.plan


def test_a_chain_of_functions_runs_in_place():
    program = Program(SHAPE)
    x = program.argument(0, "nhwc")
    for op in (nn.TanhOp, nn.AbsOp, nn.ExpOp):
        x = program.add(op, x, format="nhwc")
    plan = plan_of(compare(program.module(x), numbers(SHAPE), fuse=False))
    assert plan.arena.size == plan.arena.lower_bound <= 4 * 960 + 64


def test_negative_a_value_that_is_needed_later_is_not_written_over():
    program = Program(SHAPE)
    x = program.argument(0, "nhwc")
    y = program.add(nn.TanhOp, x, format="nhwc")
    compare(program.module(program.add(nn.AddOp, x, y, format="nhwc")), numbers(SHAPE))


@pytest.mark.parametrize("steps", [(1, 1), (2, 3)])
def test_slices_concats_and_expansions_are_compiled_reorders(steps: tuple[int, int]):
    program = Program(SHAPE)
    x = program.argument(0, "nhwc")
    sizes = (2, 16, 3, 2) if steps != (1, 1) else (2, 16, 4, 3)
    y = program.add(
        nn.SliceOp, x, starts=(0, 0, 1, 0), sizes=(2, 16, sizes[2], sizes[3] if steps == (1, 1) else 2),
        steps=(1, 1, *steps) if steps == (1, 1) else (1, 1, 2, 3), format="nhwc",
    )  # fmt: skip
    plan = plan_of(compare(program.module(y), numbers(SHAPE)))
    assert not any(isinstance(step, ReferenceStep) for step in plan.steps)


def test_a_concat_of_other_elements_is_a_reorder_into_each_part():
    module = parse(
        "func.func @main(%x: tensor<3x2xi64>, %y: tensor<3x4xi64>) -> tensor<3x6xi64> {\n"
        "  %z = nn.concat %x, %y axis = 1 : (tensor<3x2xi64>, tensor<3x4xi64>) -> tensor<3x6xi64>\n"
        "  func.return %z : tensor<3x6xi64>\n}"
    )
    inputs = np.arange(6).reshape(3, 2), np.arange(12).reshape(3, 4)
    plan = plan_of(compare(module, *inputs))
    assert [type(step) for step in plan.steps] == [KernelStep]


def test_an_empty_part_of_a_concat_is_nowhere():
    module = parse(
        "func.func @main(%x: tensor<3x2xf32>, %y: tensor<3x0xf32>, %z: tensor<3x4xf32>) -> tensor<3x6xf32> {\n"
        "  %a = nn.concat %x, %y, %z axis = 1"
        " : (tensor<3x2xf32>, tensor<3x0xf32>, tensor<3x4xf32>) -> tensor<3x6xf32>\n"
        "  func.return %a : tensor<3x6xf32>\n}"
    )
    inputs = [np.arange(n, dtype=np.float32).reshape(3, -1 if n else 0) for n in (6, 0, 12)]
    plan = plan_of(compare(module, *inputs))
    assert not any(isinstance(step, ReferenceStep) for step in plan.steps)


def test_an_expansion_is_a_reorder_of_a_broadcast():
    program = Program((5, 1))
    compare(program.module(program.add(nn.ExpandOp, program.argument(0), shape=(2, 5, 3))), numbers((5, 1)))


def test_views_are_no_steps_and_permutations_without_formats_are_moves():
    module = parse(
        "func.func @main(%x: tensor<3x4xf32>) -> tensor<2x6xf32> {\n"
        "  %y = layout.permute %x perm = [1, 0] : tensor<3x4xf32> -> tensor<4x3xf32>\n"
        "  %z = layout.reshape %y : tensor<4x3xf32> -> tensor<2x6xf32>\n"
        "  func.return %z : tensor<2x6xf32>\n}"
    )
    plan = plan_of(compare(module, numbers((3, 4))))
    assert [type(step) for step in plan.steps] == [KernelStep]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%y = nn.relu %x : (tensor<3xf32>) -> tensor<3xf32>\n  cf.br ^end\n^end:\n  func.return %y : tensor<3xf32>",
         "has 2 blocks"),
        ("%y = func.call @main(%x) : (tensor<3xf32>) -> tensor<3xf32>\n  func.return %y : tensor<3xf32>",
         "not func.call: use layout_ir.run"),
        ("%c = arith.constant 1 : index\n  func.return %x : tensor<3xf32>", "not arith.constant"),
    ],
)  # fmt: skip
def test_negative_what_is_no_network_is_refused(body: str, message: str):
    module = parse(f"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {{\n  {body}\n}}")
    with pytest.raises(LayoutError, match=message):
        li.compile(module)


def test_ops_without_elements_are_no_steps():
    program = """func.func @main(%x: tensor<0x4xf64>, %i: tensor<3xi64>, %y: tensor<2x4xf64>)
        -> (tensor<0x3xf64>, tensor<2x4xf64>, tensor<0x4xi64>) {
      %a = nn.gather %x, %i axis = 1 : (tensor<0x4xf64>, tensor<3xi64>) -> tensor<0x3xf64>
      %b = nn.concat %x, %y axis = 0 : (tensor<0x4xf64>, tensor<2x4xf64>) -> tensor<2x4xf64>
      %e = nn.exp %x : tensor<0x4xf64>
      %k = nn.constant dense<0> : tensor<1xi64>
      %v, %c = nn.opaque "TopK" opset 11 (%e, %k) {axis = 0 : i64}
        : (tensor<0x4xf64>, tensor<1xi64>) -> (tensor<0x4xf64>, tensor<0x4xi64>)
      func.return %a, %b, %c : tensor<0x3xf64>, tensor<2x4xf64>, tensor<0x4xi64>
    }"""
    executable = li.compile(li.parse(program))
    assert [step.text.ops for step in executable.plan.steps] == [("nn.concat",)]
    y = np.ones((2, 4))
    found = executable([np.zeros((0, 4)), np.zeros(3, np.int64), y])
    assert [array.shape for array in found] == [(0, 3), (2, 4), (0, 4)]
    np.testing.assert_array_equal(found[1], y)


def test_negative_a_primitive_that_may_reach_beyond_its_memory_is_refused(monkeypatch: pytest.MonkeyPatch):
    program = Program((4, 8))
    module = program.module(
        program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((8, 3), 1)))
    )
    li.compile(module)
    monkeypatch.setattr(MemoryDescriptor, "reach", property(lambda _: 1 << 40))
    with pytest.raises(LayoutError, match=rf"argument \d+ of a primitive has {1 << 40} bytes in a buffer of"):
        li.compile(module)
