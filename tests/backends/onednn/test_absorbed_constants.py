"""Which constants primitives take among their own, and that the result is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.dialects import nn
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers, steps

pytestmark = needs_library

SHAPE = (2, 16, 6, 5)


@pytest.mark.parametrize("row", [(64,), (1, 64), (1, 1), ()])
@pytest.mark.parametrize("batch", [(256,), (2, 128)])
def test_a_row_is_the_bias_of_a_product(batch: tuple[int, ...], row: tuple[int, ...]):
    program = Program((*batch, 24))
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((24, 64), 1)))
    y = program.add(nn.AddOp, y, program.constant(numbers(row, 2)))
    x = numbers((*batch, 24))
    assert steps(compare(program.module(y), x), x) == [("nn.matmul", "nn.add")]


@pytest.mark.parametrize("format", ["adbc", "abcd"])
@pytest.mark.parametrize("behind", [nn.ReluOp, nn.TanhOp])
def test_a_row_is_the_bias_of_products_in_batches_whose_rows_lie_apart(format: str, behind: Any):
    """Channels first, of which a linear layer takes the last dim, as behind a depthwise convolution."""
    shape = (2, 5, 7, 24)
    program = Program(shape)
    y = program.add(nn.MatmulOp, program.argument(0, format), program.constant(numbers((24, 64), 1)))
    y = program.add(behind, program.add(nn.AddOp, y, program.constant(numbers((64,), 2))))
    x = numbers(shape)
    assert steps(compare(program.module(y), x), x)[0][:2] == ("nn.matmul", "nn.add")


def test_negative_a_row_is_no_bias_of_the_product_of_transposes():
    shape = (2, 35, 24)
    program = Program(shape)
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((24, 64), 1)), format="acb")
    y = program.add(nn.AddOp, y, program.constant(numbers((64,), 2)), format="acb")
    x = numbers(shape)
    assert steps(compare(program.module(y), x), x)[0] == ("nn.matmul",)


@pytest.mark.parametrize("op", [nn.MulOp, nn.DivOp])
@pytest.mark.parametrize("formats", [("abcd", "abcd"), ("acbd", "abdc"), ("abdc", "acbd")])
@pytest.mark.parametrize("rows", [3, 70])
def test_a_number_is_a_factor_of_a_product(op: Any, formats: tuple[str, str], rows: int):
    """Scores of attention, from tensors that lie in several ways."""
    shapes = (2, 3, rows, 16), (2, 3, 16, 65)
    program = Program(*shapes)
    a, b = (program.argument(number, format) for number, format in enumerate(formats))
    y = program.add(nn.MatmulOp, a, b, format="abcd")
    y = program.add(op, y, program.constant(np.array([-0.3], np.float32)), format="abcd")
    inputs = [numbers(shape, seed) for seed, shape in enumerate(shapes)]
    assert steps(compare(program.module(y), *inputs), *inputs) == [("nn.matmul", op.name)]


@pytest.mark.parametrize("behind", [nn.ReluOp, nn.TanhOp])
def test_functions_follow_a_factor_as_they_follow_a_product(behind: Any):
    """By a step of their own where the product is by `gemm`, which would go over its result for them."""
    program = Program((256, 24))
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((24, 64), 1)))
    y = program.add(behind, program.add(nn.MulOp, y, program.constant(np.array(0.25, np.float32))))
    x = numbers((256, 24))
    profile = compare(program.module(y), x).profile([x])
    assert not profile[0].implementation.startswith("gemm") or len(profile) == 2


def test_a_tensor_is_added_behind_a_factor():
    program = Program((256, 24), (256, 64))
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((24, 64), 1)))
    y = program.add(nn.MulOp, y, program.constant(np.array(0.25, np.float32)))
    compare(
        program.module(program.add(nn.AddOp, y, program.argument(1))),
        numbers((256, 24)),
        numbers((256, 64), 2),
    )


@pytest.mark.parametrize("number", [0.0, np.inf, np.nan, 1e-42, 3e38])
@pytest.mark.parametrize("op", [nn.MulOp, nn.DivOp])
def test_negative_what_is_no_number_to_multiply_by_is_no_factor(op: Any, number: float):
    """Sums that are infinite or no number stay so, as NumPy has them."""
    program = Program((8, 24), (24, 600))
    y = program.add(nn.MatmulOp, program.argument(0), program.argument(1))
    y = program.add(op, y, program.constant(np.array(number, np.float32)))
    x = numbers((8, 24))
    x[0, 0], x[1, 1], x[2] = np.inf, np.nan, 0
    with np.errstate(all="ignore"):
        wanted = getattr(np, {"nn.mul": "multiply", "nn.div": "divide"}[op.name])(
            x.astype(np.float64) @ np.ones((24, 600)), np.float64(np.float32(number))
        ).astype(np.float32)
        (found,) = li.compile(program.module(y), threads=1)([x, np.ones((24, 600), np.float32)])
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    usual = np.isfinite(wanted)
    assert np.array_equal(found[~usual], wanted[~usual], equal_nan=True)
    assert np.allclose(found[usual], wanted[usual], rtol=1e-4)


@pytest.mark.parametrize("factor", [(256, 1), (64,)])
def test_negative_several_numbers_are_no_factor(factor: tuple[int, ...]):
    program = Program((256, 24))
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((24, 64), 1)))
    y = program.add(nn.MulOp, y, program.constant(numbers(factor, 2)))
    compare(program.module(y), numbers((256, 24)))


def test_negative_a_number_divided_by_a_product_is_no_factor():
    program = Program((256, 24))
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((24, 64), 1)))
    y = program.add(nn.DivOp, program.constant(np.array(3, np.float32)), y)
    x = numbers((256, 24))
    # A step of its own, or, where kernels of products take powers (AVX-512), a power behind the product.
    powers = [("nn.matmul", "nn.div")]
    assert steps(compare(program.module(y), x), x) in ([("nn.matmul",), ("nn.div",)], powers)


@pytest.mark.parametrize("addend", [(256, 1), (256, 64)])
def test_negative_a_column_or_a_matrix_is_no_bias(addend: tuple[int, ...]):
    program = Program((256, 24))
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((24, 64), 1)))
    y = program.add(nn.AddOp, y, program.constant(numbers(addend, 2)))
    compare(program.module(y), numbers((256, 24)))


@pytest.mark.parametrize("bias", [False, True])
def test_numbers_per_channel_become_part_of_the_weights(bias: bool):
    program = Program(SHAPE)
    w = program.constant(numbers((16, 4, 3, 3), 1))
    more = [program.constant(numbers((16,), 2))] if bias else []
    y = program.add(nn.ConvOp, program.argument(0), w, *more, group=4)
    y = program.add(nn.MulOp, y, program.constant(numbers((16, 1, 1), 3)))
    y = program.add(nn.AddOp, y, program.constant(numbers((1, 16, 1, 1), 4)))
    executable = compare(program.module(y), numbers(SHAPE))
    assert steps(executable, numbers(SHAPE)) == [("nn.conv", "nn.mul", "nn.add")]


def test_numbers_per_channel_become_part_of_a_normalization():
    program = Program(SHAPE)
    parameters = [program.constant(numbers((16,), k, 0.5, 2.0)) for k in range(4)]
    y = program.add(nn.BatchNormOp, program.argument(0, "nhwc"), *parameters, format="nhwc")
    y = program.add(nn.MulOp, y, program.constant(numbers((16, 1, 1), 7)), format="nhwc")
    y = program.add(nn.AddOp, y, program.constant(numbers((16, 1, 1), 8)), format="nhwc")
    y = program.add(nn.ReluOp, y, format="nhwc")
    executable = compare(program.module(y), numbers(SHAPE))
    assert steps(executable, numbers(SHAPE)) == [("nn.batch_norm", "nn.mul", "nn.add", "nn.relu")]
