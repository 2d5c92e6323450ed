"""The table of reorders that frameworks ask for: its cases, when one is decided, and what is said of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import framework_reorders
from benchmarks.framework_reorders import (
    asked,
    cases,
    drawn,
    lead,
    measured,
    part_of,
    plan_name,
    table,
    to_json,
    told,
    undecided,
)
from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.runtime.call import plan_reorder
from layout_ir.backends.llvm.runtime.timing import Interval, Limits, Times
from layout_ir.errors import LayoutError
from layout_ir.tools.benchmark import onednn
from layout_ir.tools.benchmark.cases import Case
from layout_ir.tools.benchmark.measure import Result

CASE = Case("small", "abcd", "ABcd8b8a", "f32", {"own": (16, 16, 3, 3)})


def _result(ours: list[float], onednn: list[float], case: Case = CASE) -> Result:
    rounds = {"ours": ours, "memcpy": [1.0] * len(ours), "stream": [2.0] * len(ours), "onednn": onednn}
    src, dst = case.bound("own")
    return Result(case, "own", 1, 100, Times(rounds), True, plan=plan_reorder(src, dst, "f32"))


@pytest.mark.parametrize(
    "low, high, open_",
    [
        (0.96, 1.1, False),
        (0.94, 1.1, True),
        (0.86, 0.94, False),
        (0.84, 0.86, True),
        (0.95, 2.0, False),
    ],
)
def test_a_case_is_undecided_while_a_bound_lies_in_its_interval(low: float, high: float, open_: bool):
    assert undecided(Interval((low + high) / 2, low, high)) is open_


def test_the_worst_cases_stand_first_with_their_plans():
    good = _result([1.0] * 9, [2.0] * 9, replace(CASE, name="good"))
    bad = _result([2.0] * 9, [1.0] * 9, replace(CASE, name="bad"))
    lines = list(table([to_json(good), to_json(bad)], 1))
    assert lines[1].startswith("all: 2 cases, geometric mean 1.00, least 0.50, 50.0 % at least 0.95")
    assert "bad" in lines[-3] and "0.500" in lines[-3]
    assert good.plan is not None and lines[-2].strip() == plan_name(good.plan)
    assert not any("good" in line for line in lines)


def test_negative_wrong_bytes_are_named():
    assert (
        list(table([to_json(replace(_result([1.0] * 9, [1.0] * 9), equal=False))], 3))[-1]
        == "WRONG BYTES: small"
    )


def test_a_plan_is_named_by_its_kernels():
    src, dst = (Format.from_tag(tag).bind((1, 16, 4, 4)) for tag in ("abcd", "acdb"))
    assert plan_name(plan_reorder(src, dst, "f32")) == "tile"


def test_cases_are_drawn_evenly_and_never_twice():
    every = [replace(CASE, name=str(k)) for k in range(10)]
    assert [case.name for case in drawn(every, 4)] == ["0", "2", "5", "7"]
    assert drawn(every, 99) == every


def test_parts_have_every_case_once_and_are_even_shares():
    every = [replace(CASE, name=str(k)) for k in range(10)]
    parts = [part_of(every, f"{k}/3") for k in (1, 2, 3)]
    assert [[case.name for case in part] for part in parts] == [list("0369"), list("147"), list("258")]
    assert part_of(every, "1/1") == every


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", ""])
def test_negative_what_names_no_part_is_an_error(text: str):
    with pytest.raises(LayoutError, match="as 3/40"):
        part_of([CASE], text)


def test_results_of_parts_are_told_as_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = [tmp_path / "1.json", tmp_path / "2.json"]
    for file, ours in zip(files, (1.0, 2.0), strict=True):
        file.write_text(json.dumps([to_json(_result([ours] * 9, [2.0] * 9, replace(CASE, name=file.name)))]))
    assert told([entry for file in files for entry in json.loads(file.read_text())], 2) == 0
    assert "all: 2 cases, geometric mean 1.41, least 1.00" in capsys.readouterr().out


def test_negative_wrong_bytes_make_the_run_fail(capsys: pytest.CaptureFixture[str]):
    assert told([to_json(replace(_result([1.0] * 9, [1.0] * 9), equal=False))], 1) == 1
    assert "WRONG BYTES" in capsys.readouterr().out


def test_an_undecided_case_is_measured_again_and_joined(monkeypatch: pytest.MonkeyPatch):
    turns = iter([_result([1.0] * 3 + [2.0] * 3, [1.0] * 6), _result([1.0] * 30, [1.0] * 30)])

    def measure(*_: Any, **__: Any) -> Result:
        return next(turns)

    monkeypatch.setattr(framework_reorders, "measure", measure)
    [found] = measured([CASE], 1, Limits(), repeats=3)
    assert len(found.times.rounds["ours"]) == 36
    interval = lead(found)
    assert interval is not None and not undecided(interval)


def test_negative_a_case_that_stays_undecided_is_said_to_be(monkeypatch: pytest.MonkeyPatch):
    def measure(*_: Any, **__: Any) -> Result:
        return _result([1.0, 1.2] * 4, [1.0] * 8)

    monkeypatch.setattr(framework_reorders, "measure", measure)
    [found] = measured([CASE], 1, Limits(), repeats=1)
    assert len(found.times.rounds["ours"]) == 16
    assert to_json(found)["undecided"]
    assert "1 undecided" in list(table([to_json(found)], 1))[1]


def _need_onednn() -> None:
    if reasons := [str(found) for found in map(onednn.load, onednn.BUILDS) if isinstance(found, LayoutError)]:
        pytest.skip("; ".join(reasons))


def test_layers_ask_for_weights_in_blocks_and_tokens_before_heads():
    _need_onednn()
    found = set(asked(["bert-base"]))
    assert {move.network for move in found} == {"bert-base"}
    weights = {move for move in found if move.weights}
    assert {move.src for move in weights} == {"ab", "ba"}
    assert any(move.shape == (768, 3072) and move.dst not in ("ab", "ba") for move in weights)
    assert {move.src for move in found - weights if move.dst == "abcd"} == {"acbd", "adbc"}
    for move in found:
        src, dst = move.case().bound("own")
        assert src.shape == dst.shape == move.shape


@pytest.mark.slow
def test_all_networks_ask_for_more_than_500_distinct_reorders():
    _need_onednn()
    every = cases()
    assert len(every) >= 500
    assert len({(case.src, case.dst, case.dtype, *case.shapes["own"]) for case in every}) == len(every)
    assert {case.dtype for case in every} >= {"f32", "i8", "ui8"}
    assert {case.group for case in every} == set(framework_reorders.NETWORKS)
    for case in every[::50]:
        src, dst = case.bound("own")
        assert not src.same_store(dst)
