"""Ops as loops: run over all indices, maps and body give what NumPy computes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr

from layout_ir.foreign.structured import Structured, initial_value, is_window, loop_of, structured
from tests.programs import parse


def _op(text: str, args: str) -> Operation:
    """The last op with results of a function of `args`."""
    module = parse(f"func.func @f({args}) {{\n{text}\nfunc.return }}")
    (func,) = module.ops
    return [op for op in func.regions[0].block.ops if op.results][-1]


def _structured(text: str, args: str) -> Structured:
    found = structured(_op(text, args))
    assert found is not None
    return found


def _run(s: Structured, operands: list[Any], result: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Executes the loops, `result` holding what a reduction starts from."""
    loops = range(max(s.extents) + 1)
    for index in itertools.product(*(range(s.extents[k]) for k in loops)):

        def at(exprs: tuple[AffineExpr, ...], index: tuple[int, ...] = index) -> tuple[int, ...]:
            return tuple(expr.eval(list(index), []) for expr in exprs)

        scalars = [np.asarray(x)[at(exprs)].item() for x, exprs in zip(operands, s.maps, strict=True)]
        target = at(s.result_maps[0])
        if s.init[0] is not None:
            scalars[s.init[0]] = result[target].item()
        elif s.reductions:
            scalars.append(result[target].item())
        (result[target],) = s.body(scalars, index)
    return result


A, B = np.arange(6.0).reshape(2, 3) - 2, np.arange(12.0).reshape(3, 4)
T = "tensor<2x3xf32>"
INTS = "tensor<2xi32>"


def test_a_product_of_matrices_reduces_over_the_loop_between():
    left, right, out = T, "tensor<3x4xf32>", "tensor<2x4xf32>"
    s = _structured(
        f"%r = linalg.matmul ins(%a, %b : {left}, {right}) outs(%c : {out}) -> {out}",
        f"%a : {left}, %b : {right}, %c : {out}",
    )
    assert s.reductions == {2} and s.init == (2,) and s.extents == {0: 2, 1: 4, 2: 3}
    assert np.array_equal(_run(s, [A, B, np.ones((2, 4))], np.ones((2, 4))), A @ B + 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("addf", A + A.T.reshape(2, 3)), ("mulf", A * A.T.reshape(2, 3)), ("subf", A - A.T.reshape(2, 3))],
)
def test_arithmetic_on_whole_tensors_is_elementwise(name: str, expected: Any):
    s = _structured(f"%r = arith.{name} %a, %b : {T}", f"%a : {T}, %b : {T}")
    assert not s.reductions and s.one_type
    assert np.array_equal(_run(s, [A, A.T.reshape(2, 3)], np.zeros((2, 3))), expected)


def test_negative_a_conversion_does_not_ask_for_one_type():
    s = _structured("%r = arith.extf %a : tensor<2x3xf32> to tensor<2x3xf64>", f"%a : {T}")
    assert not s.one_type and np.array_equal(_run(s, [A], np.zeros((2, 3))), A)


def test_dims_of_extent_one_are_broadcast_by_tosa():
    row = "tensor<1x3xf32>"
    s = _structured(f"%r = tosa.add %a, %b : ({T}, {row}) -> {T}", f"%a : {T}, %b : {row}")
    assert [loop_of(expr) for expr in s.maps[1]] == [None, 1]
    assert np.array_equal(_run(s, [A, A[:1]], np.zeros((2, 3))), A + A[:1])


@pytest.mark.parametrize(
    ("name", "numpy"), [("sum", np.sum), ("product", np.prod), ("max", np.max), ("min", np.min)]
)
def test_reductions_of_tosa_start_from_what_changes_nothing(name: str, numpy: Any):
    s = _structured(f"%r = tosa.reduce_{name} %a {{axis = 1 : i32}} : ({T}) -> tensor<2x1xf32>", f"%a : {T}")
    start = initial_value(s.op)
    assert s.reductions == {1} and s.init == (None,) and start is not None
    for x in (A - 5, A + 5):
        assert np.array_equal(_run(s, [x], np.full((2, 1), start)), numpy(x, axis=1, keepdims=True))


def test_negative_an_op_that_starts_from_an_operand_has_no_initial_value():
    assert initial_value(_op(f"%r = arith.addf %a, %a : {T}", f"%a : {T}")) is None


def test_named_ops_of_linalg_have_dimensions_for_maps():
    row = "tensor<3xf32>"
    s = _structured(
        f"%r = linalg.broadcast ins(%a : {row}) outs(%b : {T}) dimensions = [0]", f"%a : {row}, %b : {T}"
    )
    assert np.array_equal(_run(s, [B[:, 0], A], np.zeros((2, 3))), np.broadcast_to(B[:, 0], (2, 3)))


def test_a_sum_of_loops_is_a_window_and_negative_a_loop_or_constant_is_none():
    row, column = AffineExpr.dimension(0), AffineExpr.dimension(1)
    assert is_window(row + column) and loop_of(row + column) is None
    assert not is_window(row) and loop_of(column) == 1
    assert not is_window(AffineExpr.constant(0)) and loop_of(AffineExpr.constant(0)) is None


@pytest.mark.parametrize(
    ("text", "args"),
    [
        (f"%r = tensor.empty() : {T}", ""),
        ("%r = arith.addf %a, %a : f32", "%a : f32"),
        (f'%r = "test.op"(%a) : ({T}) -> {T}', f"%a : {T}"),
        (
            f"%r = tosa.mul %a, %a, %s : ({INTS}, {INTS}, tensor<1xi8>) -> {INTS}",
            f"%a : {INTS}, %s : tensor<1xi8>",
        ),
    ],
)
def test_negative_other_ops_are_no_loops(text: str, args: str):
    assert structured(_op(text, args)) is None


@pytest.mark.parametrize(
    ("source", "reads", "yields", "expected"),
    [
        ("affine_map<(i, j) -> (j, i)>", "tensor<3x2xf32>", "%a", True),
        ("affine_map<(i, j) -> (i, j)>", "tensor<2x3xf32>", "%a", True),
        ("affine_map<(i, j) -> (j)>", "tensor<3xf32>", "%a", False),  # a broadcast
        ("affine_map<(i, j) -> (j, i)>", "tensor<3x2xf32>", "%b", False),  # what was there
    ],
)
def test_a_copy_of_dims_in_another_order_is_a_transposition(
    source: str, reads: str, yields: str, expected: bool
):
    text = f"""
  %r = linalg.generic {{indexing_maps = [{source}, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}} ins(%x : {reads}) outs(%o : tensor<2x3xf32>) {{
  ^bb0(%a : f32, %b : f32):
    linalg.yield {yields} : f32
  }} -> tensor<2x3xf32>"""
    assert _structured(text, f"%x : {reads}, %o : tensor<2x3xf32>").transposes == expected


def test_negative_a_diagonal_is_no_transposition():
    text = """
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i, i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : tensor<3x3xf32>) outs(%o : tensor<3xf32>) {
  ^bb0(%a : f32, %b : f32):
    linalg.yield %a : f32
  } -> tensor<3xf32>"""
    assert not _structured(text, "%x : tensor<3x3xf32>, %o : tensor<3xf32>").transposes
