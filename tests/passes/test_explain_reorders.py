"""What `explain` takes; filecheck/passes/explain.mlir has what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

import layout_ir as li
from layout_ir.passes.explain_reorders import explain
from tests.programs import parse

PROGRAM = """
func.func @main(%x: tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32, #layout.tag<nChw8c>> {
  %y = layout.reorder %x : tensor<1x8x4x4xf32> -> tensor<1x8x4x4xf32, #layout.tag<nChw8c>>
  func.return %y : tensor<1x8x4x4xf32, #layout.tag<nChw8c>>
}
"""


def test_costs_may_be_the_file_of_a_table(tmp_path: Path):
    table = tmp_path / "costs.json"
    table.write_text('{"unit": "ticks", "reorder": [], "missing": "model"}')
    (found,) = explain(parse(PROGRAM), "blocked8", table)
    assert found.unit == "ticks"
    assert found == explain(found.op.parent_op().parent_op(), "blocked8", str(table))[0]  # pyright: ignore


@pytest.mark.parametrize("text", ["builtin.module {}", PROGRAM], ids=["nothing left", "a reorder left"])
def test_negative_what_are_no_costs_is_refused_whatever_is_left(text: str):
    with pytest.raises(li.LayoutError, match=r"^costs = 3 is neither"):
        explain(parse(text), "blocked8", 3)  # pyright: ignore[reportArgumentType]
