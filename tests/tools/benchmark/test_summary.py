"""Lines and numbers: means are geometric, medians are of ratios, whoever is low is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layout_ir.backends.llvm.runtime.timing import Times
from layout_ir.tools.benchmark.cases import Case
from layout_ir.tools.benchmark.measure import Result
from layout_ir.tools.benchmark.summary import line, machine_lines, summary, to_json


def _result(name: str, ours: float, numpy: float, group: str = "table", *, equal: bool = True) -> Result:
    case = Case(name, "ab", "ba", "f32", {"L2": (8, 8)}, group)
    rounds = {"ours": ours, "memcpy": 1.0, "stream": 2.0, "numpy": numpy, "onednn": 2 * numpy}
    times = Times({name: [t * 1e-9, t * 1e-9, t * 2e-9] for name, t in rounds.items()})
    return Result(case, "L2", 1, 100, times, equal)


def test_the_object_that_programs_read():
    assert to_json(_result("T", 2.0, 4.0)) == {
        "case": "T",
        "size": "L2",
        "threads": 1,
        "ours_gbps": 50.0,
        "memcpy_gbps": 100.0,
        "stream_gbps": 50.0,
        "peers": {"numpy": 25.0, "onednn": 12.5},
        "equal": True,
    }


def test_the_best_rounds_on_demand():
    found = _result("T", 2.0, 4.0)
    ours = found.times.rounds["ours"]
    assert isinstance(ours, list)
    ours[0] = 1e-9
    assert to_json(found, best=True)["ours_gbps"] == 100.0
    assert to_json(found)["ours_gbps"] == 50.0


def test_means_are_geometric_and_of_groups():
    lines = list(summary([_result("A", 1.0, 4.0), _result("B", 4.0, 4.0), _result("C", 1.0, 1.0, "peers")]))
    assert lines[0] == "L2 1T, table 2 cases"
    assert "share of the copy bandwidth 0.50 (least 0.25)" in lines[1]
    assert "against the best peer 2.00 (least 1.00); against oneDNN 4.00 (least 2.00)" in lines[2]
    assert lines[3] == "L2 1T, all 3 cases"
    assert "share of the copy bandwidth 0.63 (least 0.25)" in lines[4]
    assert lines[6] == "  below the least share: B 0.25"


def test_builds_of_a_library_and_all_sizes_have_their_means():
    results: list[Result] = []
    for size, omp in (("L2", 2e-9), ("L3", 18e-9)):
        found = _result("A", 1.0, 4.0)
        times = Times({**found.times.rounds, "onednn-omp": [omp, omp, omp]})
        results.append(replace(found, size=size, times=times))
    lines = list(summary(results))
    assert lines[-2] == "1T, all sizes, 2 cases"
    assert lines[-1].endswith("of its builds onednn 8.00 (least 8.00), onednn-omp 6.00 (least 2.00)")
    assert "against oneDNN 4.00 (least 2.00)" in lines[-1]


def test_negative_one_build_and_one_size_are_the_mean():
    text = "\n".join(summary([_result("A", 1.0, 4.0)]))
    assert "of its builds" not in text
    assert "all sizes" not in text


def test_a_line_names_everyone():
    text = line(_result("T", 2.0, 4.0))
    assert "ours  50.0  share 0.50" in text
    assert "lead  2.00 ±0.00  numpy  25.0  onednn  12.5" in text


def test_negative_wrong_bytes_stand_out():
    assert line(_result("T", 1.0, 1.0, equal=False)).endswith("WRONG BYTES")
    assert list(summary([_result("T", 1.0, 1.0, equal=False)]))[-1] == "WRONG BYTES: T L2 1T"
    assert not any("WRONG" in text for text in summary([_result("T", 1.0, 1.0)]))


def test_negative_a_library_that_is_absent_is_said_to_be(monkeypatch: pytest.MonkeyPatch):
    from layout_ir.tools.benchmark import onednn

    monkeypatch.setitem(onednn.BUILDS, "onednn-omp", "no-such-package")
    onednn.load.cache_clear()
    lines = machine_lines(["numpy", "onednn-omp"])
    onednn.load.cache_clear()
    assert lines[-1] == "onednn-omp is absent: the package no-such-package is not installed"
    assert "caches of" in lines[0]
