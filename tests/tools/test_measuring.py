"""Measurements: what is timed, and that more takes longer."""

from __future__ import annotations

import pytest

from layout_ir.algebra.format import Format
from layout_ir.passes.selection.costs.calibration import machine_name
from layout_ir.tools import measuring
from layout_ir.tools.measuring import calibrate, reorder_time, shapes, time_ns


def test_shapes_double_from_the_first_cache_to_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list(shapes())
    sizes = [2 * Format.from_tag("nchw").bind(shape).nbytes("f32") for shape in found]
    assert sizes == sorted(set(sizes))
    assert sizes[0] <= 2048
    assert sizes[-1] > measuring.host().l3 * 1.5
    assert sizes[-1] <= measuring.LARGEST
    assert all(shape[1] % 16 == 0 for shape in found)


def test_the_least_time_counts_and_every_call_is_made() -> None:
    calls: list[int] = []
    assert time_ns(lambda: calls.append(1)) >= 1
    assert len(calls) > 10


def test_a_large_reorder_takes_longer_than_a_small_one() -> None:
    plain, blocked = Format.from_tag("nchw"), Format.from_tag("nChw8c")
    small, large = (1, 16, 7, 7), (1, 256, 112, 112)
    a, b = (reorder_time(plain.bind(s), blocked.bind(s), "f32") for s in (small, large))
    assert b > 10 * a


def test_a_calibration_is_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [(1, 16, 7, 7), (1, 64, 28, 28), (1, 128, 56, 56)]
    monkeypatch.setattr(measuring, "shapes", lambda: iter(few))
    steps: list[tuple[int, int]] = []
    found = calibrate(lambda done, of: steps.append((done, of)))
    assert found.machine == machine_name()
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert [size for size, _ in found.reorder.points] == [2 * 4 * s[1] * s[2] * s[3] for s in few]
    assert [size for size, _ in found.copy.points] == [size for size, _ in found.reorder.points]
    assert 0 < found.call_ns < found.reorder.points[-1][1]
