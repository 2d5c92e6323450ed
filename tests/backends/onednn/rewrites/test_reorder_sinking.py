"""Reorders between an op and the elementwise ops behind it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import layout_ir as li
from layout_ir.backends.onednn.rewrites.reorder_sinking import sink_reorders
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers

SHAPE = 2, 16, 6, 5


def convolved(program: Program, format: str | None, outputs: int = 16) -> SSAValue:
    """A convolution of the argument, in `format`."""
    w = program.constant(numbers((outputs, 16, 3, 3), 1, -0.3, 0.3))
    x = program.argument(0, format)
    return program.add(nn.ConvOp, x, w, format=format, pads=(1, 1, 1, 1))


def sunk(module: ModuleOp) -> list[str]:
    """The ops of a module, reorders of arguments left out, after the rule was applied; it computes the same."""
    changed = module.clone()
    sink_reorders(changed)
    changed.verify()
    x = numbers(SHAPE)
    for before, after in zip(li.run(module, [x]), li.run(changed, [x]), strict=True):
        np.testing.assert_array_equal(before, after)
    names = [op.name for op in changed.walk() if isinstance(op, ReorderOp | nn.NNOp)]
    return [name for name in names[names.index("nn.conv") :] if name != "nn.constant"]


@pytest.mark.parametrize(("source", "result"), [("nhwc", "nChw8c"), ("nChw16c", "nhwc"), (None, "nhwc")])
def test_a_function_moves_in_front_of_a_reorder(source: str | None, result: str):
    program = Program(SHAPE)
    x = program.reordered(convolved(program, source), result)
    y = program.add(nn.ReluOp, x, format=result)
    y = program.add(nn.MulOp, y, program.constant(numbers((16, 1, 1), 7)), format=result)
    found = sunk(program.module(y))
    assert found[:3] == ["nn.conv", "nn.relu", "nn.mul"]


@pytest.mark.parametrize(("back", "between"), [("nhwc", []), ("nChw8c", ["layout.reorder"])])
def test_reorders_that_meet_become_one_or_none(back: str, between: list[str]):
    program = Program(SHAPE)
    x = program.add(nn.ReluOp, program.reordered(convolved(program, "nhwc"), "nchw"), format="nchw")
    y = program.add(nn.MaxPoolOp, program.reordered(x, back), kernel=(2, 2), format=back)
    found = sunk(program.module(y))
    assert found == ["nn.conv", "nn.relu", *between, "nn.max_pool", "layout.reorder"]


@needs_library
def test_it_then_joins_the_convolution():
    program = Program(SHAPE)
    x = program.reordered(convolved(program, "nhwc"), "nChw8c")
    executable = compare(program.module(program.add(nn.ReluOp, x, format="nChw8c")), numbers(SHAPE))
    assert ("nn.conv", "nn.relu") in [step.ops for step in executable.profile([numbers(SHAPE)])]


@pytest.mark.parametrize("case", ["tensor", "shared", "argument", "padded", "rank", "dtype"])
def test_negative_what_stays_behind_its_reorder(case: str):
    program = Program(SHAPE)
    outputs = 12 if case == "padded" else 16
    formats = ("nChw8c", "nhwc") if case == "padded" else ("nhwc", "nChw8c")
    source = program.arguments[0] if case == "argument" else convolved(program, formats[0], outputs)
    x = program.reordered(source, formats[1])
    results: list[Any] = []
    if case == "tensor":
        y = program.add(nn.AddOp, x, program.constant(numbers(SHAPE, 3), formats[1]), format=formats[1])
    elif case == "rank":
        y = program.add(nn.AddOp, x, program.constant(numbers((1, 1, 1, 1, 1), 3)), format=None)
    elif case == "dtype":
        y = program.add(nn.LessOp, x, program.constant(np.zeros((1,), np.float32)), format=formats[1])
    else:
        y = program.add(nn.ReluOp, x, format=formats[1])
    if case == "shared":
        results.append(x)
    module = program.module(y, *results)
    changed = module.clone()
    sink_reorders(changed)
    assert str(changed) == str(module)
