"""One case: contenders, rates, and bytes that are really compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.backends.llvm.runtime.thread_pool import cpus
from layout_ir.backends.llvm.runtime.timing import Limits
from layout_ir.errors import LayoutError
from layout_ir.tools.benchmark import measure as module
from layout_ir.tools.benchmark.cases import Case
from layout_ir.tools.benchmark.measure import OTHER_BYTES, Call, Result, expected, measure, sides

SHORT = Limits(precision=1.0, seconds=0.0, fewest=3, most=3)
CASE = Case("own", "nchw", "nChw8c", "f32", {"own": (2, 17, 5, 4)})


def test_a_case_is_measured_and_compared():
    found = measure(CASE, "own", 1, ["numpy"], SHORT)
    assert found.equal
    assert found.peers == ["numpy"]
    assert found.nbytes == 4 * (2 * 17 * 20 + 2 * 24 * 20)
    assert set(found.times.rounds) == {"ours", "memcpy", "stream", "numpy"}
    assert {len(rounds) for rounds in found.times.rounds.values()} == {3}
    assert found.gbps("ours", best=True) >= found.gbps("ours") > 0
    assert found.share().middle > 0
    lead = found.lead(["numpy", "torch"])
    assert lead is not None and lead.middle > 0
    assert found.lead(["torch"]) is None


def test_threads_that_have_no_cpus_are_not_waited_for():
    found = measure(CASE, "own", cpus() + 2, [], SHORT)
    assert found.times.doubtful == 3 * len(found.times.rounds)


def test_what_is_expected_is_the_definition(monkeypatch: pytest.MonkeyPatch):
    whole = expected(*sides(CASE, CASE.bound("own")))
    monkeypatch.setattr(module, "_SLICE", 100)
    src, dst = sides(CASE, CASE.bound("own"))
    wanted = expected(src, dst)
    assert np.array_equal(wanted, whole)
    assert wanted[dst.layout.address((1, 16, 4, 3))] == src.data[src.layout.address((1, 16, 4, 3))]
    assert not wanted.reshape(2, 3, 5, 4, 8)[:, 2, :, :, 1:].any()


def test_negative_wrong_bytes_are_noticed(monkeypatch: pytest.MonkeyPatch):
    real = module.expected

    def other(*args: Any) -> Any:
        wanted = real(*args)
        wanted[-1] += 1
        return wanted

    monkeypatch.setattr(module, "expected", other)
    found = measure(CASE, "own", 1, ["numpy"], SHORT)
    assert not found.equal


def test_negative_a_peer_that_writes_other_bytes_takes_no_part(monkeypatch: pytest.MonkeyPatch):
    def idle(*_: Any) -> Call:
        return lambda: None

    monkeypatch.setattr(module, "peer", idle)
    found = measure(CASE, "own", 1, ["numpy"], SHORT)
    assert found.equal
    assert found.absent == {"numpy": OTHER_BYTES}
    assert found.peers == []


def test_negative_a_case_that_cannot_be_compiled():
    with pytest.raises(LayoutError, match="4 bits"):
        measure(Case("own", "ab", "ba", "i4", {"own": (2, 3)}), "own", 1, [], SHORT)


def test_two_measurements_of_a_case_are_joined():
    found = measure(CASE, "own", 1, ["numpy"], SHORT)
    other = measure(CASE, "own", 1, [], SHORT)
    both = found.joined(other)
    assert set(both.times.rounds) == {"ours", "memcpy", "stream"}
    assert both.times.rounds["ours"] == [*found.times.rounds["ours"], *other.times.rounds["ours"]]
    assert not found.joined(Result(CASE, "own", 1, 1, other.times, False)).equal


def test_rounds_go_on_until_the_question_is_settled():
    limits = Limits(precision=0.5, seconds=60, fewest=2, most=20)
    asked: list[int] = []

    def unsettled(found: Result) -> float:
        asked.append(len(found.times.rounds["ours"]))
        return 1.0 if len(asked) < 4 else 0.0

    found = measure(CASE, "own", 1, [], limits, unsettled=unsettled)
    assert len(found.times.rounds["ours"]) == asked[-1] == 5
    assert found.plan is not None
