"""What the planner knows about a machine beyond registers and sizes of caches, as one value.

Each entry is a fact about how memory behaves, in bytes or in nanoseconds per line (64 bytes read and 64 written). The
built-in profile follows from the sizes of the caches; what scales it was measured on Zen 4 with 1 MiB of L2 and 32 MiB
of L3, and the numbers beside the entries are from there; for Sapphire and Emerald Rapids there is one of their own. A
profile that was measured on the machine itself takes its place (`runtime/machine_profiling.py`). Profiles decide which
of several plans is taken, never what a plan does: any profile, whatever is in it, gives code that moves the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, cast

from layout_ir.errors import LayoutError

BUILT_IN = "built in"

_LARGEST_BYTES = 1 << 40
FARTHEST_PREFETCH = 1 << 32
"""Bytes by which prefetches run ahead at most: as far as a plan may say."""
_LARGEST_NS = 1e6


@dataclass(frozen=True, slots=True)
class MachineProfile:
    """Facts about the memory of one machine. Raises LayoutError for one that is no positive, finite number."""

    source: str
    """Where the facts are from, for people: "built in", or on what they were measured."""
    streaming_volume: int
    """Bytes of source and destination from which on stores that bypass the caches pay, for transpositions and whatever
    else jumps between many sequences (nchw to nhwc, 16 MiB), on one thread."""
    streaming_volume_few: int
    """The same for few sequences, as of copies (24 MiB)."""
    streaming_volume_shared: int
    """The same where several threads share the work, in however many sequences (24 MiB)."""
    streaming_volume_converting: int
    """The same for transpositions that convert their elements (8 MiB)."""
    cached_ns: float
    """Nanoseconds to copy a line through the caches, where these hold it (85 GB/s of both sides)."""
    streamed_ns: float
    """Nanoseconds to copy a line past the caches where the source is in the last of them (54 GB/s)."""
    memory_ns: float
    """Nanoseconds to copy a line through the caches, source and destination in memory (29 GB/s)."""
    memory_streamed_ns: float
    """Nanoseconds to copy a line past the caches, source and destination in memory (38 GB/s)."""
    l1_conflict_ns: float
    """Nanoseconds more per line where the lines between two neighbours overfill their sets of L1
    (64 places 4096 bytes apart, 2.9 ns, and 4160 bytes apart, 1.6 ns)."""
    l2_conflict_ns: float
    """Nanoseconds more per line where they overfill their sets of L2 too (128 KiB apart)."""
    streamed_jump_ns: float
    """Nanoseconds more per line that is streamed elsewhere than behind the one before, to 64 places by turns whose
    lines have sets of L1 of their own (0; on Emerald Rapids 1.7)."""
    streamed_conflict_ns: float
    """Nanoseconds more than that where the 64 places share a set of L1 (0; on Zen 3 8: a line takes 11 ns with places
    4096 bytes apart, 3.1 with places 4160 bytes apart, as it does behind the one before)."""
    staging_ns: float
    """Nanoseconds more per line that is written to a buffer in L1 and copied from there, through the caches (0.4; on
    Zen 3 1.2)."""
    staging_streamed_ns: float
    """The same past the caches, where it takes a part of the time in which lines wait anyway (0.6; on Zen 3 0.4)."""
    staging_copied_ns: float
    """Nanoseconds more per line that is transposed from a buffer in L1, to which lines of the source are copied,
    through the caches (as `staging_ns`, where it was not measured; on Zen 3 0.7)."""
    staging_scattered_ns: float
    """Nanoseconds more per line in memory with which a buffer that is streamed is filled from 64 rows by turns (1.9; on
    Emerald Rapids 0; on Zen 3, where it was not measured, as `staging_copied_ns`)."""
    page_ns: float
    """Nanoseconds more per line where more pages lie between two neighbours than the first TLB has entries."""
    sequences: int
    """Sequences that are read side by side, a line of each at a time, about as fast as one (8; 16 take a quarter
    longer, and so do two that are written)."""
    prefetch_gain: float
    """How many times as fast it makes tiles that read parts of lines, from rows that the processor follows, to prefetch
    the next iteration as well (1; on Emerald Rapids 0.9)."""
    multistride_copy_gain: float
    """How many times as fast it makes copies past the caches, of a source in memory, to read four parts of it by turns
    (1, where it was not measured; on Zen 3 1.15)."""
    multistride_narrowing_gain: float
    """The same for conversions in order to elements of half as many bytes (on Zen 3 1.7)."""
    multistride_tile_gain: float
    """The same for tiles that stream to 16 places what they read in order (on Zen 3 1.5)."""
    multistride_cached_gain: float
    """The same for copies and conversions through the caches, of what these do not hold (1; on Zen 3, bf16 to f32,
    1.5)."""
    prefetched_jump_ns: float
    """Nanoseconds more per line in memory that is read from one of 64 rows by turns, and prefetched, than in a copy
    past the caches (0; on Zen 3 5)."""
    prefetch_distance: int
    """Bytes by which prefetches run ahead in rows that are read as whole lines (256: 27 to 35 GB/s for 4096 x 4096)."""
    dispatch_bytes: int
    """Bytes of source and destination per thread from which on handing a part to a spinning thread pays (80 KiB)."""
    wake_bytes: int
    """The same for a sleeping thread, whose waking takes up to 50 us (2 MiB)."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "source":
                if not isinstance(value, str) or not value.isprintable() or len(value) > 200:
                    raise LayoutError("source is no line of text")
                continue
            whole = field.type == "int"
            kind, most = ((int,), _LARGEST_BYTES) if whole else ((int, float), _LARGEST_NS)
            if field.name == "prefetch_distance":
                most = FARTHEST_PREFETCH
            if isinstance(value, bool) or not isinstance(value, kind) or not math.isfinite(value):
                raise LayoutError(f"{field.name} = {value!r} is no {'whole ' if whole else ''}number")
            if not (whole <= value <= most):
                raise LayoutError(f"{field.name} = {value!r} is not between {int(whole)} and {most:g}")

    def to_json(self) -> dict[str, Any]:
        """The facts by name, as JSON has them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @staticmethod
    def from_json(data: Any) -> MachineProfile:
        """The profile that `to_json` wrote. Raises LayoutError, saying which entry is wrong."""
        if not isinstance(data, dict):
            raise LayoutError(f"expected an object, found {type(data).__name__}")
        entries = cast("dict[str, Any]", data)
        names = {field.name for field in fields(MachineProfile)}
        if set(entries) != names:
            raise LayoutError(
                f"entries differ from those expected: {', '.join(sorted(names ^ set(entries))[:5])}"
            )
        return MachineProfile(**entries)


_GOLDEN_COVE = ("sapphirerapids", "emeraldrapids")
"""Processors, as LLVM names them, whose cores write no faster into the last level than past it."""

_ZEN3 = "znver3"
"""The processor, as LLVM names it, that streams slowly to places which share a set of L1."""


@lru_cache(maxsize=64)
def built_in_profile(l2: int, l3: int, cpu: str = "") -> MachineProfile:
    """The profile of a machine of which only its kind, as LLVM names it, and the bytes of its caches are known."""
    profile = _by_caches(l2, l3)
    if cpu == _ZEN3:
        return _of_zen3(profile, l2, l3)
    if cpu not in _GOLDEN_COVE:
        return profile
    # Measured on Emerald Rapids with 2 MiB of L2 and 260 MiB of L3, as one of several virtual machines.
    return replace(
        profile,
        streaming_volume=2 * l2,
        streaming_volume_few=2 * l2,
        streaming_volume_shared=2 * l2,
        streaming_volume_converting=3 * l2 // 2,
        cached_ns=5.4,
        streamed_ns=3.9,
        memory_ns=9.5,
        memory_streamed_ns=6.3,
        l1_conflict_ns=0.2,
        l2_conflict_ns=0.2,
        streamed_jump_ns=1.9,
        staging_ns=1.3,
        staging_streamed_ns=1.0,
        staging_copied_ns=1.3,
        staging_scattered_ns=0.0,
        page_ns=0.1,
        sequences=16,
        prefetch_gain=0.94,
    )


def _of_zen3(profile: MachineProfile, l2: int, l3: int) -> MachineProfile:
    """`profile` with what was measured on Zen 3 with 512 KiB of L2 and 32 MiB of L3, in a virtual machine."""
    alone, few = max(4 * l2, 3 * l3 // 8), max(6 * l2, 3 * l3 // 8)
    return replace(
        profile,
        streaming_volume=alone,
        streaming_volume_few=few,
        streaming_volume_converting=2 * alone // 3,
        cached_ns=2.6,
        streamed_ns=3.2,
        memory_ns=7.5,
        memory_streamed_ns=5.0,
        l1_conflict_ns=1.5,
        l2_conflict_ns=0.4,
        streamed_conflict_ns=8.0,
        staging_ns=1.2,
        staging_streamed_ns=0.4,
        staging_copied_ns=0.7,
        staging_scattered_ns=0.7,
        page_ns=0.03,
        sequences=16,
        prefetch_gain=0.9,
        multistride_copy_gain=1.15,
        multistride_narrowing_gain=1.7,
        multistride_tile_gain=1.5,
        multistride_cached_gain=1.5,
        prefetched_jump_ns=5.0,
    )


def _by_caches(l2: int, l3: int) -> MachineProfile:
    """What follows from the sizes of the caches; prices are those of Zen 4."""
    # Half of a last level that others use too, and three quarters of it.
    alone, few = max(4 * l2, l3 // 2), max(6 * l2, 3 * l3 // 4)
    return MachineProfile(
        source=BUILT_IN,
        streaming_volume=alone,
        streaming_volume_few=few,
        streaming_volume_shared=few,
        streaming_volume_converting=alone // 2,
        cached_ns=1.5,
        streamed_ns=2.4,
        memory_ns=4.4,
        memory_streamed_ns=3.4,
        l1_conflict_ns=1.3,
        l2_conflict_ns=0.8,
        streamed_jump_ns=0.0,
        streamed_conflict_ns=0.0,
        staging_ns=0.4,
        staging_streamed_ns=0.6,
        staging_copied_ns=0.4,
        staging_scattered_ns=1.9,
        page_ns=0.2,
        sequences=8,
        prefetch_gain=1.0,
        multistride_copy_gain=1.0,
        multistride_narrowing_gain=1.0,
        multistride_tile_gain=1.0,
        multistride_cached_gain=1.0,
        prefetched_jump_ns=0.0,
        prefetch_distance=256,
        dispatch_bytes=80 << 10,
        wake_bytes=2 << 20,
    )
