"""Products of few rows by long constant matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.onednn.plan_steps import Owner, PrimitiveStep
from layout_ir.dialects import nn
from tests.backends.onednn.op_primitives.test_few_row_products import primitives, skip_unless_packed
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers

pytestmark = needs_library

LONGEST = host().l1 // 16
"""How long a row is of which the first cache holds four."""


def inner_products(executable: li.Executable) -> int:
    found = primitives(executable)
    assert set(found) <= {"inner_product_forward", "matmul"}
    return found.count("inner_product_forward")


LONG = {
    (4, LONGEST): 1,
    (4, LONGEST + 1): 2,
    (7, 3 * LONGEST - 5): 3,
    (2, 2 * LONGEST): 1,
    (3, 2 * LONGEST): 2,
}
"""Rows and their length -> of how many parts the product is."""


def long_product(rows: int, k: int) -> li.Executable:
    """A product with an addend and an activation, compared with the reference on `numbers((1, rows, k))`."""
    program = Program((1, rows, k))
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((k, 9), 1)))
    y = program.add(nn.ReluOp, program.add(nn.AddOp, y, program.constant(numbers((9,), 2))))
    return compare(program.module(y), numbers((1, rows, k)))


@pytest.mark.parametrize(("rows", "k"), LONG)
def test_a_long_product_is_what_numpy_computes(rows: int, k: int):
    executable, x = long_product(rows, k), numbers((1, rows, k))
    (found,) = executable([x])
    wanted = np.maximum(x.astype(np.float64) @ numbers((k, 9), 1) + numbers((9,), 2), 0)
    np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(("rows", "k"), LONG)
def test_a_long_product_is_a_sum(rows: int, k: int):
    skip_unless_packed()
    executable = long_product(rows, k)
    assert inner_products(executable) == LONG[rows, k]
    last = [step for step in executable.plan.steps if isinstance(step, PrimitiveStep)][-1]
    assert last.text.ops[-1] == "nn.relu"
    assert executable.plan.constant_bytes < 4 * 24 * (k + 40)


ADDENDS = [(1, 1, (9,)), (0.5, 2, (4, 9)), (1, 0.5, (9,)), (2, 1, None)]
"""Factors of product and addend, and the shape of the addend."""


def with_addend(trans_b: bool, alpha: float, beta: float, addend: tuple[int, ...] | None) -> li.Executable:
    """A product of two parts with an addend, compared with the reference."""
    k = LONGEST + 100
    program = Program((4, k))
    w = numbers((9, k) if trans_b else (k, 9), 1)
    more = [] if addend is None else [program.constant(numbers(addend, 2))]
    attributes: dict[str, Any] = {"alpha": alpha, "beta": beta, "trans_b": trans_b}
    y = program.add(nn.GemmOp, program.argument(0), program.constant(w), *more, **attributes)
    return compare(program.module(y), numbers((4, k)))


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize(("alpha", "beta", "addend"), ADDENDS)
def test_an_addend_is_added_once(trans_b: bool, alpha: float, beta: float, addend: tuple[int, ...] | None):
    with_addend(trans_b, alpha, beta, addend)


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize(("alpha", "beta", "addend"), ADDENDS)
def test_a_product_with_an_addend_is_a_sum(
    trans_b: bool, alpha: float, beta: float, addend: tuple[int, ...] | None
):
    skip_unless_packed()
    assert inner_products(with_addend(trans_b, alpha, beta, addend)) == 2


def read_by_others() -> li.Executable:
    """A product of few rows and one of many by the same matrix, compared with the reference."""
    k = LONGEST + 100
    program = Program((4, k), (40, k))
    matrix = program.constant(numbers((k, 9), 1))
    results = [program.add(nn.MatmulOp, program.argument(d), matrix) for d in range(2)]
    return compare(program.module(*results), numbers((4, k)), numbers((40, k), 2))


def test_negative_a_matrix_that_others_read_stays_whole():
    assert primitives(read_by_others()) == ["matmul"] * 2


def test_a_matrix_that_others_read_is_stored_once():
    skip_unless_packed()
    assert sum(buffer.owner is Owner.CONSTANT for buffer in read_by_others().plan.buffers) == 1


@pytest.mark.parametrize("rows", [1, 40])
def test_negative_products_of_one_row_or_many_stay_whole(rows: int):
    k = 3 * LONGEST
    program = Program((rows, k))
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((k, 9), 1)))
    assert len(primitives(compare(program.module(y), numbers((rows, k))))) == 1


def test_negative_ops_that_are_not_joined_stay_whole():
    k = LONGEST + 100
    program = Program((4, k))
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((k, 9), 1)))
    assert primitives(li.compile(program.module(y), fuse=False)) == ["matmul"]
