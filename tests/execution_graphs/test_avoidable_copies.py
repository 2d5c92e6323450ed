"""Copies that could be done without: each rule, and beside it what it must leave alone."""

from __future__ import annotations

from dataclasses import replace

from layout_ir.execution_graphs.avoidable_copies import avoidable_copies
from layout_ir.execution_graphs.execution_graph import ExecutionGraph, Node, Operand
from layout_ir.execution_graphs.graph_connections import Connections
from tests.execution_graphs.graphs import explained, graph, value

X = ("input", "", "x", "abcd")


def test_two_copies_that_undo_each_other_go_together():
    g = graph(
        X, ("conv", "x", "a", "abcd"), ("reorder", "a", "b", "acdb"), ("reorder", "b", "c", "abcd"),
        ("pool", "c", "d", "abcd"),
    )  # fmt: skip
    found = explained(g)
    assert found["to_b"].verdict == found["to_c"].verdict == "avoidable"


def test_negative_the_first_of_two_stays_where_something_else_reads_it():
    g = graph(
        X, ("conv", "x", "a", "abcd"), ("reorder", "a", "b", "acdb"), ("reorder", "b", "c", "abcd"),
        ("pool", "c", "d", "abcd"), ("resize", "b", "e", "acdb"),
    )  # fmt: skip
    found = explained(g)
    assert (found["to_b"].verdict, found["to_c"].verdict) == ("forced", "avoidable")


def test_negative_of_three_in_a_row_one_stays():
    g = graph(
        X, ("conv", "x", "a", "abcd"), ("reorder", "a", "b", "acdb"), ("reorder", "b", "c", "abcd"),
        ("reorder", "c", "d", "acdb"), ("pool", "d", "e", "acdb"),
    )  # fmt: skip
    assert [c.verdict for c in explained(g).values()].count("avoidable") == 2


def test_negative_copies_by_way_of_a_narrower_type_round():
    g = graph(
        X, ("conv", "x", "a", "abcd"), ("reorder", "a", "b", "acdb"), ("reorder", "b", "c", "abcd"),
        ("pool", "c", "d", "abcd"),
    )  # fmt: skip
    g.values[2] = replace(g.values[2], dtype="bf16")
    found = explained(g)
    assert found["to_b"].verdict == found["to_c"].verdict == "forced"


def _around_relu(witness: bool) -> ExecutionGraph:
    lines = [
        X, ("conv", "x", "a", "abcd"), ("reorder", "a", "b", "acdb"), ("relu", "b", "c", "acdb"),
        ("reorder", "c", "d", "abcd"), ("pool", "d", "e", "abcd"),
    ]  # fmt: skip
    return graph(*lines, *([("relu", "e", "f", "abcd")] if witness else []))


def test_copies_around_an_op_that_runs_in_the_other_layout_elsewhere():
    found = explained(_around_relu(witness=True))
    assert found["to_b"].verdict == found["to_d"].verdict == "avoidable"


def test_negative_without_a_witness_an_op_between_copies_keeps_them():
    found = explained(_around_relu(witness=False))
    assert found["to_b"].verdict == found["to_d"].verdict == "forced"


def test_a_second_copy_of_the_same_value_is_avoidable():
    g = graph(
        X, ("conv", "x", "a", "abcd"), ("reorder", "a", "b", "acdb"), ("reorder", "a", "c", "acdb"),
        ("pool", "b", "d", "acdb"), ("mean", "c", "e", "acdb"),
    )  # fmt: skip
    found = explained(g)
    assert (found["to_b"].verdict, found["to_c"].verdict) == ("forced", "avoidable")


def test_a_constant_is_copied_once_and_for_all():
    g = graph(
        X,
        ("constant", "", "w", "abcd"),
        ("reorder", "w", "v", "acdb"),
        ("conv", "x v", "y", "abcd"),
        outputs="y",
    )
    assert explained(g)["to_v"].verdict == "avoidable"


def test_a_copy_that_moves_only_dims_of_extent_1():
    g = graph(X, ("mean", "x", "a", "abcd"), ("reorder", "a", "b", "acdb"), ("gemm", "b", "c", "acdb"))
    g.values[1:] = [replace(v, shape=(1, 16, 1, 1)) for v in g.values[1:]]
    assert explained(g)["to_b"].verdict == "avoidable"


