"""`layout-ir calibrate`: the file it leaves, and the table of a network's reorders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layout_ir.api import measured_selection
from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.op_timing import price_source
from layout_ir.passes.selection.costs.calibration import calibration_path, load_calibration
from layout_ir.passes.selection.costs.cost_table import TableCosts, load_costs
from layout_ir.passes.selection.costs.price_table import PriceSource, PriceTable, prices_path, read_prices
from layout_ir.tools import measuring
from layout_ir.tools.layout_ir import main
from tests.backends.onednn.small_programs import needs_library

PROGRAM = """
#nchw = #layout.tag<nchw>
func.func @main(%x : tensor<1x64x14x14xf32, #nchw>) -> tensor<1x64x14x14xf32, #nchw> {
  %w = nn.constant dense<0.5> : tensor<64x64x3x3xf32, #layout.any>
  %a = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x64x14x14xf32, #nchw>, tensor<64x64x3x3xf32, #layout.any>) -> tensor<1x64x14x14xf32, #layout.any>
  %r = nn.relu %a : tensor<1x64x14x14xf32, #layout.any>
  %y = layout.reorder %r : tensor<1x64x14x14xf32, #layout.any> -> tensor<1x64x14x14xf32, #nchw>
  func.return %y : tensor<1x64x14x14xf32, #nchw>
}
"""  # noqa: E501


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(measuring, "shapes", lambda: iter([(1, 16, 7, 7), (1, 64, 28, 28)]))
    return tmp_path / "cache"


def test_the_curve_lands_in_the_cache_whole(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate"]) == 0
    found = load_calibration()
    assert found is not None
    assert len(found.reorder.points) == 2
    # No part of an unfinished file is left.
    assert [path.name for path in (cache / "layout-ir").glob("*calibration*")] == [calibration_path().name]
    assert f"written to {calibration_path()}" in capsys.readouterr().out
    assert main(["calibrate"]) == 0


def test_the_curve_can_go_elsewhere(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "-o", str(tmp_path / "c.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "c.json").read_text())
    # Kernels that were compiled for it may be kept there.
    assert not calibration_path().exists()


def test_every_reorder_of_a_program_is_measured_and_the_table_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, table = tmp_path / "p.mlir", tmp_path / "costs.json"
    program.write_text(PROGRAM)
    assert main(["calibrate", "--reorders", str(program), "--target", "blocked8", "-o", str(table)]) == 0
    entries = json.loads(table.read_text())["reorder"]
    assert {(e["from"], e["to"]) for e in entries} == {("nchw", "nChw8c"), ("nChw8c", "nchw")}
    assert all(e["shape"] == [1, 64, 14, 14] and e["cost"] > 0 for e in entries)
    assert isinstance(load_costs(str(table)), TableCosts)
    capsys.readouterr()
    assert main(["optimize", str(program), "--target", "blocked8", "--costs", str(table), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["cost"] == report["bound"]


def test_without_a_calibration_a_warning_goes_beside_the_report(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "p.mlir"
    program.write_text(PROGRAM)
    assert main(["optimize", str(program), "--costs", "calibrated", "--json"]) == 0
    printed = capsys.readouterr()
    json.loads(printed.out)
    assert printed.err.count("warning: this machine has not been measured") == 1


def test_negative_a_wrong_table_ends_with_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, table = tmp_path / "p.mlir", tmp_path / "costs.json"
    program.write_text(PROGRAM)
    table.write_text('{"reorder": [\n  {"from": }]}')
    for command in ("optimize", "run"):
        assert main([command, str(program), "--costs", str(table)]) == 1
        assert capsys.readouterr().err.startswith(f"{table}:2:12: error: not JSON: ")


# Prices --------------------------------------------------------------------------------------------------------------


@needs_library
def test_every_op_and_reorder_of_a_program_is_measured_and_the_prices_are_used(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, table = tmp_path / "p.mlir", tmp_path / "prices.json"
    program.write_text(PROGRAM)
    assert main(["calibrate", "--ops", str(program), "--target", "blocked8", "-o", str(table)]) == 0
    said = capsys.readouterr().out
    prices = read_prices(str(table)).of(price_source(library(), 1))
    assert f"{len(prices)} prices measured" in said and f"written to {table}" in said
    assert {(key.op, *(t.lies for t in (*key.ins, *key.outs))) for key in prices} >= {
        ("nn.conv", "nchw", "constant", "nchw"),
        ("nn.conv", "nChw8c", "constant", "nChw8c"),
        ("layout.reorder", "nchw", "nChw8c"),
        ("layout.reorder", "nChw8c", "nchw"),
    }
    assert not prices_path().exists()
    assert main(["optimize", str(program), "--target", "blocked8", "--costs", str(table), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["cost"] == report["bound"]
    assert report["prices"]["measured"] == len(prices) and report["prices"]["built_in"] == 0
    assert report["prices"]["low"] <= report["cost"] <= report["prices"]["high"]


@needs_library
def test_a_file_of_prices_is_added_to_and_nothing_is_measured_twice(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, table = tmp_path / "p.mlir", tmp_path / "prices.json"
    program.write_text(PROGRAM)
    other = PriceSource("an-abacus", "beads 1.0", 1)
    table.write_text(PriceTable({other: {}}).text())
    for first in (True, False):
        assert main(["calibrate", "--ops", str(program), "--target", "blocked8", "-o", str(table)]) == 0
        assert ("p.mlir: 0 prices measured" in capsys.readouterr().out) is not first
    assert set(read_prices(str(table)).prices) == {other, price_source(library(), 1)}


@needs_library
def test_measuring_first_leaves_prices_in_the_cache_and_a_sentence_in_the_report(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "p.mlir"
    program.write_text(PROGRAM)
    assert main(["optimize", str(program), "--target", "blocked8", "--measure", "deciding"]) == 0
    said = capsys.readouterr().out
    assert f"proven optimal for prices of {price_source(library(), 1)}, target blocked8" in said
    assert "by their intervals the choice costs " in said
    assert prices_path().exists()
    assert main(["optimize", str(program), "--target", "blocked8", "--costs", "measured"]) == 0
    assert capsys.readouterr().out == said


@needs_library
def test_negative_a_file_of_another_kind_is_not_replaced_by_prices(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, table = tmp_path / "p.mlir", tmp_path / "costs.json"
    program.write_text(PROGRAM)
    table.write_text('{"reorder": []}')
    assert main(["calibrate", "--ops", str(program), "-o", str(table)]) == 1
    assert f"{table}: unknown key 'reorder'" in capsys.readouterr().err
    assert table.read_text() == '{"reorder": []}'


def _measured(*_: object) -> None:
    pytest.fail("it was measured")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["calibrate", "--threads", "2"], "--threads is for prices: add --ops MODEL"),
        (
            ["calibrate", "--measure-seconds", "2"],
            "--measure-seconds is for prices and the profile: add --ops MODEL or --profile",
        ),
        (["calibrate", "--profile", "--measure-seconds", "nan"], "measure_seconds = nan is no number"),
        (
            ["calibrate", "--target", "blocked8"],
            "--target says whose layouts are measured: add --ops or --reorders MODEL",
        ),
        (["calibrate", "--ops", "p.mlir", "--reorders", "p.mlir"], "leave --reorders and --profile out"),
        (["calibrate", "--ops", "p.mlir", "--threads", "0"], "threads = 0 is no number of threads"),
        (["calibrate", "--ops", "p.mlir", "--measure-seconds", "nan"], "measure_seconds = nan is no number"),
        (
            ["optimize", "p.mlir", "--measure-seconds", "3"],
            "--measure-seconds is for --measure deciding or all",
        ),
        (
            ["optimize", "p.mlir", "--measure", "all", "--measure-seconds", "-3"],
            "measure_seconds = -3.0 is no number",
        ),
        (["optimize", "p.onnx", "--target", "onnx", "--measure", "all"], "--measure is for programs"),
    ],
)
def test_negative_options_that_say_nothing_together(
    arguments: list[str], reason: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.mlir").write_text(PROGRAM)
    monkeypatch.setattr(measured_selection, "measured_costs", _measured)
    assert main(arguments) == 1
    assert reason in capsys.readouterr().err
