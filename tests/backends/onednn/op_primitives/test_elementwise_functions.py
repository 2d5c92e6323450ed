"""Elementwise ops by the library, in several layouts, beside the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.dialects import nn
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers

pytestmark = needs_library

FUNCTIONS: list[tuple[Any, dict[str, Any], float]] = [
    (nn.ReluOp, {}, -3), (nn.LeakyReluOp, {"alpha": 0.2}, -3), (nn.EluOp, {"alpha": 1.3}, -3), (nn.TanhOp, {}, -3),
    (nn.AbsOp, {}, -3), (nn.SqrtOp, {}, 0.1), (nn.NegOp, {}, -3), (nn.ReciprocalOp, {}, 0.2), (nn.ExpOp, {}, -3),
    (nn.LogOp, {}, 0.2), (nn.ClipOp, {"min": -0.5, "max": 1.5}, -3), (nn.ClipOp, {"max": 1.5}, -3),
    (nn.SigmoidOp, {}, -3), (nn.SwishOp, {"alpha": 1.5}, -3), (nn.HardSigmoidOp, {"alpha": 0.3, "beta": 0.4}, -3),
    (nn.HardSwishOp, {}, -5), (nn.SoftplusOp, {}, -3), (nn.MishOp, {}, -3), (nn.GeluOp, {}, -3),
    (nn.GeluOp, {"approximate": "tanh"}, -3), (nn.RoundOp, {}, -3),
]  # fmt: skip

BINARY = [nn.AddOp, nn.SubOp, nn.MulOp, nn.DivOp, nn.MaxOp, nn.MinOp]


def _unpromised(layout: str) -> str:
    """The format of a tag, which promises nothing of its pads: exp(0) is not 0."""
    from layout_ir.algebra.format import Format

    return str(Format.from_tag(layout).with_pad("undef"))


@pytest.mark.parametrize("exponent", [3.0, -2.0, 0.0, 2.5])
def test_a_power(exponent: float):
    program = Program((2, 17, 5, 4))
    y = program.add(nn.PowOp, program.argument(0), program.constant(np.array([exponent], np.float32)))
    values = numbers((2, 17, 5, 4))
    compare(program.module(y), np.abs(values) if exponent == 2.5 else values)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(
    ("slopes", "constant"), [((17, 1, 1), True), ((17, 1, 1), False), ((1, 17, 1, 1), True), ((1,), True)]
)
def test_a_parametric_relu(layout: str, slopes: tuple[int, ...], constant: bool):
    shape = 4, 17, 9, 8  # more than the library's reference would be taken for
    program = Program(shape) if constant else Program(shape, slopes)
    slope = program.constant(numbers(slopes, 1)) if constant else program.argument(1)
    y = program.add(nn.PReluOp, program.argument(0, layout), slope, format=layout)
    compare(program.module(y), numbers(shape), *([] if constant else [numbers(slopes, 1)]))


@pytest.mark.parametrize(("op", "attributes", "low"), FUNCTIONS, ids=lambda v: getattr(v, "name", None))
@pytest.mark.parametrize("layout", ["nchw", "nChw16c"])
def test_a_function_of_one_operand(op: Any, attributes: dict[str, Any], low: float, layout: str):
    program = Program((2, 17, 5, 4))
    y = program.add(op, program.argument(0, layout), format=_unpromised(layout), **attributes)
    compare(program.module(y), numbers((2, 17, 5, 4), low=low, high=5))


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_softplus_has_all_digits_where_it_is_small(is_behind: bool):
    program = Program((1, 4, 8, 16))
    x = program.argument(0)
    if is_behind:
        x = program.add(nn.ConvOp, x, program.constant(np.eye(4, dtype=np.float32).reshape(4, 4, 1, 1)))
    inputs = [np.linspace(-80, 20, 512, dtype=np.float32).reshape(1, 4, 8, 16)]
    (found,) = compare(program.module(program.add(nn.SoftplusOp, x)), *inputs)(inputs)
    np.testing.assert_allclose(found, np.logaddexp(0, inputs[0].astype(np.float64)), rtol=1e-6)


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("other", [(2, 16, 5, 4), (1, 16, 1, 1), (16, 1, 1)])
def test_a_function_of_two_operands(op: Any, layout: str, other: tuple[int, ...]):
    program = Program((2, 16, 5, 4))
    constant = program.constant(
        numbers(other, 1, 0.5, 2.0), layout if len(other) == 4 and other[0] == 2 else None
    )
    y = program.add(op, program.argument(0, layout), constant, format=layout)
    compare(program.module(y), numbers((2, 16, 5, 4)))


@pytest.mark.parametrize("op", BINARY)
def test_a_function_of_two_values_in_blocks_runs_over_their_pads(op: Any):
    program = Program((2, 17, 3, 4), (2, 17, 3, 4))
    x, y = program.argument(0, "nChw8c"), program.argument(1, "nChw8c")
    z = program.add(op, x, y, format=_unpromised("nChw8c"))
    compare(program.module(z), numbers((2, 17, 3, 4)), numbers((2, 17, 3, 4), 1, 0.5, 2.0))


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("number", [0.75, -3.0])
def test_a_function_of_a_value_and_a_number(op: Any, first: bool, number: float):
    program = Program((3, 5))
    constant = program.constant(np.full((), number, np.float32))
    operands = [constant, program.argument(0)] if first else [program.argument(0), constant]
    executable = compare(program.module(program.add(op, *operands)), numbers((3, 5), low=0.5))
    assert executable.profile([numbers((3, 5), low=0.5)])[0].implementation != "reference"


@pytest.mark.parametrize("number", [2.0, 0.5])
def test_a_square_and_a_root_as_powers(number: float):
    program = Program((3, 5))
    y = program.add(nn.PowOp, program.argument(0), program.constant(np.full((1,), number, np.float32)))
    compare(program.module(y), numbers((3, 5), low=0.5))


def test_negative_a_power_of_two_values_runs_by_a_loop():
    program = Program((3, 5), (3, 5))
    y = program.add(nn.PowOp, program.argument(0), program.argument(1))
    compare(program.module(y), numbers((3, 5), low=0.5), numbers((3, 5), 1))


@pytest.mark.parametrize("order", ["[n, h, c, w]", "[h, n, c, w]", "[c, n, h, w]", "[n, h, w, c]"])
@pytest.mark.parametrize("shape", [(2, 3, 1, 4), (1, 3, 1, 4), (2, 1, 3, 4)])
def test_a_broadcast_beside_dims_of_one_element(order: str, shape: tuple[int, ...]):
    for other in ((shape[1], 1, 1), (shape[3],), (shape[0], shape[1], 1, 1)):
        program, layout = Program(shape), f"(n, c, h, w) : {order}"
        x = program.argument(0, layout)
        y = program.add(nn.SubOp, x, program.constant(numbers(other, 1)), format=layout)
        compare(program.module(y), numbers(shape))
