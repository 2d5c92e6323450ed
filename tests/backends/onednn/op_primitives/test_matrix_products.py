"""Products of matrices, beside the reference."""

from __future__ import annotations

from typing import Any

import pytest

import layout_ir as li
from layout_ir.backends.onednn import memory_descriptors as descriptors
from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.op_primitives import matrix_products
from layout_ir.backends.onednn.plan_steps import PrimitiveStep
from layout_ir.backends.onednn.primitives import Argument
from layout_ir.dialects import nn
from layout_ir.elements.element_types import element_type
from layout_ir.elements.numpy_types import narrow
from tests.backends.onednn.small_programs import HALF, Program, compare, needs_library, numbers

pytestmark = needs_library


@pytest.mark.parametrize(
    ("left", "right"),
    [((5, 7), (7, 3)), ((2, 3, 5, 7), (7, 3)), ((2, 3, 5, 7), (3, 7, 4)), ((4, 1, 5, 7), (3, 7, 2)), ((7,), (7, 3)),
     ((5, 7), (7,)), ((2, 5, 7), (2, 7, 6))],
)  # fmt: skip
@pytest.mark.parametrize("constant", [False, True])
def test_a_matrix_product(left: tuple[int, ...], right: tuple[int, ...], constant: bool):
    values = numbers(right, 1)
    program = Program(left) if constant else Program(left, right)
    b = program.constant(values) if constant else program.argument(1)
    y = program.add(nn.MatmulOp, program.argument(0), b)
    compare(program.module(y), numbers(left), *([] if constant else [values]))


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("batches", [(), (3,)])
def test_a_matrix_product_whose_columns_are_dense(constant: bool, batches: tuple[int, ...]):
    names = "abcdefg"[: len(batches) + 2]
    turned = f"({', '.join(names)}) : [{', '.join((*names[:-2], names[-1], names[-2]))}]"
    left, right = (*batches, 5, 7), (*batches, 7, 6)
    program = Program(left) if constant else Program(left, right)
    b = program.constant(numbers(right, 1)) if constant else program.argument(1)
    y = program.add(nn.MatmulOp, program.argument(0), b, format=turned)
    y = program.add(nn.ReluOp, y, format=turned)
    y = program.add(nn.AddOp, y, program.constant(numbers((6,), 2)), format=turned)
    compare(program.module(y), numbers(left), *([] if constant else [numbers(right, 1)]))


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    "attributes", [{}, {"trans_a": True}, {"trans_b": True}, {"beta": 0.5, "trans_b": True}]
)
@pytest.mark.parametrize("addend", [None, (6,), (1, 6), (1, 1)])
def test_a_product_with_an_addend(constant: bool, attributes: dict[str, Any], addend: Any):
    if addend is None and "beta" in attributes:
        pytest.skip("beta is that of the addend")
    a = (7, 5) if attributes.get("trans_a") else (5, 7)
    b = (6, 7) if attributes.get("trans_b") else (7, 6)
    program = Program(a) if constant else Program(a, b)
    right = program.constant(numbers(b, 1)) if constant else program.argument(1)
    more = [] if addend is None else [program.constant(numbers(addend, 2))]
    y = program.add(nn.GemmOp, program.argument(0), right, *more, **attributes)
    compare(program.module(y), numbers(a), *([] if constant else [numbers(b, 1)]))


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("attributes", [{}, {"trans_a": True}, {"trans_b": True, "alpha": 0.5}])
@pytest.mark.parametrize("addend", [None, (6,), (5, 1), (5, 6), ()])
def test_a_product_whose_columns_are_dense(constant: bool, attributes: dict[str, Any], addend: Any):
    a = (7, 5) if attributes.get("trans_a") else (5, 7)
    b = (6, 7) if attributes.get("trans_b") else (7, 6)
    program = Program(a) if constant else Program(a, b)
    right = program.constant(numbers(b, 1)) if constant else program.argument(1)
    more = [] if addend is None else [program.constant(numbers(addend, 2))]
    columns = "(m, n) : [n, m]"
    y = program.add(nn.GemmOp, program.argument(0), right, *more, beta=2.0, format=columns, **attributes)
    y = program.add(nn.ReluOp, y, format=columns)
    y = program.add(nn.AddOp, y, program.constant(numbers((6,), 3)), format=columns)
    compare(program.module(y), numbers(a), *([] if constant else [numbers(b, 1)]))


def test_an_addend_that_lies_like_a_result_with_dense_columns():
    columns = "(m, n) : [n, m]"
    program = Program((5, 7), (5, 6))
    b = program.constant(numbers((7, 6), 1))
    y = program.add(nn.GemmOp, program.argument(0), b, program.argument(1, columns), format=columns, beta=0.5)
    compare(program.module(y), numbers((5, 7)), numbers((5, 6), 2))