def test_negative_a_dim_that_the_file_does_not_know_may_be_any():
    g = graph(X, ("mean", "x", "a", "abcd"), ("reorder", "a", "b", "acdb"), ("gemm", "b", "c", "acdb"))
    g.values[1:] = [replace(v, shape=(1, 16, None, 1)) for v in g.values[1:]]
    copy = explained(g)["to_b"]
    assert (copy.verdict, copy.nbytes) == ("forced", None)


WITNESS = (("pool", "x", "p", "abcd"), ("conv", "p", "q", "acdb"))


def test_a_producer_that_writes_the_other_layout_elsewhere():
    g = graph(
        X, *WITNESS, ("mean", "q", "r", "acdb"), ("norm", "r", "s", "abcd"), ("conv", "s", "a", "abcd"),
        ("reorder", "a", "b", "acdb"), ("gemm", "b", "c", "acdb"),
    )  # fmt: skip
    copy = explained(g)["to_b"]
    assert copy.verdict == "avoidable"
    assert "conv to_q" in copy.reason


def test_negative_a_producer_whose_result_is_read_as_it_is_cannot_change():
    g = graph(
        X, *WITNESS, ("mean", "q", "r", "acdb"), ("norm", "r", "s", "abcd"), ("conv", "s", "a", "abcd"),
        ("reorder", "a", "b", "acdb"), ("gemm", "b", "c", "acdb"), ("softmax", "a", "d", "abcd"),
    )  # fmt: skip
    assert explained(g)["to_b"].verdict == "forced"


def test_negative_a_witness_with_other_operands_or_attributes_says_nothing():
    lines = [
        X, *WITNESS, ("mean", "q", "r", "acdb"), ("norm", "r", "s", "abcd"), ("conv", "s", "a", "abcd"),
        ("reorder", "a", "b", "acdb"), ("gemm", "b", "c", "acdb"),
    ]  # fmt: skip
    g = graph(*lines)
    next(node for node in g.nodes if node.name == "to_q").attributes = "groups=16"
    assert explained(g)["to_b"].verdict == "forced"
    g = graph(*lines)
    g.values[2] = replace(g.values[2], shape=(1, 16, 1, 1))  # for which both layouts are the same memory
    assert explained(g)["to_b"].verdict == "forced"


def test_a_consumer_that_reads_the_other_layout_elsewhere():
    g = graph(
        X, ("pool", "x", "a", "acdb"), ("reorder", "a", "b", "abcd"), ("conv", "b", "c", "abcd"),
        ("mean", "c", "d", "acdb"), ("conv", "d", "e", "abcd"),
    )  # fmt: skip
    copy = explained(g)["to_b"]
    assert copy.verdict == "avoidable"
    assert "conv to_e" in copy.reason


def test_negative_blocks_that_the_witness_fills_and_the_copy_does_not():
    lines = [
        X, ("pool", "x", "a", "aBcd8b"), ("reorder", "a", "b", "abcd"), ("conv", "b", "c", "abcd"),
        ("mean", "c", "d", "aBcd8b"), ("conv", "d", "e", "abcd"),
    ]  # fmt: skip
    assert explained(graph(*lines))["to_b"].verdict == "avoidable"
    g = graph(*lines)
    g.values[1:3] = [replace(v, shape=(1, 17, 6, 10)) for v in g.values[1:3]]
    assert explained(g)["to_b"].verdict == "forced"


def test_a_transpose_is_seen_from_both_sides():
    """A transpose and its inverse, with other dims between: the composition counts, not the numbers."""
    g = ExecutionGraph("a test")
    numbers = [g.add_value(value("x"))]
    g.add_node(Node("conv", "conv", "op", [], [numbers[0]]))
    for order in ((0, 2, 3, 1), (0, 3, 1, 2)):
        shape = g.values[numbers[-1]].shape
        assert shape is not None
        numbers.append(g.add_value(value("y", shape=tuple(shape[k] for k in order))))
        node = Node(f"t{order[1]}", "Transpose", "copy", [Operand("0", numbers[-2])], [numbers[-1]])
        node.permutation = order
        g.add_node(node)
    g.add_node(Node("pool", "pool", "op", [Operand("0", numbers[-1])]))
    assert set(avoidable_copies(Connections(g))) == {1, 2}
    g.nodes[2].permutation = (0, 2, 1, 3)
    assert set(avoidable_copies(Connections(g))) == {2}  # one copy can do what the two do
