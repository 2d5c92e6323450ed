"""`layout-ir irdl` prints the definitions that it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from layout_ir.exits.irdl.dialect_definitions import definitions
from layout_ir.registry import DIALECTS
from layout_ir.tools.layout_ir import main


def test_it_prints_the_dialects_that_are_named_or_all(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert main(["irdl", "layout", "nn", "layout"]) == 0
    assert capsys.readouterr().out == definitions([DIALECTS["layout"](), DIALECTS["nn"]()])
    assert main(["irdl", "-o", str(tmp_path / "all.irdl")]) == 0
    assert (tmp_path / "all.irdl").read_text() == definitions([DIALECTS[name]() for name in sorted(DIALECTS)])


def test_negative_a_dialect_of_somebody_else_is_refused(capsys: pytest.CaptureFixture[str]):
    assert main(["irdl", "layout", "arith"]) == 1
    assert "no dialect 'arith' is defined here: there are kernel, layout, nn" in capsys.readouterr().err
