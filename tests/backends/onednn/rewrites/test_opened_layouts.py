"""Ops whose layouts the library has no kernels for."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.op_primitives.primitive_operands import Values
from layout_ir.backends.onednn.post_op_fusion import Group
from layout_ir.backends.onednn.rewrites import opened_layouts
from layout_ir.backends.onednn.rewrites.opened_layouts import open_layouts_without_kernels
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, is_any
from tests.backends.onednn.small_programs import BLOCKED, Program, compare, needs_library, numbers

pytestmark = needs_library

SHAPE = 2, 17, 6, 5
NOWHERE = "(n, c, h, w) : [n, h, c, w]"
"""No CPU has kernels for it."""


def opened(module: ModuleOp, function: Any) -> list[str]:
    """The ops some of whose layouts are open then."""
    open_layouts_without_kernels(function, library())
    module.verify()
    return [
        op.name
        for op in module.walk()
        if not isinstance(op, ReorderOp) and any(is_any(value.type) for value in op.results)
    ]


def pooled(layout: str) -> tuple[Program, ModuleOp]:
    program = Program(SHAPE)
    x = program.argument(0, layout)
    x = program.add(nn.ConvOp, x, program.constant(numbers((16, 17, 3, 3), 1)), format=layout)
    x = program.add(nn.ReluOp, x, format=layout)
    return program, program.module(program.add(nn.MaxPoolOp, x, kernel=(2, 2), format=layout))


@pytest.mark.parametrize("layout", [NOWHERE, "nChw32c", "nChw4c", "nChw16c"])
def test_convolutions_and_pools_run_in_layouts_that_have_kernels(layout: str):
    compare(pooled(layout)[1], numbers(SHAPE))


def test_what_compiled_loops_compute_keeps_its_layout():
    program, module = pooled(NOWHERE)
    assert "nn.conv" in opened(module, program.function)
    (relu,) = [op for op in module.walk() if isinstance(op, nn.ReluOp)]
    assert not is_any(relu.result.type)


@pytest.mark.parametrize("layout", [BLOCKED, "nhwc", "nchw"])
def test_negative_ops_with_kernels_are_left_alone(layout: str):
    program, module = pooled(layout)
    before = str(module)
    assert opened(module, program.function) == []
    assert str(module) == before


def test_negative_ops_that_have_no_kernels_at_all_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    def without_primitive(op: Operation, _: Values) -> Group:
        return Group([op])

    monkeypatch.setattr(opened_layouts, "single_op_group", without_primitive)
    program, module = pooled(NOWHERE)
    before = str(module)
    assert opened(module, program.function) == []
    assert str(module) == before
