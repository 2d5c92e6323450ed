"""Softmax and normalizations, in several layouts, beside the reference."""

from __future__ import annotations

from typing import Any

import pytest

from layout_ir.dialects import nn
from layout_ir.elements.numpy_types import narrow
from tests.backends.onednn.small_programs import HALF, LAYOUTS, Program, compare, needs_library, numbers

pytestmark = needs_library


@pytest.mark.parametrize("op", [nn.SoftmaxOp, nn.LogSoftmaxOp])
@pytest.mark.parametrize(("layout", "axis"), [(None, 1), (None, 3), ("nhwc", 1), ("nChw8c", 2)])
def test_a_softmax(op: Any, layout: str | None, axis: int):
    program = Program((2, 17, 4, 5))
    y = program.add(op, program.argument(0, layout), format=layout, axis=axis)
    compare(program.module(y), numbers((2, 17, 4, 5)))


@pytest.mark.parametrize(("axes", "scale"), [((2,), (7,)), ((1, 2), (5, 7)), ((2,), (1,))])
@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_normalization(axes: tuple[int, ...], scale: tuple[int, ...], bias: bool):
    program = Program((3, 5, 7))
    more = [program.constant(numbers(scale, 2))] if bias else []
    y = program.add(
        nn.LayerNormOp, program.argument(0), program.constant(numbers(scale, 1)), *more, axes=axes
    )
    compare(program.module(y), numbers((3, 5, 7)))


def test_a_layer_normalization_of_rows_that_lie_apart():
    """As the first token of each picture or sentence does. The library (3.2) takes the rows for dense."""
    apart = "(n, c) : [n*24, c]"
    program = Program((4, 8))
    scale = program.constant(numbers((8,), 1))
    y = program.add(nn.LayerNormOp, program.argument(0, apart), scale, axes=(1,), format=apart)
    y = program.add(nn.MatmulOp, y, program.constant(numbers((8, 3), 2)))
    compare(program.module(y), numbers((4, 8)))


def test_negative_a_normalization_over_a_dim_in_the_middle_runs_by_a_loop():
    program = Program((3, 5, 7))
    y = program.add(nn.LayerNormOp, program.argument(0), program.constant(numbers((1,), 1)), axes=(1,))
    compare(program.module(y), numbers((3, 5, 7)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_batch_normalization(layout: str):
    program = Program((2, 17, 4, 5))
    parameters = [program.constant(numbers((17,), k, 0.5, 2.0)) for k in range(4)]
    y = program.add(nn.BatchNormOp, program.argument(0, layout), *parameters, format=layout, epsilon=1e-3)
    compare(program.module(y), numbers((2, 17, 4, 5)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [3, 5])
def test_a_local_response_normalization(layout: str, size: int):
    program = Program((2, 17, 6, 5))
    y = program.add(
        nn.LrnOp, program.argument(0, layout), format=layout, size=size, alpha=0.1, beta=0.6, bias=1.5
    )
    compare(program.module(y), numbers((2, 17, 6, 5)))


@HALF
def test_a_softmax_of_bf16():
    program = Program((3, 5, 32), dtype="bf16")
    y = program.add(nn.SoftmaxOp, program.argument(0), axis=2)
    compare(program.module(y), narrow(numbers((3, 5, 32)), "bf16"))


@HALF
def test_a_normalization_of_bf16_takes_its_factors_in_f32():
    program = Program((3, 5, 32), dtype="bf16")
    factors = [program.constant(numbers((32,), k, 0.5, 1.5)) for k in (1, 2)]
    y = program.add(nn.LayerNormOp, program.argument(0), *factors, axes=(2,))
    compare(program.module(y), narrow(numbers((3, 5, 32)), "bf16"))
