"""Graphs that definitions leave: which folds they have, in which passes."""

from __future__ import annotations

import pytest

from layout_ir.backends.llvm.loops.expression import (
    Symbolic,
    SymbolicNumPy,
    combined,
    evaluated,
    folds_of,
    neutral,
)
from layout_ir.backends.llvm.loops.vector_numpy import Vector
from layout_ir.backends.reference import array_ops
from layout_ir.errors import LayoutError

NP = SymbolicNumPy(4)


def operand(number: int = 0, dtype: str = "f32") -> Symbolic:
    return Symbolic(dtype, operand=number, shape=(3, 4))


def test_a_softmax_is_two_passes_and_elements():
    graph = array_ops.softmax(NP, operand(), 1)
    assert [[fold.fold for fold in folds] for folds in folds_of(graph)] == [["maximum"], ["add"]]
    assert not graph.is_row


def test_sums_that_do_not_need_each_other_are_one_pass():
    x = operand()
    graph = NP.sum(x) * NP.sum(x * x)
    assert [len(folds) for folds in folds_of(graph)] == [2]
    assert graph.is_row


def test_negative_what_is_no_fold_has_no_pass():
    graph = NP.power(operand(), 0.3) + operand(1)
    assert folds_of(graph) == [] and not graph.is_row


def test_a_number_beside_numbers_of_rows_is_one_of_a_row():
    number = Symbolic("f32", number=2.0)
    assert (NP.sum(operand()) * number).is_row
    assert not (operand() * number).is_row


def test_comparisons_are_truth_values_and_integers_by_a_double_are_f64():
    assert (operand() < operand(1)).dtype_name == "i1"
    assert (operand(0, "i32") / NP.float64(3)).dtype_name == "f64"
    assert NP.where(operand() > 0, operand(1, "i8"), 0).dtype_name == "i8"


@pytest.mark.parametrize(
    ("fold", "found"), [("add", 0), ("multiply", 1), ("maximum", -128), ("minimum", 127)]
)
def test_what_folds_begin_with(fold: str, found: int):
    assert neutral(fold, "i8") == found


def test_negative_an_unknown_fold_is_refused():
    with pytest.raises(LayoutError, match="no fold by hypot"):
        combined("hypot", *[None] * 2)  # pyright: ignore[reportArgumentType]


def test_a_graph_as_deep_as_a_network_is_evaluated_once_per_node():
    calls: list[int] = []

    def follow(x: object) -> object:
        calls.append(1)
        return x

    x = operand()
    graph = x
    for _ in range(5000):
        graph = Symbolic("f32", (graph,), follow)
    given = object()
    assert evaluated(graph, {}, lambda node: given) is given  # pyright: ignore[reportArgumentType]
    assert len(calls) == 5000 and Vector is not None
