"""The measured curve: between its points, in its file, and as costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_ir.algebra.format import Format
from layout_ir.diagnostics import Severity, collect
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.costs import calibration
from layout_ir.passes.selection.costs.calibration import (
    CalibratedCosts,
    Calibration,
    Curve,
    calibrated_costs,
    calibration_path,
    load_calibration,
    machine_name,
)
from layout_ir.passes.selection.costs.cost_model import CostModel
from layout_ir.passes.selection.costs.cost_table import load_costs

CURVE = Curve(((1000, 100), (2000, 150), (10_000, 1150)))


def _calibration(machine: str | None = None) -> Calibration:
    return Calibration(machine or machine_name(), 90, CURVE, CURVE)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory; the file of this machine in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = calibration_path()
    path.parent.mkdir()
    return path


# The curve ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nbytes", "ns"),
    [(0, 100), (1, 100), (1000, 100), (1500, 125), (2000, 150), (6000, 650), (10_000, 1150), (20_000, 2300)],
)
def test_time_grows_linearly_between_the_points(nbytes: int, ns: int) -> None:
    assert CURVE.ns(nbytes) == ns


points = st.lists(
    st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)), min_size=2, unique_by=lambda p: p[0]
)


@given(points, st.integers(0, 2 * 10**9), st.integers(0, 2 * 10**9))
def test_more_bytes_never_cost_less(measured: list[tuple[int, int]], a: int, b: int) -> None:
    curve = Curve.through(measured)
    assert curve.ns(min(a, b)) <= curve.ns(max(a, b))


@given(points)
def test_a_curve_lies_nowhere_below_what_was_measured(measured: list[tuple[int, int]]) -> None:
    curve = Curve.through(measured)
    assert all(curve.ns(size) >= time for size, time in measured)
    largest = max(time for _, time in measured)
    assert max(time for _, time in curve.points) == largest


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (((1, 1),), "a curve needs two points, not 1"),
        (((0, 1), (2, 2)), "a curve starts above zero"),
        (((1, 0), (2, 2)), "a curve starts above zero"),
        (((2, 1), (2, 2)), r"\(2, 2\) does not follow \(2, 1\): bytes rise, times do not fall"),
        (((1, 5), (2, 4)), r"\(2, 4\) does not follow \(1, 5\)"),
    ],
)
def test_negative_points_that_are_no_curve(wrong: Any, message: str) -> None:
    with pytest.raises(LayoutError, match=f"^{message}"):
        Curve(wrong)


# The file -------------------------------------------------------------------------------------------------------


def test_the_cache_directory_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert calibration_path() == tmp_path / "layout-ir" / f"calibration-{machine_name()}.json"
    for other in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", other)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        assert calibration_path().parent == tmp_path / "home" / ".cache" / "layout-ir"


def test_what_is_written_is_read_back(cache: Path) -> None:
    cache.write_text(json.dumps(_calibration().to_json()))
    with collect() as said:
        assert load_calibration() == _calibration()
    assert said == []


def _with(**changes: Any) -> str:
    return json.dumps({**_calibration().to_json(), **changes})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a calibration: Expecting value"),
        ("[]", "not a calibration: expected an object, found list"),
        ("[" * 100_000, "not a calibration: "),
        (_with()[:-20], "not a calibration: "),
        (_with(version=99), "not a calibration: version 99 is not 1"),
        (_with(machine="abacus"), "not a calibration: measured on abacus, this is "),
        (_with(machine=5), "not a calibration: machine = 5 is no name"),
        (_with(call_ns=-5), "not a calibration: call_ns = -5 is no whole number from 0 on"),
        (_with(reorder=None), "not a calibration: reorder = None is no list of points"),
        (_with(copy=[[1, 2], [3]]), r"not a calibration: copy[1] = [3] is no pair of bytes and nanoseconds"),
        (_with(reorder=[[1, 2], [3, 1]]), "not a calibration: reorder: (3, 1) does not follow (1, 2)"),
        (_with(reorder=[[1, 2.5], [3, 4]]), "not a calibration: reorder[0] = [1, 2.5] is no pair"),
    ],
)
def test_a_damaged_file_is_ignored_with_a_warning(text: str, reason: str, cache: Path) -> None:
    cache.write_text(text)
    with collect() as said:
        costs = calibrated_costs()
    assert type(costs) is CostModel
    (warning,) = said
    assert warning.severity is Severity.WARNING
    assert warning.message.startswith(reason)
    assert warning.message.endswith("the built-in costs are used, 'layout-ir calibrate' measures")
    assert str(warning.location) == str(cache)


def test_a_machine_that_was_not_measured_is_said_so(cache: Path) -> None:
    with collect() as said:
        assert load_calibration() is None
    assert [d.message.split(";")[0] for d in said] == ["this machine has not been measured"]


def test_negative_a_name_tells_processors_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    here = machine_name()
    machine_name.cache_clear()
    monkeypatch.setattr(calibration.os, "cpu_count", lambda: 4711)
    try:
        assert machine_name() != here
    finally:
        machine_name.cache_clear()


# As costs -------------------------------------------------------------------------------------------------------


def test_calibrated_costs_follow_the_curve(cache: Path) -> None:
    cache.write_text(json.dumps(_calibration().to_json()))
    costs = load_costs("calibrated")
    assert isinstance(costs, CalibratedCosts)
    plain, blocked = Format.from_tag("nchw"), Format.from_tag("nChw8c")
    a, b = plain.bind((1, 8, 5, 5)), blocked.bind((1, 8, 5, 5))
    assert costs.reorder(a, b, "f32") == CURVE.ns(2 * 800)
    assert costs.reorder(a, b, "f16") == CURVE.ns(2 * 400)
    one = (1, 8, 1, 1)
    assert costs.reorder(plain.bind(one), blocked.bind(one), "f32") == 0
