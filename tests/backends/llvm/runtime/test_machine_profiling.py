"""Measuring gives a profile of this machine, whatever time there is; what there is no time for stays built in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import index
from typing import Any

import numpy as np
import pytest

from layout_ir.backends.llvm.machine.machine import Machine, detected
from layout_ir.backends.llvm.machine.profile import MachineProfile, built_in_profile
from layout_ir.backends.llvm.runtime import machine_profiling
from layout_ir.backends.llvm.runtime.compiled_plan import load
from layout_ir.backends.llvm.runtime.machine_profiling import measure_profile
from layout_ir.backends.llvm.runtime.profiling_plans import copy_of
from layout_ir.dialects.kernel.plan import Copy, Loop, Plan, Staged, Tile
from layout_ir.dialects.kernel.plan_verifier import check_plan

BUILT_IN = built_in_profile(detected().l2, detected().l3, detected().cpu)


def test_a_measured_profile_is_one_that_a_file_can_hold():
    found = measure_profile(0.5)
    assert found.source != BUILT_IN.source and MachineProfile.from_json(found.to_json()) == found
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


# A machine that is made up: how long a plan takes is computed -------------------------------------------------------

SMALL = replace(
    detected(), cpu="x86-64-v4", l1=32 << 10, l2=256 << 10, l3=4 << 20, l1_ways=8, l2_ways=8, measured=None
)
PROFILE = built_in_profile(SMALL.l2, SMALL.l3)

Rate = Callable[[Plan], float]
"""Bytes of source and destination per nanosecond."""


def _measurement(monkeypatch: pytest.MonkeyPatch, rate: Rate, machine: Machine = SMALL) -> Any:
    """A measurement of `machine`, all of whose plans run at this rate."""

    def seconds(
        self: object, plans: Sequence[Plan], rounds: int = 0, threads: int = 1, *, usual: bool = False
    ) -> list[float]:
        return [index(plan.src_bytes + plan.dst_bytes) / rate(plan) / 1e9 for plan in plans]

    kind = vars(machine_profiling)["_Measurement"]
    monkeypatch.setattr(kind, "_seconds", seconds)
    return kind(machine, 60.0)


def test_where_streams_win_is_measured_with_two_threads_as_well(monkeypatch: pytest.MonkeyPatch):
    measurement, calls = _measurement(monkeypatch, lambda plan: 30.0), list[int]()
    cpus = 2

    def available(threads: int) -> int:
        return min(threads, cpus)

    def seconds(plans: Sequence[Plan], volume: int, threads: int) -> list[float]:
        """Streams are faster, of two threads from 2 MiB on."""
        calls.append(threads)
        return [2.0, 1.0 if threads == 1 or volume >= 2 << 20 else 3.0]

    monkeypatch.setattr(measurement, "_seconds_of_parts", seconds)
    monkeypatch.setattr(machine_profiling.thread_pool, "available", available)
    found = measurement._streaming_volumes(PROFILE)
    assert found.streaming_volume < 1 << 20 < found.streaming_volume_shared <= 4 << 20

    def never(plans: Sequence[Plan], volume: int, threads: int) -> list[float]:
        return [1.0, 0.5 if threads == 1 else 2.0]

    monkeypatch.setattr(measurement, "_seconds_of_parts", never)
    assert measurement._streaming_volumes(PROFILE).streaming_volume_shared == 3 * SMALL.l3 // 4
    monkeypatch.setattr(measurement, "_seconds_of_parts", seconds)
    calls.clear()
    cpus = 1
    found = measurement._streaming_volumes(PROFILE)
    assert found.streaming_volume_shared == PROFILE.streaming_volume_shared and set(calls) == {1}


def _read_by_turns(plan: Plan) -> int:
    kernel = plan.steps[0].kernel
    assert isinstance(kernel, Copy)
    return index(kernel.inner.count)


@pytest.mark.parametrize("followed", [1, 2, 4, 8, 16])
def test_as_many_sequences_are_followed_as_are_copied_about_as_fast(
    monkeypatch: pytest.MonkeyPatch, followed: int
):
    measurement = _measurement(monkeypatch, lambda plan: 30.0 if _read_by_turns(plan) <= followed else 20.0)
    assert measurement._sequences(PROFILE).sequences == followed


def test_negative_more_sequences_that_are_fast_again_do_not_count(monkeypatch: pytest.MonkeyPatch):
    measurement = _measurement(monkeypatch, lambda plan: 20.0 if _read_by_turns(plan) == 4 else 30.0)
    assert measurement._sequences(PROFILE).sequences == 2


def _streams(plan: Plan) -> bool:
    return any(step.kernel.streaming for step in plan.steps)


@pytest.mark.parametrize("least", [300 << 10, 1 << 20, 3 << 20])
def test_the_volume_from_which_on_streams_win_is_found_whatever_the_last_level_claims(
    monkeypatch: pytest.MonkeyPatch, least: int
):
    for l3 in (4 << 20, 64 << 20):
        measurement = _measurement(monkeypatch, lambda plan: 30.0, replace(SMALL, l3=l3))
        monkeypatch.setattr(measurement, "_seconds_of_parts", partial(_streams_win, least))
        found = measurement._crossover(_plain_copy, 1)
        assert found == min(volume for volume in measurement.volumes if volume >= least)
        above = 2 * least  # which wins already
        assert measurement._crossover(_plain_copy, 1, least=above) == min(
            volume for volume in measurement.volumes if volume >= above
        )


def test_negative_where_streams_win_nowhere_it_is_the_largest_volume(monkeypatch: pytest.MonkeyPatch):
    measurement = _measurement(monkeypatch, lambda plan: 30.0)
    monkeypatch.setattr(measurement, "_seconds_of_parts", partial(_streams_win, 1 << 40))
    assert measurement._crossover(_plain_copy, 1) == measurement.volumes[-1]
    most = 3 << 20
    found = measurement._crossover(_plain_copy, 1, most=most)
    assert found == min(volume for volume in measurement.volumes if volume >= most)


def _streams_win(least: int, plans: Sequence[Plan], volume: int, threads: int) -> list[float]:
    return [1.0, 0.8 if volume >= least else 1.2]


def _plain_copy(volume: int, streaming: bool) -> Plan:
    return copy_of(volume // 2, streaming=streaming)


def test_a_volume_is_moved_part_by_part():
    measurement = vars(machine_profiling)["_Measurement"](SMALL, 60.0)
    source, destination = measurement.buffers
    source[:] = np.arange(source.size) % 251
    for streaming in (False, True):
        destination[:] = 0
        plan = copy_of(1 << 18, streaming=streaming)
        [seconds] = measurement._seconds_of_parts([plan], 3 << 20, 1)
        assert seconds > 0
        moved = (3 << 20) // 2
        assert (destination[:moved] == source[:moved]).all() and not destination[moved:].any()


def _apart(plan: Plan) -> int:
    kernel = plan.steps[0].kernel
    assert isinstance(kernel, Copy)
    return index(kernel.inner.dst)


def test_volumes_around_half_of_the_last_level_are_tried_closely(monkeypatch: pytest.MonkeyPatch):
    for l3 in (4 << 20, 32 << 20):
        tried = _measurement(monkeypatch, lambda plan: 30.0, replace(SMALL, l3=l3)).volumes
        assert tried[-1] >= 3 * l3  # what stands for memory
        near = [volume for volume in tried if 3 * l3 // 8 <= volume <= 3 * l3 // 4]
        assert near[0] == 3 * l3 // 8 and near[-1] == 3 * l3 // 4
        assert all(5 * more <= 6 * less for less, more in pairwise(near))


def test_what_scattered_lines_cost_past_the_caches_is_measured(monkeypatch: pytest.MonkeyPatch):
    measurement = _measurement(monkeypatch, lambda plan: 16.0 if _read_by_turns(plan) > 1 else 32.0)
    found = measurement._scattered_streams(PROFILE)
    assert found.streamed_jump_ns == pytest.approx(4.0) and found.streamed_conflict_ns == 0


def test_what_lines_of_one_set_cost_past_the_caches_is_measured(monkeypatch: pytest.MonkeyPatch):
    def rate(plan: Plan) -> float:
        shared = _read_by_turns(plan) > 1 and _apart(plan) % 4096 == 0
        return 16.0 if shared else 32.0

    found = _measurement(monkeypatch, rate)._scattered_streams(PROFILE)
    assert found.streamed_jump_ns == 0 and found.streamed_conflict_ns == pytest.approx(4.0)


def test_lines_of_one_set_cost_no_more_than_the_two_ways_to_memory_that_half_written_ones_take(
    monkeypatch: pytest.MonkeyPatch,
):
    def rate(plan: Plan) -> float:
        shared = _read_by_turns(plan) > 1 and _apart(plan) % 4096 == 0
        return slow if shared else 32.0

    memory = PROFILE.memory_ns
    slow = 128 / (4 + 1.5 * memory)
    conflict = _measurement(monkeypatch, rate)._scattered_streams(PROFILE).streamed_conflict_ns
    assert conflict == pytest.approx(1.5 * memory, abs=0.002)
    slow = 1.0
    conflict = _measurement(monkeypatch, rate)._scattered_streams(PROFILE).streamed_conflict_ns
    assert conflict == pytest.approx(2 * memory, abs=0.002)


def test_what_the_way_over_a_buffer_costs_is_measured(monkeypatch: pytest.MonkeyPatch):
    seen: list[Plan] = []

    def rate(plan: Plan) -> float:
        seen.append(plan)
        more = streamed if _streams(plan) else cached
        return 128 / (4 + more) if isinstance(plan.steps[0].kernel, Staged) else 32.0

    measurement = _measurement(monkeypatch, rate)
    cached, streamed = 2.0, 0.5
    found = measurement._staging(PROFILE)
    assert (found.staging_ns, found.staging_streamed_ns) == (pytest.approx(2.0), pytest.approx(0.5))
    plans = seen[:4]
    source = np.arange(index(plans[0].src_bytes) // 4, dtype=np.uint32)
    results = [np.zeros_like(source) for _ in plans]
    for plan, result in zip(plans, results, strict=True):
        check_plan(plan)
        load(plan, detected())(source.view(np.uint8), result.view(np.uint8))
    assert all(np.array_equal(results[0], result) for result in results)
    assert np.array_equal(np.sort(results[0]), source)


def test_negative_a_way_over_a_buffer_that_is_faster_is_not_believed_to_cost_nothing(
    monkeypatch: pytest.MonkeyPatch,
):
    measurement = _measurement(
        monkeypatch, lambda plan: 40.0 if isinstance(plan.steps[0].kernel, Staged) else 32.0
    )
    found = measurement._staging(PROFILE)
    assert 0 < found.staging_ns < PROFILE.staging_ns
    assert 0 < found.staging_streamed_ns < PROFILE.staging_streamed_ns


def test_negative_where_nothing_is_streamed_no_price_of_it_is_measured(monkeypatch: pytest.MonkeyPatch):
    elsewhere = replace(SMALL, triple="aarch64-unknown-linux-gnu", cpu="generic")
    measurement = _measurement(
        monkeypatch,
        lambda plan: 16.0 if isinstance(plan.steps[0].kernel, Staged) else 32.0,
        elsewhere,
    )
    found = measurement._staging(PROFILE)
    assert found == replace(PROFILE, staging_ns=found.staging_ns) and found.staging_ns > PROFILE.staging_ns


def test_what_the_way_over_a_buffer_of_copied_lines_costs_is_measured(monkeypatch: pytest.MonkeyPatch):
    seen: list[Plan] = []

    def rate(plan: Plan) -> float:
        """The second of the tiles is the faster."""
        seen.append(plan)
        if isinstance(plan.steps[0].kernel, Staged):
            return 128 / (4 + 1.5)
        return 16.0 if len(seen) == 1 else 32.0

    machine = replace(SMALL, cpu="x86-64-v3", vector=32)
    found = _measurement(monkeypatch, rate, machine)._copied(PROFILE)
    assert found.staging_copied_ns == pytest.approx(1.5, abs=1e-3)
    assert replace(found, staging_copied_ns=PROFILE.staging_copied_ns) == PROFILE
    source = np.arange(index(seen[0].src_bytes) // 4, dtype=np.uint32)
    results = [np.zeros_like(source) for _ in seen]
    for plan, result in zip(seen, results, strict=True):
        check_plan(plan)
        load(plan, detected())(source, result)
    rows = (4096 + 64) // 4
    assert all(np.array_equal(source.reshape(rows, -1).T, x.reshape(-1, rows)) for x in results)
    tile = seen[0].steps[0].kernel
    assert isinstance(tile, Tile)
    strides = index(tile.rows.stride), index(tile.cols.stride)
    assert all(stride % 128 == 64 for stride in strides)  # odd numbers of lines


def test_negative_where_tiles_write_no_whole_lines_nothing_is_copied_first(monkeypatch: pytest.MonkeyPatch):
    narrow = replace(SMALL, cpu="x86-64-v2", vector=16)
    assert _measurement(monkeypatch, lambda plan: 16.0, narrow)._copied(PROFILE) == PROFILE


def test_negative_copied_lines_that_are_faster_are_not_believed_to_cost_nothing(
    monkeypatch: pytest.MonkeyPatch,
):
    measurement = _measurement(
        monkeypatch, lambda plan: 40.0 if isinstance(plan.steps[0].kernel, Staged) else 32.0
    )
    assert 0 < measurement._copied(PROFILE).staging_copied_ns < PROFILE.staging_copied_ns


def test_negative_scattered_lines_that_are_faster_cost_nothing(monkeypatch: pytest.MonkeyPatch):
    measurement = _measurement(monkeypatch, lambda plan: 40.0 if _read_by_turns(plan) > 1 else 32.0)
    found = measurement._scattered_streams(PROFILE)
    assert found.streamed_jump_ns == found.streamed_conflict_ns == 0


def test_what_prefetched_jumps_cost_is_measured_in_memory(monkeypatch: pytest.MonkeyPatch):
    seen: list[Plan] = []

    def rate(plan: Plan) -> float:
        seen.append(plan)
        return 16.0 if _reads_rows(plan) else 32.0

    measurement = _measurement(monkeypatch, rate)
    # 64 bytes read and 16 written: 5 ns; at the rate of a copy 2.5.
    assert measurement._prefetched_jumps(PROFILE).prefetched_jump_ns == pytest.approx(2.5)
    assert {_reads_rows(plan) for plan in seen} == {False, True}
    for plan in seen:
        check_plan(plan)
        assert plan.src_bytes + plan.dst_bytes > SMALL.l3


def test_negative_prefetched_jumps_that_are_faster_cost_nothing(monkeypatch: pytest.MonkeyPatch):
    measurement = _measurement(monkeypatch, lambda plan: 40.0 if _reads_rows(plan) else 32.0)
    assert measurement._prefetched_jumps(PROFILE).prefetched_jump_ns == 0


def test_what_rows_over_a_buffer_cost_in_memory_is_measured(monkeypatch: pytest.MonkeyPatch):
    seen: list[Plan] = []

    def rate(plan: Plan) -> float:
        seen.append(plan)
        return 16.0 if _is_staged(plan) else 32.0

    # 64 bytes read and 64 written: 8 ns; in a copy 4.
    assert _measurement(monkeypatch, rate)._scattered_staging(PROFILE).staging_scattered_ns == pytest.approx(
        4
    )
    assert {*map(_is_staged, seen)} == {False, True}
    for plan in seen:
        check_plan(plan)
        assert plan.src_bytes + plan.dst_bytes > SMALL.l3


@pytest.mark.parametrize("machine", [SMALL, replace(SMALL, may_stream=False), replace(SMALL, vector=16)])
def test_negative_rows_over_a_buffer_that_are_faster_or_that_no_tile_moves_cost_nothing(
    monkeypatch: pytest.MonkeyPatch, machine: Machine
):
    measurement = _measurement(monkeypatch, lambda plan: 40.0 if _is_staged(plan) else 32.0, machine)
    free = replace(PROFILE, staging_scattered_ns=0.0)
    assert measurement._scattered_staging(free) == free


def _is_staged(plan: Plan) -> bool:
    return isinstance(plan.steps[0].kernel, Staged)


def _reads_rows(plan: Plan) -> bool:
    """Whether lines of 64 rows are read by turns."""
    kernel = plan.steps[0].kernel
    return isinstance(kernel, Tile) and index(kernel.rows.count) == 64


@pytest.mark.parametrize("gain", [0.8, 1.0, 1.5])
def test_what_prefetches_gain_is_measured(monkeypatch: pytest.MonkeyPatch, gain: float):
    measurement = _measurement(
        monkeypatch, lambda plan: 30.0 * gain if plan.steps[0].prefetch is not None else 30.0
    )
    assert measurement._prefetch_gain(PROFILE).prefetch_gain == pytest.approx(gain)


@pytest.mark.parametrize("gain", [0.8, 1.0, 1.5])
def test_what_parts_by_turns_gain_is_measured(monkeypatch: pytest.MonkeyPatch, gain: float):
    def rate(plan: Plan) -> float:
        in_parts = any(isinstance(loop, Loop) and loop.count == 4 for loop in plan.steps[0].loops)
        if not in_parts:
            return 30.0
        if not _streams(plan):
            return 27.0
        return 30.0 * (gain if isinstance(plan.steps[0].kernel, Tile) else 1.1 if plan.conversion else 1.2)

    found = _measurement(monkeypatch, rate)._multistride_gains(PROFILE)
    assert found.multistride_tile_gain == pytest.approx(gain)
    assert found.multistride_copy_gain == pytest.approx(1.2)
    assert found.multistride_narrowing_gain == pytest.approx(1.1)
    assert found.multistride_cached_gain == pytest.approx(0.9)


def test_negative_where_nothing_is_streamed_parts_gain_nothing(monkeypatch: pytest.MonkeyPatch):
    measurement = _measurement(monkeypatch, lambda plan: 30.0, replace(SMALL, may_stream=False))
    assert measurement._multistride_gains(PROFILE) == PROFILE


def test_what_the_caches_hold_takes_no_turns_with_what_empties_them(monkeypatch: pytest.MonkeyPatch):
    def seconds(self: object, plans: Sequence[Plan], rounds: int = 0) -> list[float]:
        volumes = [index(plan.src_bytes + plan.dst_bytes) for plan in plans]
        emptied = max(volumes) > SMALL.l3
        return [volume / (10.0 if emptied else 30.0) / 1e9 for volume in volumes]

    measurement = _measurement(monkeypatch, lambda plan: 1.0)
    monkeypatch.setattr(vars(machine_profiling)["_Measurement"], "_seconds", seconds)
    found = measurement._lines(PROFILE)
    assert found.cached_ns == pytest.approx(128 / 30, abs=1e-3)
    assert found.memory_ns == pytest.approx(128 / 10, abs=1e-3)


def test_streams_that_are_faster_than_the_caches_are_believed_where_they_won_before(
    monkeypatch: pytest.MonkeyPatch,
):
    measurement = _measurement(monkeypatch, lambda plan: 40.0 if _streams(plan) else 25.0)
    found = measurement._lines(replace(PROFILE, streaming_volume_few=2 * SMALL.l2))
    assert (found.cached_ns, found.streamed_ns) == (pytest.approx(5.12), pytest.approx(3.2))


def test_negative_streams_that_lost_before_are_not_believed_to_be_faster(monkeypatch: pytest.MonkeyPatch):
    measurement = _measurement(monkeypatch, lambda plan: 40.0 if _streams(plan) else 25.0)
    before = replace(PROFILE, streaming_volume_few=8 * SMALL.l2)
    assert measurement._lines(before) == before


class _Clock:
    """A clock that goes on by a microsecond whenever it is read."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now


