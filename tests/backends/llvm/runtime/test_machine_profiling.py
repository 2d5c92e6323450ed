"""Measuring gives a profile of this machine, whatever time there is; what there is no time for stays built in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layout_ir.backends.llvm.machine.machine import detected
from layout_ir.backends.llvm.machine.profile import MachineProfile, built_in_profile
from layout_ir.backends.llvm.runtime import machine_profiling
from layout_ir.backends.llvm.runtime.machine_profiling import measure_profile

BUILT_IN = built_in_profile(detected().l2, detected().l3)


def test_a_measured_profile_is_one_that_a_file_can_hold():
    found = measure_profile(0.5)
    assert found.is_measured and MachineProfile.from_json(found.to_json()) == found
    assert found.streaming_volume_converting <= found.streaming_volume <= found.streaming_volume_few
    for name in ("cached_ns", "streamed_ns", "memory_ns", "memory_streamed_ns"):
        assert 1 / 8.1 < getattr(found, name) / getattr(BUILT_IN, name) < 8.1


def test_negative_without_time_nothing_is_measured():
    found = measure_profile(-1.0).to_json()
    assert {name: found[name] for name in found if name != "source"} == {
        name: value for name, value in BUILT_IN.to_json().items() if name != "source"
    }


def test_of_several_measurements_the_one_in_the_middle_counts(monkeypatch: pytest.MonkeyPatch):
    prices = iter((1.0, 50.0, 2.0))

    def disturbed(self: object) -> MachineProfile:
        return replace(BUILT_IN, cached_ns=next(prices))

    monkeypatch.setattr(vars(machine_profiling)["_Measurement"], "profile", disturbed)
    assert measure_profile(60.0).cached_ns == 2.0
