"""Beside upstream's propagation, selection leaves never more moves nor bytes, and what is left computes the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

import layout_ir as li
from benchmarks.mlir_propagation import PROGRAMS, moves, moves_of_text, selected, upstream
from layout_ir.dialects.layout.types import tensor_type
from tests.exits.linalg.mlir_tools import execute, tool
from tests.exits.linalg.test_pack_ops import LOWER_PACK


@pytest.mark.parametrize("name", PROGRAMS)
def test_never_more_moves_nor_bytes_than_upstream_and_equal_results(name: str, tmp_path: Path):
    tool("mlir-opt")
    text = PROGRAMS[name]
    theirs, module = moves_of_text(upstream(text)), selected(text)
    ours = moves(module)
    assert ours.count <= theirs.count and ours.nbytes <= theirs.nbytes
    (tmp_path / "lower_pack.mlir").write_text(LOWER_PACK)
    lowering = (
        f"--transform-preload-library=transform-library-paths={tmp_path / 'lower_pack.mlir'}",
        "--transform-interpreter",
    )
    plain = li.parse(text)
    (function,) = plain.body.block.ops
    assert isinstance(function, FuncOp)
    rng = np.random.default_rng(0)
    shapes = [tensor_type(type).get_shape() for type in function.function_type.inputs]
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    # Stock MLIR runs the program as it was.
    want = execute(plain, inputs, tmp_path, before=lowering)
    for got, expected in zip(execute(module, inputs, tmp_path, before=lowering), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_moves_are_counted_alike_in_text_and_in_programs():
    for text in PROGRAMS.values():
        assert moves_of_text(text) == moves(li.parse(text))
        assert moves_of_text(text).count > 0