def test_the_rows_of_a_constant_follow_the_order_in_which_the_left_operand_lies():
    order = "(m, k) : [m*12, k*1, k:3*4]"  # k runs as the columns of a 4x3 matrix do
    program = Program((2, 12))
    b = program.constant(numbers((12, 5), 1))
    compare(program.module(program.add(nn.GemmOp, program.argument(0, order), b)), numbers((2, 12)))


@pytest.mark.parametrize(("alpha", "beta"), [(2.0, 1.0), (0.5, 3.0), (1.0, 0.5), (1.0, 0.0)])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize(
    ("addend", "constant"),
    [(None, True), ((6,), True), ((5, 1), True), ((5, 6), True), ((), True), ((6,), False), ((5, 6), False)],
)
def test_a_product_with_factors(alpha: float, beta: float, weights: bool, addend: Any, constant: bool):
    given = [(5, 7), *([] if weights else [(7, 6)]), *([] if constant or addend is None else [addend])]
    program = Program(*given)
    right = program.constant(numbers((7, 6), 1)) if weights else program.argument(1)
    more: list[Any] = []
    if addend is not None:
        number = len(given) - 1
        more = [program.constant(numbers(addend, number)) if constant else program.argument(number)]
    y = program.add(nn.GemmOp, program.argument(0), right, *more, alpha=alpha, beta=beta)
    compare(program.module(y), *(numbers(shape, k) for k, shape in enumerate(given)))


def test_negative_a_computed_addend_that_has_a_number_per_row_runs_by_the_reference():
    program = Program((5, 7), (7, 6), (5, 1))
    y = program.add(nn.GemmOp, *(program.argument(k) for k in range(3)))
    inputs = numbers((5, 7)), numbers((7, 6), 1), numbers((5, 1), 2)
    compare(program.module(y), *inputs, fallbacks={"nn.gemm": 1})


@pytest.mark.parametrize("columns", [1, 7])
def test_a_product_of_one_row_that_lies_by_columns(columns: int):
    program, layout = Program((1, 4)), "(h, w) : [w, h]"
    y = program.add(
        nn.MatmulOp, program.argument(0), program.constant(numbers((4, columns), 1)), format=layout
    )
    compare(program.module(y), numbers((1, 4)))


@HALF
@pytest.mark.parametrize("constant", [False, True])
def test_products_on_bf16_with_an_activation(constant: bool):
    program = Program((3, 5, 7), *([] if constant else [(7, 6)]), dtype="bf16")
    right = program.constant(numbers((7, 6), 1)) if constant else program.argument(1)
    y = program.add(nn.MatmulOp, program.argument(0), right)
    y = program.add(nn.ReluOp, program.add(nn.AddOp, y, program.constant(numbers((6,), 2))))
    inputs = [numbers((3, 5, 7)), *([] if constant else [numbers((7, 6), 1)])]
    compare(program.module(y), *(narrow(values, "bf16") for values in inputs))


@HALF
@pytest.mark.parametrize("constant", [False, True])
def test_products_on_bf16_with_dense_columns(constant: bool):
    program = Program((3, 5, 7), *([] if constant else [(7, 6)]), dtype="bf16")
    right = program.constant(numbers((7, 6), 1)) if constant else program.argument(1)
    y = program.add(nn.MatmulOp, program.argument(0), right, format="(n, m, k) : [n, k, m]")
    inputs = [numbers((3, 5, 7)), *([] if constant else [numbers((7, 6), 1)])]
    compare(program.module(y), *(narrow(values, "bf16") for values in inputs))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "i8"])
def test_the_transpose_of_a_matrix_has_the_same_elements(dtype: str):
    matrices = descriptors.row_major(library(), (2, 3, 5), dtype)
    turned = matrix_products._transposed(matrices)  # pyright: ignore[reportPrivateUsage]
    wanted = descriptors.strided(library(), (2, 5, 3), (15, 1, 5), dtype)
    assert library().api.dnnl_memory_desc_equal(turned.handle, wanted.handle)
    assert turned.nbytes == 30 * element_type(dtype).bits // 8


@pytest.mark.parametrize("rows", [1, 40, 300])
@pytest.mark.parametrize("columns", [1280, 1288])
@pytest.mark.parametrize("trans_b", [None, False, True])
def test_rows_of_constants_lie_apart_where_they_would_share_sets_of_the_cache(
    rows: int, columns: int, trans_b: bool | None
):
    program = Program((rows, 24))
    weights = program.constant(numbers((columns, 24) if trans_b else (24, columns), 1))
    if trans_b is None:
        y = program.add(nn.MatmulOp, program.argument(0), weights)
    else:
        y = program.add(nn.GemmOp, program.argument(0), weights, trans_b=trans_b)
    module = program.module(y)
    compare(module, numbers((rows, 24)))
    [step] = (step for step in li.compile(module).plan.steps if isinstance(step, PrimitiveStep))
    if not step.implementation.startswith("gemm"):
        pytest.skip("the library packs the matrix")
    [lies] = (each.descriptor.blocking() for each in step.arguments if each.number == Argument.WEIGHTS)
    assert lies.strides[0] == columns + (16 if columns == 1280 and rows > 1 else 0)
