"""What `layout-ir run` executes, and by what."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.onednn import library
from layout_ir.tools.before_and_after import executed_by_library, executed_by_reference
from layout_ir.tools.layout_ir import main
from tests.backends.onednn.small_programs import needs_library

BLOCKS = """\
#nchw   = #layout.format<(n, c, h, w) : [n, c, h, w]>
#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>

func.func @main(%x: tensor<2x17x5x4xf32>) -> tensor<2x17x5x4xf32> {
  %a = layout.reorder %x : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #nChw8c>
  %b = nn.tanh %a : tensor<2x17x5x4xf32, #nChw8c>
  %c = layout.reorder %b : tensor<2x17x5x4xf32, #nChw8c> -> tensor<2x17x5x4xf32>
  func.return %c : tensor<2x17x5x4xf32>
}
"""
PLAIN = """\
func.func @main(%x: tensor<2x17x5x4xf32>) -> tensor<2x17x5x4xf32> {
  %a = nn.tanh %x : tensor<2x17x5x4xf32>
  func.return %a : tensor<2x17x5x4xf32>
}
"""
X = np.random.default_rng(0).standard_normal((2, 17, 5, 4)).astype(np.float32)


@needs_library
def test_both_programs_give_what_numpy_gives():
    by, runs = executed_by_library({"naive": li.parse(BLOCKS), "optimized": li.parse(PLAIN)}, {"x": X})
    assert by.startswith(f"by {library.library()}, ") and "reference" not in by
    for run in runs.values():
        np.testing.assert_allclose(run.results[0], np.tanh(X), rtol=0, atol=1e-6)
        assert run.total_ms > 0
    assert runs["naive"].reorders_ms > 0 == runs["optimized"].reorders_ms


def test_the_reference_gives_what_numpy_gives():
    found = executed_by_reference(li.parse(BLOCKS), {"x": X})
    np.testing.assert_allclose(found.results[0], np.tanh(X), rtol=0, atol=1e-6)
    assert 0 < found.reorders_ms < found.total_ms


@needs_library
def test_networks_are_run_by_the_library_where_it_is_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "p.mlir").write_text(PLAIN)
    assert main(["run", str(tmp_path / "p.mlir"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["executed"].startswith(f"by {library.library()}")


def test_negative_without_the_library_the_reference_runs_them_and_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(library, "unavailable", lambda: "no module named 'onednn'")
    (tmp_path / "p.mlir").write_text(PLAIN)
    assert main(["run", str(tmp_path / "p.mlir")]) == 0
    said = capsys.readouterr().out
    assert "by the reference" in said and "layout-ir[run]" in said and "results agree" in said


LOOP = """\
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %lo = arith.constant 0 : index
  %hi = arith.constant 3 : index
  %step = arith.constant 1 : index
  %r = scf.for %i = %lo to %hi step %step iter_args(%a = %x) -> (tensor<2x3xf32>) {
    %b = nn.relu %a : tensor<2x3xf32>
    scf.yield %b : tensor<2x3xf32>
  }
  func.return %r : tensor<2x3xf32>
}
"""


def test_negative_what_the_library_cannot_execute_is_run_by_the_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "p.mlir").write_text(LOOP)
    assert main(["run", str(tmp_path / "p.mlir")]) == 0
    said = capsys.readouterr().out
    assert "by the reference" in said
    assert library.unavailable() is not None or "oneDNN cannot: " in said
