"""A profile is a value whose entries are positive and finite, and which JSON brings back as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.machine.profile import FARTHEST_PREFETCH, MachineProfile, built_in_profile
from layout_ir.dialects.kernel.micro_kernel_verifier import FARTHEST
from layout_ir.errors import LayoutError

PROFILE = built_in_profile(1 << 20, 32 << 20)


def test_json_brings_a_profile_back():
    measured = replace(PROFILE, source="measured on a processor", page_ns=0.25)
    assert MachineProfile.from_json(json.loads(json.dumps(measured.to_json()))) == measured


def test_larger_caches_keep_larger_volumes():
    larger = built_in_profile(1 << 20, 64 << 20)
    assert larger.streaming_volume > PROFILE.streaming_volume
    assert (
        PROFILE.streaming_volume_converting
        < PROFILE.streaming_volume
        < PROFILE.streaming_volume_few
        < 32 << 20
    )


def test_a_kind_of_processor_has_a_profile_of_its_own():
    caches = 2 << 20, 260 << 20
    known = built_in_profile(*caches, "emeraldrapids")
    assert known == built_in_profile(*caches, "sapphirerapids")
    assert known.streaming_volume < built_in_profile(*caches).streaming_volume
    machine = Machine("x86_64-unknown-linux-gnu", "emeraldrapids", "", 64, 48 << 10, *caches)
    assert machine.profile == known


def test_zen_3_streams_slowly_to_places_that_share_a_set_and_from_smaller_volumes_on():
    known, other = (built_in_profile(512 << 10, 32 << 20, cpu) for cpu in ("znver3", "x86-64-v3"))
    assert known.streamed_conflict_ns > other.streamed_conflict_ns == 0
    assert known.multistride_narrowing_gain > other.multistride_narrowing_gain == 1
    assert known.streaming_volume < other.streaming_volume
    assert known.streaming_volume_converting <= known.streaming_volume <= known.streaming_volume_few
    assert built_in_profile(512 << 10, 64 << 20, "znver3").streaming_volume == 2 * known.streaming_volume


def test_prefetches_run_as_far_ahead_as_a_plan_may_say():
    assert replace(PROFILE, prefetch_distance=FARTHEST).prefetch_distance == FARTHEST == FARTHEST_PREFETCH


def test_negative_other_processors_go_by_their_caches():
    assert built_in_profile(1 << 20, 32 << 20, "znver4") == PROFILE


@pytest.mark.parametrize(
    "name, value",
    [
        ("cached_ns", float("nan")), ("cached_ns", float("inf")), ("memory_ns", -1.0), ("memory_ns", "1"),
        ("page_ns", 1e9), ("sequences", 0), ("sequences", 2.5), ("sequences", True), ("streaming_volume", 1 << 50),
        ("prefetch_distance", None), ("prefetch_distance", FARTHEST_PREFETCH + 1),
        ("source", 3), ("source", "two\nlines"), ("source", "x" * 1000),
    ],
)  # fmt: skip
def test_negative_entries_that_no_machine_has(name: str, value: Any):
    with pytest.raises(LayoutError, match=name):
        MachineProfile.from_json({**PROFILE.to_json(), name: value})


@pytest.mark.parametrize("data", [None, [], 3, {}, {**PROFILE.to_json(), "more": 1}])
def test_negative_what_is_no_profile(data: Any):
    with pytest.raises(LayoutError, match=r"expected an object|entries differ"):
        MachineProfile.from_json(data)


def test_a_machine_has_what_was_measured_or_what_its_caches_let_expect():
    machine = Machine("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64, 32 << 10, 1 << 20, 32 << 20)
    assert machine.profile == PROFILE
    measured = replace(machine, measured=replace(PROFILE, source="measured"))
    assert measured.profile.source == "measured"
    # Compiled code is remembered by the text of its machine: of a profile it knows by the plan alone.
    assert str(measured) == str(machine)


def test_ways_follow_from_size_and_associativity():
    machine = Machine(
        "x86_64-unknown-linux-gnu", "x86-64-v4", "", 64, 48 << 10, 2 << 20, l1_ways=12, l2_ways=16
    )
    assert machine.ways == ((4096, 12), (128 << 10, 16))
