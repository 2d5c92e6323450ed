"""Translation validation notices what a wrong pass would do."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.diagnostics import Location
from layout_ir.dialects import nn
from layout_ir.passes.optimize import optimize
from layout_ir.passes.rewriting import replace_op
from layout_ir.tools.validation import Validator, compare_runs, relative_difference
from tests.passes.programs import random_program

PLACE = Location("test.mlir")


def _program() -> ModuleOp:
    module, _ = random_program(11, 10)
    return module


@pytest.mark.parametrize("mode", ["strip", "execute"])
def test_a_right_pass_passes(mode: str):
    module = _program()
    validator = Validator("execute" if mode == "execute" else "strip", PLACE)
    validator.before("layout-optimize", module)
    optimize(module, "avx2")
    assert validator.after("layout-optimize", module) is None


def test_negative_a_dropped_op_is_noticed_in_the_text():
    module = _program()
    validator = Validator("strip", PLACE)
    validator.before("layout-fold-reorders", module)
    dropped = next(op for op in module.walk() if isinstance(op, nn.UnaryOp))
    replace_op(dropped, dropped.operands[0])
    wrong = validator.after("layout-fold-reorders", module)
    assert wrong is not None and "changed what the program computes" in wrong.message


def test_negative_another_result_is_noticed_by_running():
    before = _program()
    after = before.clone()
    constant = [op for op in after.walk() if isinstance(op, nn.ConstantOp)][-1]  # weights of the last product
    doubled = np.frombuffer(constant.literal.data.data, np.float32) * 2
    constant.properties["value"] = nn.constant.literal(constant.literal.type, doubled.tobytes())  # pyright: ignore
    assert "differs by" in str(compare_runs(before, after))
    assert compare_runs(before, before.clone()) is None


def test_negative_strip_is_not_compared_with_what_it_strips():
    module = _program()
    validator = Validator("strip", PLACE)
    validator.before("layout-strip", module)
    assert validator.after("layout-strip", ModuleOp([])) is None


def test_a_nan_on_one_side_alone_is_an_infinite_difference():
    assert relative_difference(np.array([1.0, np.nan]), np.array([1.0, 2.0])) == float("inf")
    assert relative_difference(np.array([np.nan]), np.array([np.nan])) == 0.0
