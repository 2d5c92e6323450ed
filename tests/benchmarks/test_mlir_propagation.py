"""Beside upstream's propagation, selection leaves never more moves nor bytes, and what is left computes the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import layout_ir as li
from benchmarks.mlir_propagation import PROGRAMS, Moves, agrees, moves, selected, upstream
from tests.exits.linalg.mlir_tools import tool


@pytest.mark.parametrize("name", PROGRAMS)
def test_never_more_moves_nor_bytes_than_upstream_and_equal_results(name: str, tmp_path: Path):
    tool("mlir-runner")
    text = PROGRAMS[name]
    theirs, module = moves(li.parse(upstream(text))), selected(text)
    ours = moves(module)
    assert ours.count <= theirs.count and ours.nbytes <= theirs.nbytes
    assert agrees(text, module, tmp_path)


def test_negative_a_program_that_computes_something_else_does_not_agree(tmp_path: Path):
    tool("mlir-runner")
    text = PROGRAMS["residual, packed at both ends"]
    assert not agrees(text, li.parse(text.replace("addf", "subf")), tmp_path)


def test_copies_are_counted_however_they_are_written():
    tool("mlir-opt")
    plain = li.parse(PROGRAMS["product with a transposed matrix"])
    assert moves(plain) == Moves(1, 2 * 64 * 256 * 4)
    generic = upstream(PROGRAMS["product with a transposed matrix"], "-linalg-generalize-named-ops")
    assert "linalg.transpose" not in generic
    assert moves(li.parse(generic)) == moves(plain)
    assert all(moves(li.parse(text)).count > 0 for text in PROGRAMS.values())
