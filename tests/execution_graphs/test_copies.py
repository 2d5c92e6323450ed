"""What is said of copies: bytes, the nodes that force them, the boundary, totals."""

from __future__ import annotations

from dataclasses import replace

from layout_ir.execution_graphs.copies import totals
from tests.execution_graphs.graphs import explained, graph

X = ("input", "", "x", "abcd")


def test_a_copy_moves_the_bytes_it_reads_and_writes_pads_included():
    shape = (1, 17, 6, 10)
    g = graph(X, ("conv", "x", "a", "abcd"), ("reorder", "a", "b", "aBcd8b"), ("pool", "b", "c", "aBcd8b"))
    g.values[:] = [replace(v, shape=shape) for v in g.values]
    assert explained(g)["to_b"].nbytes == 4 * 17 * 60 + 4 * 24 * 60


def test_a_copy_between_ops_of_one_layout_each_is_forced_by_both():
    g = graph(X, ("conv", "x", "a", "abcd"), ("reorder", "a", "b", "acdb"), ("pool", "b", "c", "acdb"))
    copy = explained(g)["to_b"]
    assert (copy.verdict, copy.producer, copy.consumers) == ("forced", "conv to_a", ("pool to_c",))
    assert {"abcd", "acdb"} <= set(copy.reason.replace(";", "").split())


def test_copies_at_the_boundary_are_the_callers():
    g = graph(
        X,
        ("reorder", "x", "a", "acdb"),
        ("conv", "a", "b", "acdb"),
        ("reorder", "b", "y", "abcd"),
        outputs="y",
    )
    found = explained(g)
    assert found["to_a"].verdict == found["to_y"].verdict == "boundary"
    assert found["to_a"].producer == "the caller (to_x)"
    assert found["to_y"].consumers == ("the caller (y)",)


def test_totals_count_every_copy_once():
    g = graph(
        X,
        ("reorder", "x", "a", "acdb"),
        ("conv", "a", "b", "acdb"),
        ("reorder", "b", "y", "abcd"),
        outputs="y",
    )
    copies = list(explained(g).values())
    assert totals(copies) == {"boundary": (2, sum(copy.nbytes or 0 for copy in copies))}
