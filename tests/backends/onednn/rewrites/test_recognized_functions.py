"""Functions written as several ops, recognized by their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import layout_ir as li
from layout_ir.backends.onednn.rewrites.recognized_functions import recognize_functions
from layout_ir.dialects import nn
from tests.backends.onednn.small_programs import Program, needs_library, numbers

SHAPE = 2, 17, 5, 4


class Open(Program):
    """A program whose layouts are to be chosen."""

    def op(self, op: type[nn.NNOp], *operands: SSAValue | float, **attributes: Any) -> SSAValue:
        values = [
            self.constant(np.array(x, np.float32)) if isinstance(x, float | int) else x for x in operands
        ]
        return self.insert(op(*values, **attributes))


Written = Callable[[Open, SSAValue], SSAValue]


def gelu(p: Open, x: SSAValue) -> SSAValue:
    inner = p.op(nn.AddOp, p.op(nn.ErfOp, p.op(nn.DivOp, x, 2**0.5)), 1.0)
    return p.op(nn.MulOp, p.op(nn.MulOp, x, inner), 0.5)


def gelu_of_half(p: Open, x: SSAValue) -> SSAValue:
    inner = p.op(nn.AddOp, 1.0, p.op(nn.ErfOp, p.op(nn.MulOp, x, 0.5**0.5)))
    return p.op(nn.MulOp, inner, p.op(nn.MulOp, 0.5, x))


def gelu_by_tanh(p: Open, x: SSAValue) -> SSAValue:
    cube = p.op(nn.MulOp, 0.044715, p.op(nn.PowOp, x, 3.0))
    inner = p.op(nn.TanhOp, p.op(nn.MulOp, (2 / np.pi) ** 0.5, p.op(nn.AddOp, x, cube)))
    return p.op(nn.MulOp, p.op(nn.MulOp, 0.5, x), p.op(nn.AddOp, 1.0, inner))


def hard_swish(p: Open, x: SSAValue) -> SSAValue:
    clipped = p.op(nn.ClipOp, p.op(nn.AddOp, x, 3.0), min=0.0, max=6.0)
    return p.op(nn.DivOp, p.op(nn.MulOp, x, clipped), 6.0)


KNOWN: list[tuple[Written, str]] = [
    (gelu, "nn.gelu"),
    (gelu_of_half, "nn.gelu"),
    (gelu_by_tanh, "nn.gelu"),
    (hard_swish, "nn.hard_swish"),
    (lambda p, x: p.op(nn.MulOp, x, p.op(nn.HardSigmoidOp, x, alpha=1 / 6, beta=0.5)), "nn.hard_swish"),
    (lambda p, x: p.op(nn.MulOp, x, p.op(nn.SigmoidOp, x)), "nn.swish"),
    (lambda p, x: p.op(nn.MulOp, p.op(nn.SigmoidOp, p.op(nn.MulOp, x, 1.702)), x), "nn.swish"),
    (lambda p, x: p.op(nn.MulOp, x, p.op(nn.TanhOp, p.op(nn.SoftplusOp, x))), "nn.mish"),
]


def written(function: Written, *, both: bool = False) -> ModuleOp:
    program = Open(SHAPE)
    x = program.op(nn.NegOp, program.arguments[0])
    y = function(program, x)
    # The operand of the last op, too.
    assert isinstance(y.owner, nn.MulOp | nn.DivOp)
    return program.module(y, *([y.owner.lhs] if both else []))


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if isinstance(op, nn.ElementwiseOp)]


@needs_library
@pytest.mark.parametrize(("function", "name"), KNOWN)
def test_a_function_is_one_op_whatever_it_is_written_as(function: Written, name: str):
    module = written(function)
    x = numbers(SHAPE)
    (expected,) = li.run(module, [x])
    recognized = module.clone()
    recognize_functions(recognized)
    recognized.verify()
    assert names(recognized) == ["nn.neg", name]
    (found,) = li.compile(module)([x])
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


ALMOST: list[Written] = [
    lambda p, x: p.op(nn.MulOp, x, p.op(nn.TanhOp, x)),
    lambda p, x: p.op(nn.MulOp, x, p.op(nn.HardSigmoidOp, x)),  # alpha is 0.2
    lambda p, x: p.op(nn.MulOp, p.op(nn.MulOp, x, p.op(nn.AddOp, p.op(nn.ErfOp, x), 1.0)), 0.5),
]


@pytest.mark.parametrize("function", ALMOST)
def test_negative_functions_that_are_almost_one_stay_as_they_are_written(function: Written):
    module = written(function)
    before = names(module)
    recognize_functions(module)
    assert names(module) == before


def test_a_quotient_of_numbers_is_a_number_of_the_function():
    program = Open(())
    x = program.op(nn.NegOp, program.arguments[0])
    twice = program.op(nn.MulOp, x, program.op(nn.DivOp, 1.0, 0.5))
    module = program.module(program.op(nn.MulOp, x, program.op(nn.SigmoidOp, twice)))
    recognize_functions(module)
    assert names(module) == ["nn.neg", "nn.swish"]


def test_negative_ops_that_somebody_else_uses_stay():
    module = written(gelu, both=True)
    before = names(module)
    recognize_functions(module)
    assert names(module) == before


def test_negative_a_product_of_two_tensors_is_no_function():
    program = Open(SHAPE, SHAPE)
    gate = program.op(nn.SigmoidOp, program.arguments[1])
    module = program.module(program.op(nn.MulOp, program.arguments[0], gate))
    recognize_functions(module)
    assert names(module) == ["nn.sigmoid", "nn.mul"]
