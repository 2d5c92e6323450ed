"""The profile of this machine, measured with kernels of our own in some three seconds at most.

Copies and two transpositions are run through the caches and past them, at volumes from a little more than L2 holds to
three times the last level: from where on the second way wins, and stays ahead, stores bypass the caches. What
of the last level is ours may be little of what is reported, as on a virtual machine, and a core may write faster past
it than into it; so nothing is derived from its size but where to stop. Copies of single lines to places that share sets
of a cache, or lie in many pages, against such as do not, give the prices of conflicts and pages; the same past the
caches, what scattered lines cost there.
Of every price the least of some rounds counts, for whatever else the machine does only adds, of volumes the median;
contenders take turns.
Lines of several sequences by turns, against those of one, say how many are followed; calls of a thread that sleeps,
against such of one that spins, how long waking takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from math import inf
from operator import index
from time import perf_counter
from typing import Any

from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.machine.machine import LINE, Machine, detected, processor_name
from layout_ir.backends.llvm.machine.profile import MachineProfile, built_in_profile
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.planner import make_plan, streams
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.llvm.runtime.compiled_plan import load
from layout_ir.backends.llvm.runtime.profiling_plans import (
    copy_in_pieces,
    copy_of,
    lines_by_turns,
    narrowed_rows,
    rows_over_buffer,
    scattered_lines,
    transpositions,
)
from layout_ir.backends.llvm.runtime.timing import Limits, Times, bytes_at_page, race
from layout_ir.dialects.kernel.plan import Plan
from layout_ir.elements.quantization import Conversion

SECONDS = 2.5
"""What a measurement may take; the part that is under way then is finished."""

WHOLE_SECONDS = 3.5
"""What all parts of one take where no code for them is kept yet (Zen 3), and some tenths more; the last ones, what many
rows by turns cost in memory and prefetch distances, are built in where there is less."""

_LARGEST = 192 << 20
"""Bytes of source and destination of the largest volume, whatever the last level holds."""

_OF_MEMORY = 3
"""The largest volume, which stands for memory, over the size of the last level. Measured on Zen 4, ns of a line through
the caches, beside nobody: of a volume of one and a half times that size 2.7 and 3.9, for much of it may stay there; of
three times 3.9 to 4.8, and copies of 50 MB take 4.3."""

_TOUCHING = 0.2
"""The part of the time that may pass until memory is ours: a page that nobody has had takes the longer, the more
layers of virtual machines have to find one. Volumes that do not fit into what there is then are left out."""

_CROSSING = 0.6
"""The part of the time that finding the volumes may take from which on streamed stores win. Where others compute on
the same CPU it took all of it, and every price stayed built in."""

_PARTS = 16
"""Parts in which it is taken."""

_SPARE = 1 << 20
"""Bytes beyond the volume, for what is moved in whole groups."""

_TIMES = 3
"""Measurements of everything, as far as there is time."""

_ROUNDS, _FEWEST = 4, 3
"""Turns of every contender, of what is in the caches twice as many, and those that it has where they take longer than
they should."""

_SHARE = 0.08
"""The part of the time that contenders may take together before turns beyond the fewest are left out."""

_GROUP = 1 << 20
"""Bytes of a part of a copy: calls, a microsecond each, are no hundredth of the time."""

_PIECES = 64
"""Lines that are written side by side where conflicts are measured."""

_MOST_DEVIATION = 8.0
"""The largest factor between a price and the built-in one; beyond it, something else was measured."""

_MOST_GAIN = 2.0
"""How many times as fast another order of the same loads and stores may be: on Zen 3 it is 1.7 at most, and while
others used the CPU 2.7 was measured."""

_WAKES, _PAUSE = 15, 0.001
"""Calls that wake a thread, and seconds after which it sleeps."""

_SEQUENCES = 2, 4, 8, 16
"""Numbers of sequences that are tried."""

_LOSS = 1.2
"""The factor by which a copy from several sequences may take longer than that of one."""

_DISTURBED = 1.5
"""The factor by which lines that meet no conflict may take longer than those of a plain copy."""

_FARTHER = 0.85
"""The part of the time with the usual prefetch distance that another one may take to be preferred: on Zen 3, where all
of them are alike, 128 and 1024 bytes, which are tried no more, both seemed 5 % faster at times."""

_AHEAD = 1.1
"""How much faster streamed stores must be to win where the last level may hold both sides: while others use it too,
they seem faster than they are when it is ours again."""


def measure_profile(seconds: float = SECONDS) -> MachineProfile:
    """What memory of this machine is like, found in about so many seconds."""
    start = perf_counter()
    measurement = _Measurement(detected(), seconds)
    found = [measurement.profile()]
    while len(found) < _TIMES and perf_counter() + (perf_counter() - start) / len(found) < start + seconds:
        found.append(measurement.profile())
    # Of each entry the one in the middle: a neighbour that came and went has spoilt one of them.
    entries = [profile.to_json() for profile in found]
    return MachineProfile(
        **{name: sorted(x[name] for x in entries)[len(entries) // 2] for name in entries[0]}
    )


class _Measurement:
    """Buffers, volumes that fit into them, and the time by which parts not yet begun are left out."""

    def __init__(self, machine: Machine, seconds: float) -> None:
        start = perf_counter()
        self.machine, self.deadline, self.patience = machine, start + seconds, _SHARE * max(seconds, 0.0)
        self.crossed = start + _CROSSING * seconds
        largest = max(min(_OF_MEMORY * machine.l3, _LARGEST), 8 * machine.l2)
        sizes = (
            2 * largest // 3 + _SPARE,
            largest // 2 + _SPARE,
        )  # a source that is converted takes two thirds
        self.buffers = _touched(sizes, 4 * machine.l2 + _SPARE, start + _TOUCHING * seconds)
        largest = min(3 * (self.buffers[0].size - _SPARE) // 2, 2 * (self.buffers[1].size - _SPARE))
        self.volumes = _volumes(machine, largest)

    def profile(self) -> MachineProfile:
        """The built-in profile with whatever there is time to measure."""
        machine = self.machine
        found = replace(
            built_in_profile(machine.l2, machine.l3, machine.cpu),
            source=f"measured on {_printable(processor_name())}",
        )
        parts: Sequence[Callable[[MachineProfile], MachineProfile]] = (
            self._streaming_volumes, self._lines, self._dispatch, self._wake, self._conflicts,
            self._scattered_streams, self._staging, self._copied, self._sequences, self._prefetch_gain,
            self._multistride_gains, self._prefetched_jumps, self._scattered_staging, self._prefetch_distance,
        )  # fmt: skip
        for part in parts:
            if perf_counter() < self.deadline:
                found = part(found)
        return found

    def _seconds(
        self, plans: Sequence[Plan], rounds: int = _ROUNDS, threads: int = 1, *, usual: bool = False
    ) -> list[float]:
        """The least time of a call of each, or the `usual` one: the median."""
        calls = [partial(load(plan, self.machine, threads), *self._addresses()) for plan in plans]
        times = self._alternating_times(calls, rounds)
        return [times.median(name) if usual else times.best(name) for name in times.rounds]

    def _alternating_times(self, calls: Sequence[Callable[[], object]], rounds: int) -> Times:
        """The times of calls that take turns, under their numbers in order."""
        limits = Limits(seconds=self.patience, fewest=min(rounds, _FEWEST), most=rounds, batch=0.001)
        return race({str(k): call for k, call in enumerate(calls)}, lambda _: inf, limits)

    def _addresses(self) -> tuple[int, int]:
        x, y = (int(buffer.ctypes.data) for buffer in self.buffers)
        return x, y

    # Lines through the caches and past them --------------------------------------------------------------------------

    def _lines(self, profile: MachineProfile) -> MachineProfile:
        cached, memory = 4 * self.machine.l2, self.volumes[-1]
        plans = [copy_of(volume // 2, streaming=s) for volume in (cached, memory) for s in (False, True)]
        # A virtual CPU that rested is slow at first.
        self._seconds(plans[:1], 3)
        # By turns, the large ones would empty the caches before each turn of the others.
        times = [*self._seconds(plans[:2], 3 * _ROUNDS), *self._seconds(plans[2:])]
        names = "cached_ns", "streamed_ns", "memory_ns", "memory_streamed_ns"
        lines = [index(plan.dst_bytes) / LINE for plan in plans]
        prices = {
            name: _clamped(1e9 * time / number, getattr(profile, name))
            for name, time, number in zip(names, times, lines, strict=True)
        }
        if prices["cached_ns"] > prices["streamed_ns"] and profile.streaming_volume_few > cached:
            return (
                profile  # at this volume streamed stores did not win before: something else used the caches
            )
        return replace(profile, **prices)

    def _streaming_volumes(self, profile: MachineProfile) -> MachineProfile:
        if not self.machine.streams:
            return profile

        def copy(volume: int, stream: bool) -> Plan:
            return copy_of(min(volume // 2, _GROUP), streaming=stream)

        moves = ElementPair(4, 4)
        transposed = self._crossover(self._transposition(moves), profile.streaming_volume)
        # Each of the others lies on one side of this one, so that few volumes are left to try.
        few = self._crossover(copy, profile.streaming_volume_few, least=transposed)
        converting = self._transposition(ElementPair.of(Conversion("f32", "bf16")))
        # Built-in ones, measured on three kinds of processors, are a half to three quarters of the other.
        least = transposed // 2
        converted = self._crossover(
            converting, profile.streaming_volume_converting, least=least, most=transposed
        )
        shared = profile.streaming_volume_shared
        if thread_pool.available(2) > 1:
            # Beyond that, others lose what this one may still gain. Measured on Zen 3 with an L3 of 32 MiB, two
            # threads, 32 MiB, through the caches and past them: nchw to nhwc 30 and 25, nhwc to nchw 27 and 41.
            most = max(3 * self.machine.l3 // 4, transposed)
            shared = self._crossover(
                self._transposition(moves), shared, threads=2, least=transposed, most=most
            )
        return replace(
            profile,
            streaming_volume=transposed,
            streaming_volume_few=max(few, transposed),
            streaming_volume_shared=max(shared, transposed),
            streaming_volume_converting=min(converted, transposed),
        )

    def _transposition(self, pair: ElementPair) -> Callable[[int, bool], Plan]:
        """A plan for an image, as part of a volume, given that and whether it streams."""
        src, dst = (Format.of(tag).bind((1, 64, 56, 56)) for tag in ("nchw", "nhwc"))

        def plan(volume: int, stream: bool) -> Plan:
            return make_plan(src, dst, pair, 0, self.machine, stream=stream, volume=volume)

        return plan

    def _crossover(
        self,
        plan: Callable[[int, bool], Plan],
        built_in: int,
        threads: int = 1,
        least: int = 0,
        most: int = 0,
    ) -> int:
        """The volume from which on streamed stores win, from `least` on and, where they win nowhere below, `most` (0:
        the largest); the built-in one where time is short or no plan streams. `plan` moves a part of a volume."""
        # Of the volumes, the largest at which they lose, and the smallest at which they win, from which on they do.
        low = sum(volume < least for volume in self.volumes) - 1
        high = sum(volume < most for volume in self.volumes[:-1]) if most else len(self.volumes) - 1
        while high - low > 1:
            if perf_counter() > self.crossed:
                return built_in
            middle = (low + high) // 2
            plans = [plan(self.volumes[middle], stream) for stream in (False, True)]
            if streams(plans[0]) or not streams(plans[1]):
                return built_in
            through, past = self._seconds_of_parts(plans, self.volumes[middle], threads)
            ahead = _AHEAD if self.volumes[middle] < self.machine.l3 else 1.0
            low, high = (low, middle) if through > ahead * past else (middle, high)
        return self.volumes[high]

    def _seconds_of_parts(self, plans: Sequence[Plan], volume: int, threads: int) -> list[float]:
        """The usual times of `volume` bytes that are moved part by part, each of which a plan moves: code for every
        volume would take longer to compile than to run, parts of many have the same.

        Not the least times: others take their part of the last level, and how much, those do not say. Measured on
        Zen 3 as one of several virtual machines, 16 MiB of nhwc to nchw, least and usual GB/s through the caches 21 and
        13, past them 39 and 30.
        """
        calls: list[Callable[[], object]] = []
        for plan in plans:
            sizes = index(plan.src_bytes), index(plan.dst_bytes)
            parts = max(volume // sum(sizes), 1)
            kernel = load(plan, self.machine, threads)
            calls.append(partial(_move_parts, kernel, self._addresses(), sizes, parts))
        times = self._alternating_times(calls, _ROUNDS + _FEWEST)
        return [times.median(name) for name in times.rounds]

    # Conflicts and pages ---------------------------------------------------------------------------------------------

    def _conflicts(self, profile: MachineProfile) -> MachineProfile:
        (l1_way, _), (l2_way, _) = self.machine.ways
        volume = 4 * self.machine.l2
        strides = l1_way, l1_way + LINE, l2_way // 2, 4 * l1_way + LINE
        plans = [scattered_lines(volume // 2, stride, _PIECES) for stride in strides]
        many = scattered_lines(volume // 2, l1_way + LINE, 4 * _PIECES)
        l1, free, l2, free_far, pages = self._seconds([*plans, many], 2 * _ROUNDS)
        lines = [index(plan.dst_bytes) / LINE for plan in (*plans, many)]
        l1, free, l2, free_far, pages = (
            1e9 * t / n for t, n in zip((l1, free, l2, free_far, pages), lines, strict=True)
        )
        if free > _DISTURBED * profile.cached_ns:
            return profile  # lines without conflicts take no longer than others: something else ran
        return replace(
            profile,
            l1_conflict_ns=_clamped(l1 - free, profile.l1_conflict_ns),
            l2_conflict_ns=_clamped(l2 - max(l1, free_far), profile.l2_conflict_ns),
            page_ns=_clamped(pages - free, profile.page_ns),
        )

    def _scattered_streams(self, profile: MachineProfile) -> MachineProfile:
        """What lines cost more that are streamed to many places by turns, than to one place after the other; and what
        more than that where these places share a set of L1."""
        if not self.machine.streams:
            return profile
        (way, _), _ = self.machine.ways
        plans = [
            scattered_lines(self._beyond_l2() // 2, stride, number, streaming=True)
            for stride, number in ((way, 1), (way + LINE, _PIECES), (way, _PIECES))
        ]
        one, apart, shared = (
            1e9 * time / (index(plan.dst_bytes) / LINE)
            for plan, time in zip(plans, self._seconds(plans, 2 * _ROUNDS), strict=True)
        )
        # A line that leaves the processor before it is whole goes to memory in two parts, not in one.
        jump, conflict = (
            round(min(max(more, 0.0), most), 3)
            for more, most in (
                (apart - one, profile.memory_ns),
                (shared - max(apart, one), 2 * profile.memory_ns),
            )
        )
        return replace(profile, streamed_jump_ns=jump, streamed_conflict_ns=conflict)

    def _staging(self, profile: MachineProfile) -> MachineProfile:
        """What a line costs more that is copied in pieces over a buffer, and not directly: through the caches and past
        them."""
        ways = [False, True] if self.machine.streams else [False]
        (way, _), _ = self.machine.ways
        plans = [
            copy_in_pieces(2 * self.machine.l2, way, over_buffer=over_buffer, streaming=streaming)
            for streaming in ways
            for over_buffer in (False, True)
        ]
        times = self._seconds(plans, 2 * _ROUNDS)
        lines = index(plans[0].dst_bytes) / LINE
        more = [
            1e9 * (staged - direct) / lines for direct, staged in zip(times[::2], times[1::2], strict=True)
        ]
        names = "staging_ns", "staging_streamed_ns"
        prices = {name: _clamped(x, getattr(profile, name)) for name, x in zip(names, more, strict=False)}
        return replace(profile, **prices)

    def _copied(self, profile: MachineProfile) -> MachineProfile:
        """What a line costs more that is transposed from a buffer of copied lines, and not directly, where lines have
        sets of their own; the profile itself where tiles write no whole lines."""
        plans = transpositions(2 * self.machine.l2, self.machine)
        if not plans:
            return profile
        *direct, copied = self._seconds(plans, 2 * _ROUNDS)
        more = 1e9 * (copied - min(direct)) / (index(plans[0].dst_bytes) / LINE)
        return replace(profile, staging_copied_ns=_clamped(more, profile.staging_copied_ns))

    def _sequences(self, profile: MachineProfile) -> MachineProfile:
        volume = self._beyond_l2()
        one, *several = self._seconds([lines_by_turns(volume // 2, k) for k in (1, *_SEQUENCES)], 2 * _ROUNDS)
        followed = takewhile(lambda pair: pair[1] <= _LOSS * one, zip(_SEQUENCES, several, strict=True))
        return replace(profile, sequences=max((number for number, _ in followed), default=1))

    def _beyond_l2(self) -> int:
        """Bytes, half of the last level at most, that L2 holds a small part of."""
        return min(self.machine.l3 // 2, 16 * self.machine.l2, self.volumes[-1] // 2)

    # Prefetches and threads ------------------------------------------------------------------------------------------

    def _prefetch_gain(self, profile: MachineProfile) -> MachineProfile:
        """The profile with `prefetch_gain`: the time without prefetches over that with them, for blocks of 8."""
        image = 64 * 56 * 56 * 4
        layouts = [
            Format.of(tag).bind((max(self.volumes[-1] // (2 * image), 1), 64, 56, 56))
            for tag in ("nchw", "nChw8c")
        ]
        built_in = replace(self.machine, measured=replace(profile, prefetch_gain=1.0))
        plan = make_plan(layouts[0], layouts[1], ElementPair(4, 4), 0, built_in, stream=True)
        without = replace(plan, steps=tuple(replace(step, prefetch=None) for step in plan.steps))
        if plan == without or not streams(plan):
            return profile
        with_them, without_them = self._seconds([plan, without])
        return replace(profile, prefetch_gain=round(_clamped_gain(without_them / with_them), 3))

    def _multistride_gains(self, profile: MachineProfile) -> MachineProfile:
        """The profile with the gains of parts by turns: the time in order over that in four parts, in memory."""
        volume = self.volumes[-1]
        image = 64 * 56 * 56 * 4
        one, blocks = (Format.of(tag) for tag in ("a", "nChw16c"))
        shape = max(volume // (2 * image), 1), 64, 56, 56
        narrowing = ElementPair.of(Conversion("f32", "bf16"))
        moves = {
            "multistride_copy_gain": (one.bind((volume // 8,)), one.bind((volume // 8,)), ElementPair(4, 4)),
            "multistride_narrowing_gain": (one.bind((volume // 6,)), one.bind((volume // 6,)), narrowing),
            "multistride_tile_gain": (blocks.bind(shape), Format.of("nchw").bind(shape), ElementPair(4, 4)),
        }
        moves["multistride_cached_gain"] = moves["multistride_copy_gain"]
        found: dict[str, float] = {}
        for name, (src, dst, pair) in moves.items():
            is_streamed = name != "multistride_cached_gain"
            plans: list[Plan] = []
            for gain in (1.0, 2.0):
                machine = replace(self.machine, measured=replace(profile, **{name: gain}))
                plans.append(make_plan(src, dst, pair, 0, machine, stream=is_streamed))
            if plans[0] != plans[1] and streams(plans[1]) == is_streamed:
                in_order, by_turns = self._seconds(plans)
                found[name] = round(_clamped_gain(in_order / by_turns), 3)
        return replace(profile, **found)

    def _prefetched_jumps(self, profile: MachineProfile) -> MachineProfile:
        """The profile with `prefetched_jump_ns`: what lines of many rows by turns cost more than those of a copy.

        Rows are narrowed to a quarter, so that it is reads that count, and of times the usual ones: where others use
        memory, too, such reads are fast at times only. Measured on Zen 3 by the hour, f32 to f32 and to i8, 0.5 to 4
        and 4 to 9 ns per line.
        """
        if not self.machine.streams:
            return profile
        volume = self.volumes[-1]
        plans = [narrowed_rows(2 * volume // 3, _PIECES), copy_of(volume // 2, streaming=True)]
        times = self._seconds(plans, usual=True)
        # Both read and write lines; a copy as many of these as of those.
        lines = [index(plan.src_bytes + plan.dst_bytes) / LINE / 2 for plan in plans]
        read = index(plans[0].src_bytes) / LINE
        jump = 1e9 * (times[0] - times[1] * lines[0] / lines[1]) / read
        return replace(profile, prefetched_jump_ns=round(min(max(jump, 0.0), profile.memory_ns), 3))

    def _scattered_staging(self, profile: MachineProfile) -> MachineProfile:
        """What lines in memory cost more than those of a streamed copy that tiles over a buffer read from many rows."""
        volume = self.volumes[-1]
        plan = rows_over_buffer(volume // 2, _PIECES, self.machine) if self.machine.streams else None
        if plan is None:
            return profile
        plans = [plan, copy_of(volume // 2, streaming=True)]
        staged, copied = (
            1e9 * time / (index(plan.dst_bytes) / LINE)
            for plan, time in zip(plans, self._seconds(plans, usual=True), strict=True)
        )
        more = round(min(max(staged - copied, 0.0), 2 * profile.memory_ns), 3)
        return replace(profile, staging_scattered_ns=more)

    def _prefetch_distance(self, profile: MachineProfile) -> MachineProfile:
        distances = 256, 512
        cols = max(self._beyond_l2() // (2048 * 4) // 16 * 16 + 16, 1040)
        rows = min(2048, (self.volumes[-1] // 2) // (4 * cols) // 16 * 16)
        layouts = [Format.of(tag).bind((rows, cols)) for tag in ("ab", "ba")]
        plans: list[Plan] = []
        for distance in distances:
            machine = replace(self.machine, measured=replace(profile, prefetch_distance=distance))
            plans.append(make_plan(layouts[0], layouts[1], ElementPair(4, 4), 0, machine, stream=False))
        if len(set(plans)) < len(plans):
            return profile
        times = self._seconds(plans)
        best = min(range(len(times)), key=times.__getitem__)
        chosen = distances[best] if times[best] < _FARTHER * times[0] else profile.prefetch_distance
        return replace(profile, prefetch_distance=chosen)

    def _dispatch(self, profile: MachineProfile) -> MachineProfile:
        """The volume from which on two threads are faster than one; the built-in one where there is no second CPU."""
        if thread_pool.available(2) < 2:
            return profile
        x, y = self.buffers  # not their addresses, with which a call takes 3 us more than the copy
        for shift in range(14, 18):
            plan = copy_of(1 << shift, streaming=False)
            calls = {str(threads): partial(load(plan, self.machine, threads), x, y) for threads in (1, 2)}
            limits = Limits(seconds=inf, fewest=9, most=9, batch=0.0005)
            times = race(calls, lambda _: inf, limits)
            if times.median("2") < 0.9 * times.median("1"):
                return replace(profile, dispatch_bytes=1 << shift)
        return profile

    def _wake(self, profile: MachineProfile) -> MachineProfile:
        """What a thread copies until a sleeping one has begun: half as long as a call of two then takes longer."""
        if thread_pool.available(2) < 2:
            return profile
        size = 4 * self.machine.l2
        address = load(copy_of(size, streaming=False), self.machine, 2).address
        x, y = (int(buffer.ctypes.data) for buffer in self.buffers)
        pool = thread_pool.ensure(2)
        asleep: list[float] = []
        awake: list[float] = []
        for _ in range(_WAKES):
            start = perf_counter()
            while perf_counter() < start + _PAUSE:
                pass  # workers fall asleep, but this thread does not
            for times in (asleep, awake):
                start = perf_counter()
                pool.parallel(address, x, y, 2)
                times.append(perf_counter() - start)
        late = 2e9 * max(min(asleep) - min(awake), 0.0)
        return replace(
            profile, wake_bytes=round(_clamped(2 * LINE * late / profile.cached_ns, profile.wake_bytes))
        )


def _move_parts(
    kernel: Callable[[int, int], None], addresses: tuple[int, int], sizes: tuple[int, int], parts: int
) -> None:
    """So many calls, each of which reads and writes `sizes` bytes behind those of the one before."""
    for part in range(parts):
        kernel(*(address + part * size for address, size in zip(addresses, sizes, strict=True)))


def _volumes(machine: Machine, largest: int) -> list[int]:
    """Bytes of source and destination that are tried, from what L2 does not hold up to `largest`.

    Closely around half of the last level, for whatever lies between two of them goes through the caches. Measured on
    Zen 3 with an L3 of 32 MiB, where 12 MiB are faster through the caches and 14 past them, GB/s of 15 MiB of bytes
    from nhwc to nchw: 9 and 35.
    """
    steps = [machine.l2 * k << shift for shift in range(40) for k in (2, 3)]
    parts = [machine.l3 * k // 16 for k in (4, 6, 7, 8, 9, 10, 12, 16, 24)]
    least = 3 * machine.l2 // 2
    return sorted({least, *(volume for volume in (*steps, *parts) if least < volume < largest), largest})


def _touched(sizes: Sequence[int], least: int, end: float) -> list[NDArray[Any]]:
    """Buffers of these sizes whose pages are there, or after `end` of the same part of each, at least of `least` bytes.

    Pages are there once they are written: those that were never share one of zeros, which is in the caches.
    """
    buffers = [bytes_at_page(size) for size in sizes]
    for part in range(1, _PARTS + 1):
        for buffer in buffers:
            buffer[buffer.size * (part - 1) // _PARTS : buffer.size * part // _PARTS] = 1
        found = [buffer[: buffer.size * part // _PARTS] for buffer in buffers]
        if perf_counter() > end and min(buffer.size for buffer in found) >= least:
            return found
    return buffers


def _clamped(measured: float, built_in: float) -> float:
    return round(min(max(measured, built_in / _MOST_DEVIATION), built_in * _MOST_DEVIATION), 3)


def _clamped_gain(measured: float) -> float:
    return min(max(measured, 1 / _MOST_GAIN), _MOST_GAIN)


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else " " for c in name)[:100]