class _Pool:
    """Workers that have fallen asleep after half a millisecond, and take `late` seconds to wake."""

    address = 0

    def __init__(self, clock: _Clock, late: float) -> None:
        self.clock, self.late, self.last = clock, late, 0.0

    def parallel(self, *_: object) -> None:
        """A call of 100 microseconds."""
        self.clock.now += 1e-4 + (self.late if self.clock.now - self.last > 5e-4 else 0.0)
        self.last = self.clock.now


def _woken(monkeypatch: pytest.MonkeyPatch, late: float, threads: int = 2) -> MachineProfile:
    measurement = _measurement(monkeypatch, lambda plan: 30.0)
    clock = _Clock()
    monkeypatch.setattr(machine_profiling, "perf_counter", clock)
    pool = vars(machine_profiling)["thread_pool"]

    def available(most: int) -> int:
        return min(threads, most)

    def ensure(most: int) -> _Pool:
        return _Pool(clock, late)

    monkeypatch.setattr(pool, "available", available)
    monkeypatch.setattr(pool, "ensure", ensure)
    return measurement._wake(PROFILE)


def test_a_sleeping_thread_costs_what_is_copied_until_it_wakes(monkeypatch: pytest.MonkeyPatch):
    # In 2 x 20 us, at 1.5 ns for each line of 64 bytes of both sides.
    assert _woken(monkeypatch, 2e-5).wake_bytes == pytest.approx(128 * 2 * 20_000 / 1.5, rel=0.01)


def test_negative_without_a_second_cpu_nothing_is_said_of_waking(monkeypatch: pytest.MonkeyPatch):
    assert _woken(monkeypatch, 2e-5, threads=1) == PROFILE


def test_negative_a_thread_that_wakes_at_once_is_not_believed_to_cost_nothing(
    monkeypatch: pytest.MonkeyPatch,
):
    assert _woken(monkeypatch, 0.0).wake_bytes == PROFILE.wake_bytes / 8
