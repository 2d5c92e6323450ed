"""The benchmark of copies compares what it says: every case once, and one small run of all of it."""

import json
from pathlib import Path

import numpy as np

from benchmarks.copies import DTYPES, FRESH, WRITTEN, bytes_of, cases, contenders
from tests.processes import run_python


def test_cases_reach_from_one_element_to_64_mib() -> None:
    sizes = {case.nbytes for case in cases(1 << 26)}
    assert min(sizes) <= 8 and 1 << 26 in sizes
    for case in cases(1 << 26):
        assert sorted(case.axes) == list(range(len(case.shape)))
        assert case.nbytes < 2.2 * (1 << 26) and case.width in DTYPES


def test_negative_no_case_is_larger_than_asked_for() -> None:
    assert all(case.nbytes <= 1 << 13 for case in cases(1 << 12))


def test_all_contenders_write_the_same() -> None:
    for case in cases(1 << 12):
        calls = contenders(case, None)
        assert set(calls) == {name for name in (*FRESH, *WRITTEN) if not name.startswith("torch")}
        fresh = [calls[name]() for name in FRESH[:2]]
        assert all(isinstance(x, np.ndarray) and x.flags.c_contiguous for x in fresh)
        assert len({x.tobytes() for x in fresh if isinstance(x, np.ndarray)}) == 1


def test_a_run_says_the_machine_the_cases_and_a_summary(tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    arguments = ["--most", "8", "--seconds", "0.01", "--json", str(file)]
    result = run_python("benchmarks/copies.py", *arguments, timeout=300)
    assert "caches of" in result.stdout and "below 1 KiB" in result.stdout
    found = json.loads(file.read_text())["cases"]
    assert len(found) == len(list(cases(8)))
    assert all({"copyto", "np.copyto"} <= set(case["seconds"]) for case in found)


def test_sizes_are_read_with_their_units() -> None:
    assert [bytes_of(text) for text in ("17", "16K", "64M")] == [17, 16 << 10, 64 << 20]
