"""What a step is expected to cost: how its loops walk through both sides, and what the profile says of that.

A step is looked at from inside out, once for each side. First come bytes that lie together: a *piece*. Around it are
loops that jump: before the neighbour of a piece has its turn, `jumps` other pieces have had theirs, `stride` bytes
apart. Between two neighbours nothing of a cache line, of a prefetched line or of a translated page may be lost, or it
is paid for again:

    rows of 4096 bytes, 64 bytes of each of 64 rows at a time: a piece of 64 bytes, 64 jumps of 4096

    L1 of 32 KiB, 8 ways    lines 4096 bytes apart share one set, which holds 8 of the 64: a conflict
    L2 of 1 MiB, 8 ways     32 sets take them all: none
    TLB                     64 pages are as many as it has entries: none

A long piece pays once for all of its lines, a piece of less than a line once for each part of the line. To this come
the lines themselves, through the caches or past them, in the caches or in memory. Units are nanoseconds; what counts is
which of two plans has more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, log, prod
from operator import index
from typing import NamedTuple

from layout_ir.backends.llvm.machine.machine import LINE, PAGE, Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.nontemporal import streaming_limit, streaming_volume
from layout_ir.dialects.kernel.plan import (
    Copy,
    Elements,
    Fill,
    Interleave,
    Kernel,
    Loop,
    PaddedCopy,
    Staged,
    Step,
    TableLoop,
    Tile,
)

_WRITES_IN_FLIGHT, _READS_IN_FLIGHT = 64, 32
"""Lines that are on their way at a time: so many must find a place, even where none is asked for again."""

_SCATTERED = 64
"""Places that are far too many to be followed: prices of a profile for what jumps are those of so many."""

_READS = 0.5
"""The part of the cost of a conflict of writes that one of reads of whole lines has: only prefetched lines are lost."""

_READ_AT_ONCE = 32
"""Places that may be read by turns, a part of a line of each, without losing one: their loads are under way at once."""

_UNFOLLOWED = 0.8
"""The part of its cost by which a line in memory costs more where reads or writes jump before they have gone through a
page, so that the processor cannot follow them. Measured on Zen 4, GB/s of f32 in blocks of 8 channels, 24 to 36 MiB: 28
where both sides are gone through in order or in four sequences, 13 to 18 in all other orders, with pieces of 32 bytes
and of 1 KiB alike; past the caches, where only reads jump, 40 and 16 to 26."""

_FOLLOWED, _FOLLOWED_STRIDE = 0.25, PAGE // 8
"""The part of the cost of a conflict that is left, for a read of a part of a line, where the processor follows the
reads, and the stride up to which it does: it does not follow from page to page. Measured on Zen 4, f32 to blocks of 8
channels, GB/s of half lines read one block of channels after the other, the rest of each line in the next turn: 53 with
a stride of 256 bytes, 46 with 512, 25 with 2048, 17 with 4096."""

_GAP = 1 / 8
"""The part of a piece up to which a gap behind it does not stop a processor that follows reads. Measured on Zen 3, 2048
x 1000 of f32 to blocks of 64 columns, past the caches, GB/s block by block and along rows of 4000 bytes, of which 3840
are read, 12 and 18; but nhwc with 64 channels to nChw16c, in pieces of 64 bytes that are 256 apart, took 1.4 to 1.9
times as long as with its lines in their order."""

_BESIDE = 0.5
"""The part of a set that begun lines may take without loss: the other side has lines there, too. Measured on Zen 4,
512 KiB of f32 from rows of 2 KiB to blocks of 8 channels (cdba to ABcd8b8a), eight half lines by turns: 52 GB/s where
they share a set of eight ways, 77 where they do not, and 25 where 128 of them are read."""

_JUMP = 0.1
"""What a jump that meets no conflict costs, as a part of a line through the caches: a stream begins anew. Parts of a
line that is still there begin none: measured on Zen 3, 8 MiB of bytes from nchw to nhwc with 64 channels, ns per line
read as four parts and as one, over a buffer, 2.4 and 2.8."""

_WRITTEN_SEQUENCES = 4
"""Sequences that are written side by side as one is, at most: whoever writes combines few lines at a time. Measured on
Zen 4, 66 MiB of nhwc to nChw16c with 64 channels, past the caches: 48 GB/s to four sequences by turns, 25 to each of
them in its turn."""

_STREAMED_CONFLICT = 0.4
"""What a conflict in L1 costs a store past the caches, as a part of what it costs one through them."""

_UNCROWDED = 8 * LINE
"""Bytes of a piece from which on streams pay nothing for the sets of their places. Measured on Zen 3, 8 MiB, copies in
pieces of 64, 128, 256, 512 and 1024 bytes to 64 places in one set, ns per line: 10.3, 7.3, 4.7, 2.9 and 2.9."""

_FEW_SETS, _UNNOTICED, _SPREAD = 4, 1.8, 0.25
"""Sets of L1 from which on conflicts of streamed lines become rarer, places in each from which on they count, and how
much rarer they are than the number of sets says: 32 sets have none."""

_BESIDE_MEMORY = 0.5
"""The part of the time of a streamed staging buffer that is left where lines are in memory: meanwhile the next ones
come. Measured on Zen 3, blocks of 8 channels to planes of f32, ns per line more than in tiles: in memory 0.1."""

_TLB_ENTRIES = 64
"""Pages that the first TLB knows, on the processors of the last ten years: 64 to 96."""

_IDLE = 0.97
"""The gain by prefetches below which they are left out where the processor follows reads; nearer to 1 it is noise."""

Walk = list[tuple[int, int]]
"""(count, stride) of loops, the innermost first."""


class Side(NamedTuple):
    """How one side of a step is walked through."""

    piece: int
    """Bytes that lie together and are read or written one behind the other."""
    stride: int
    """Bytes from one piece to the next, 0 where there is only one."""
    jumps: int
    """Pieces between two neighbours."""


def steps_cost(
    steps: Sequence[Step], volume: int, pair: ElementPair, machine: Machine, threads: int = 1
) -> float:
    """Nanoseconds that `steps` are expected to take, of a plan that reads and writes `volume` bytes.

    No size is symbolic.
    """
    return sum(_step_cost(step, volume, pair, machine, threads) for step in steps)


def _step_cost(step: Step, volume: int, pair: ElementPair, machine: Machine, threads: int) -> float:
    profile = machine.profile
    if isinstance(step.kernel, Fill):
        return 0.0  # the same in all plans
    reads, writes = _walks(step, pair)
    read = _followed_side(reads, machine)
    written = _side(writes, min(profile.sequences, _WRITTEN_SEQUENCES), machine)
    work, *then = (*step.kernel.steps[:1], *step.kernel.then) if isinstance(step.kernel, Staged) else (step,)
    limit = index(streaming_limit([work, *then], pair, machine, threads))
    if all(_side(x, 1, machine).piece >= PAGE for x in (reads, writes)):
        limit = max(limit, streaming_volume(machine, threads, few_streams=True))
    streaming, in_memory = step.kernel.streaming, volume > limit
    if streaming:
        line = profile.memory_streamed_ns if in_memory else profile.streamed_ns
    else:
        line = profile.memory_ns if in_memory else _cached_line(volume, limit, machine)
    hidden = max(line - profile.streamed_ns, 0.0)
    staging = _staging_cost(step.kernel, machine, in_memory=in_memory)
    prefetched = _prefetches(step, work.kernel, read, machine)
    # Each load of a block of a tile has a row of its own, which the processor follows where the next block lies behind
    # it. Measured on Zen 3, f32 from nchw to blocks of 32, GB/s along 16 rows and down all 32 of them: 28 and 12.
    high = index(work.kernel.block("rows")) if isinstance(work.kernel, Tile) else 1
    followed = max(profile.sequences, high)
    ordered = _side(reads, followed, machine, held=False, total=True, gap=_GAP)
    jumping_reads = ordered.jumps > followed and ordered.piece < PAGE
    # A buffer is emptied to all of its places at once. Measured on Zen 3, 147 MiB of f32 with 64 channels from nhwc to
    # nchw, GB/s in tiles past the caches and from a buffer through them 10.1 and 6.2.
    jumping_writes = not streaming and _followed_side(writes, machine, total=bool(then)).piece < PAGE
    if in_memory and (jumping_writes or (jumping_reads and not prefetched)):
        # Of what the last level does not quite hold a part is there. Measured on Zen 3, 16 MiB of f32 from rows of 8128
        # bytes to blocks of 8 channels, past the caches, ns per line read from 1024 rows by turns 2.7, of a copy 3.0.
        line *= 1 + _UNFOLLOWED * min(volume / limit - 1, 1.0)
    held = max(limit, machine.l3 // 2)
    beyond = min(max(volume / held - 1, 0.0), 1.0)
    is_across = _lies_across(work.kernel)
    if is_across and not prefetched and not jumping_reads:
        line *= 1 + _UNFOLLOWED * beyond
    lines_read = _volume(reads) / LINE / _overlap(work.kernel)
    lines_written = _volume(writes) / LINE / _overlap(step.kernel)
    # Each line that is read brings its neighbour, and the other side has as many.
    again = line if 4 * LINE * read.jumps > limit else 0.0
    # Lines past the caches go one by one, however long their piece is.
    at_once = _WRITES_IN_FLIGHT if streaming else _pieces_in_flight(_WRITES_IN_FLIGHT, written.piece)
    waiting = _jump_cost(written, machine, at_once, line, streams=streaming)
    if streaming:
        conflicts = _conflicts_of_streams(writes, machine)
        # Meanwhile the next lines come. Measured on Zen 3, ns per line more to 8, 16, 32 and 64 places in one set, from
        # the last level 4.7, 5.3, 6.2 and 8.7, from memory 2.6, 2.5, 4 and 6.4; in pieces of 256 bytes 1.3 from both.
        waiting += max(min(conflicts, hidden), conflicts - hidden)
        # What is streamed twice goes to memory twice.
        line, waiting = (_overlap(step.kernel) * x for x in (line, waiting))
    waiting *= lines_written
    # What a tile reads of its rows, and sequences that are read side by side, come by turns.
    piece = _side(reads, 1, machine).piece if isinstance(work.kernel, Copy) else LINE
    at_once = _pieces_in_flight(_READS_IN_FLIGHT, piece)
    if prefetched and step.prefetch is None:  # which would ask for the source as it lies
        # Loads and stores wait at the same time.
        unfollowed = 1.0 if is_across else _unfollowed(reads, machine)
        prefetching = beyond * profile.prefetched_jump_ns * unfollowed
        waiting = max(waiting, prefetching * lines_read)
    return (
        (line + staging) * (lines_read + lines_written) / 2
        + _read_cost(read, machine, at_once, again, prefetched=prefetched) * lines_read
        + waiting
    )


def _lies_across(kernel: Kernel) -> bool:
    """Whether a tile reads an interval, but its lines in another order than they lie in, or parts of them by turns:
    rows one behind the other, down which several blocks go.

    A processor does not fetch ahead then. Measured on Zen 3, 64 MiB of f32 in rows of 128 to 1024 bytes, past the
    caches, ns per line: without prefetches 12, with prefetches in every row 10 to 15, with the next rows prefetched as
    they lie 6 to 7; of bf16 in rows of 64 bytes 11, without prefetches, and 6.
    """
    if not isinstance(kernel, Tile):
        return False
    row = index(kernel.cols.count) * kernel.width
    is_interval = index(kernel.rows.stride) == row < PAGE
    is_cut = index(kernel.rows.count) > index(kernel.block("rows")) > 1
    return is_interval and is_cut and (row > LINE or (row == LINE and kernel.width < 4))


def _pieces_in_flight(lines: int, piece: int) -> int:
    """Pieces that are on their way at a time where `lines` are: of a long one several lines, each in its own set."""
    return max(lines * LINE // max(piece, LINE), 1)


def _cached_line(volume: int, limit: int, machine: Machine) -> float:
    """Nanoseconds of a line through the caches, of a volume up to `limit`, from which on streams win.

    There such a line takes as long as one past the caches, for that is what the limit says; at four times L2, where the
    price of the profile is measured, it takes that. In between it grows with what others take of the last level.
    """
    profile, measured = machine.profile, 4 * machine.l2
    grown = min(max(volume - measured, 0) / max(limit - measured, 1), 1.0)
    return profile.cached_ns + grown * max(profile.streamed_ns - profile.cached_ns, 0.0)


def _staging_cost(kernel: Kernel, machine: Machine, *, in_memory: bool) -> float:
    """Nanoseconds per line that the way over a buffer adds, of a kernel that has one.

    Lines that are copied to a buffer from memory leave no time in which stores are under way: no part of the price is
    saved there. Measured on Zen 3, 128 MiB of bytes, 128 channels from nchw to nhwc, GB/s in tiles and so: 5.2 and 4.4.
    """
    if not isinstance(kernel, Staged):
        return 0.0
    profile = machine.profile
    if kernel.streaming:
        return profile.staging_streamed_ns * (_BESIDE_MEMORY if in_memory else 1.0)
    copied = kernel.then and isinstance(kernel.steps[0].kernel, Copy) and not in_memory
    return profile.staging_copied_ns if copied else profile.staging_ns


def _read_cost(side: Side, machine: Machine, at_once: int, again: float, *, prefetched: bool) -> float:
    """Nanoseconds per line that is read, `at_once` pieces at a time, in addition to the line itself.

    A prefetched line comes in time, but once only: a line that is read in parts costs `again` for each further part.
    """
    cost = _jump_cost(side, machine, at_once, machine.profile.cached_ns)
    if side.piece < LINE:
        followed = prefetched or side.stride <= _FOLLOWED_STRIDE
        return cost * (_FOLLOWED if followed else 1) + again * (LINE / side.piece - 1)
    return 0.0 if prefetched else _READS * cost


def _overlap(kernel: Kernel) -> float:
    """The elements that a tile moves over those that there are: its last blocks are moved back, over others."""
    if not isinstance(kernel, Tile):
        return 1.0
    result = 1.0
    for axis, extent in (("rows", kernel.rows), ("cols", kernel.cols)):
        count, block = index(extent.count), index(kernel.block(axis))
        result *= -(-count // block) * block / count
    return result


def _prefetches(step: Step, kernel: Kernel, read: Side, machine: Machine) -> bool:
    """Whether the source, read as `read`, is asked for in time, wherever it lies, and still there when it is read.

    What a tile asks for along its rows has its turn after as many pieces of all the other rows, which L2 must hold
    meanwhile, beside what is written. Measured on Zen 3 with 512 KiB of L2, f32, 256 bytes ahead: 1008 x 512 along 16
    rows 44 GB/s, down all of them 29, without prefetches 26; 130 x 4096, whose rows have 4 sets of L2, 20, 14 and 13.
    """
    if step.prefetch is not None:
        return True
    if not isinstance(kernel, Tile) or not kernel.prefetch_distance:
        return False
    distance, stride = index(kernel.prefetch_distance), index(kernel.rows.stride)
    if distance >= stride:  # in another row, which is not one of those that are read with it
        return distance >= index(kernel.block("rows")) * stride
    return 4 * distance * read.jumps <= machine.l2 and read.jumps <= 2 * _held(read.stride, machine.ways[1])


def _jump_cost(side: Side, machine: Machine, in_flight: int, line: float, *, streams: bool = False) -> float:
    """Nanoseconds per line that jumps add to the line itself; parts of a line that L2 has lost cost that of `line`."""
    profile = machine.profile
    if side.jumps == 1:
        return 0.0
    l1, l2 = (_lost(side, ways, in_flight) for ways in machine.ways)
    cost = l1 * profile.l1_conflict_ns * (_STREAMED_CONFLICT if streams else 1)
    if streams:
        cost += profile.streamed_jump_ns * _scattered(side.jumps)
        if l1 and side.jumps > _held(side.stride, machine.ways[1]):
            cost += profile.l1_conflict_ns
    else:
        cost += l2 * profile.l2_conflict_ns
        if side.piece < LINE:
            cost += l2 * line * (1 - side.piece / LINE)  # the rest of a line that is gone by now
    if side.stride >= PAGE and side.jumps > _TLB_ENTRIES:
        cost += profile.page_ns
    if streams and side.piece < LINE:
        cost += profile.memory_ns  # a line that is not written whole is read first
    return cost * LINE / side.piece + _JUMP * profile.cached_ns * LINE / max(side.piece, LINE)


def _lost(side: Side, ways: tuple[int, int], in_flight: int) -> float:
    """The part of the lines that a cache with these `Machine.ways` has lost when their neighbours have their turns.

    Whole lines must find a place while they are on their way: of those, as many are lost as there is no place for; all
    that the price of a profile counts where 64 are. Measured on Zen 3, f32 in the last level, ns per line more than 64
    bytes farther apart: T 1024 x 512, which writes to 16 places of one set, or 512 of them, by turns 0.5 and 1.8; lines
    copied to 16 and to 64 places 1.2 and 1.5; of 1, 2, 4 and 8 lines to 64 places of one set 1.2, 0.5, 0.1 and 0. Begun
    ones must stay until they are whole, beside what else comes into their sets meanwhile: where they take all of a set,
    some do not.
    """
    held = _held(side.stride, ways)
    if side.piece >= LINE:
        lost = _without_place(min(side.jumps, in_flight), held)
        return lost / _without_place(_SCATTERED, held) if lost else 0.0
    return min(max(side.jumps / held - _BESIDE, 0.0), 1.0)


def _without_place(lines: int, held: int) -> float:
    """The part of `lines` for which there is no place where `held` have one."""
    return max(1 - held / lines, 0.0)


def _scattered(jumps: int) -> float:
    """The part, 0 to 1, that `jumps` places cost of the price of lines that are streamed to 64 places by turns."""
    share = log(jumps / _WRITTEN_SEQUENCES) / log(_WRITES_IN_FLIGHT / _WRITTEN_SEQUENCES)
    return min(max(share, 0.0), 1.0)


def _unfollowed(walk: Walk, machine: Machine) -> float:
    """The part that this walk costs of the price of lines that are read from 64 rows by turns.

    It is 0 where the processor follows the rows, or half a page of each. Measured on Zen 3, which follows 16: 128 rows
    cost half as much again.
    """
    sequences = machine.profile.sequences
    rows = _side(walk, sequences, machine, held=False, total=True)
    if rows.jumps <= sequences or rows.piece >= PAGE // 2:
        return 0.0
    return min(log(rows.jumps / sequences) / log(max(_SCATTERED / sequences, 2)), 1.5)


def _conflicts_of_streams(walk: Walk, machine: Machine) -> float:
    """Nanoseconds that conflicts add to a line that is streamed on this walk.

    They arise where places that share a set have their turns: line by line, and by longer pieces, to which few
    sequences grow side by side.

    Measured on Zen 3, eight places in one set, from the last level, ns per line more in pieces of 64, 128, 256 and 512
    bytes: 4.7, 2.8, 1.3 and 0; of 256 bytes to four places by turns, then to the other four, 2.3.
    """
    sides = {_side(walk, turns, machine, total=True) for turns in (1, _WRITTEN_SEQUENCES)}
    crowded = sum(
        _crowded(side, machine.ways[0][0]) * LINE / side.piece for side in sides if side.piece < _UNCROWDED
    )
    return machine.profile.streamed_conflict_ns * crowded


def _crowded(side: Side, way: int) -> float:
    """The part that the places of `side` cost of the price of lines that are streamed to 64 places of one set of L1.

    Measured on Zen 3, ns per line more than behind the one before: 2, 4, 8, 16, 32 and 64 places in one set 0.9, 1.6,
    4.7, 5.3, 6.2 and 8.7; in two sets 0, 0.8, 4.7, 6.1, 9 and 10; in four 0, 0, 0.9, 3.2, 5.1 and 7.4; 32,
    64 and 256 in eight sets 0.2, 2.8 and 6.3; 64, 256 and 1024 in sixteen 0, 1.6 and 2.2; any number in 32 sets 0.
    """
    sets = way // max(gcd(side.stride, way), LINE)
    places = side.jumps / max(sets, 2) * min(_FEW_SETS / sets, 1)
    share = max(1 - _UNNOTICED / places, 0.0) / (1 - 2 * _UNNOTICED / _SCATTERED)
    return share * min(max(2 * _FEW_SETS / sets - _SPREAD, 0), 1)


def without_idle_prefetches(step: Step, pair: ElementPair, machine: Machine) -> Step:
    """`step`, without prefetches of its next iteration where these only cost time, by the profile.

    They do so where the processor itself follows the few sequences that are read, a page or more of each, and tiles
    read them in so small parts that there are many prefetches.
    """
    kernel = step.kernel.steps[0].kernel if isinstance(step.kernel, Staged) else step.kernel
    if step.prefetch is None or machine.profile.prefetch_gain > _IDLE or not isinstance(kernel, Tile):
        return step
    width = kernel.width if pair.conversion is None else pair.src
    if index(kernel.block("cols")) * width >= LINE:
        return step
    read = _side(_walks(step, pair)[0], machine.profile.sequences, machine, held=False, total=True)
    return replace(step, prefetch=None) if read.jumps == 1 or read.piece >= PAGE else step


def _held(stride: int, ways: tuple[int, int]) -> int:
    """Lines `stride` bytes apart that a cache with these `Machine.ways` holds at a time."""
    way, number = ways
    return number * (way // max(gcd(stride, way), LINE))


# How a step walks ----------------------------------------------------------------------------------------------------


def _followed_side(walk: Walk, machine: Machine, *, total: bool = False) -> Side:
    """The pieces of a walk of reads, whose sequences the processor follows wherever they lie.

    Parts of lines that are read from few places by turns are under way at once; from half as many, where the places
    overfill their sets of L1. Measured on Zen 3, f32 from blocks of 8 channels to nhwc, GB/s of half lines by turns and
    of 256 bytes: from 32 places in two sets 29 and 43, from 16 places in one set 17 and 8 (in memory, the former
    streamed).
    """
    return _side(walk, max(machine.profile.sequences, _READ_AT_ONCE), machine, held=False, total=total)


def _side(
    walk: Walk, sequences: int, machine: Machine, *, held: bool = True, total: bool = False, gap: float = 0
) -> Side:
    """The pieces of a walk, where up to `sequences` that grow side by side are as good as one.

    Sequences that have grown until they meet are one piece. With `held`, L1 has to hold the lines of all of them, and
    their strides are among those of the jumps; without, whole lines may lie anywhere. With `total`, `sequences` bounds
    all levels of the walk together, not each. A `gap` of that part of a piece does not end it.
    """
    piece, at = 1, 0
    beside: Walk = []  # loops over the sequences that have grown side by side
    while True:
        # Loops that go on where the inner ones ended, or before.
        while at < len(walk) and (walk[at][0] == 1 or abs(walk[at][1]) <= piece * (1 + gap)):
            piece += (walk[at][0] - 1) * abs(walk[at][1])
            at += 1
        for loop in sorted(beside, key=lambda x: abs(x[1])):
            if abs(loop[1]) <= piece * (1 + gap):
                piece += (loop[0] - 1) * abs(loop[1])
                beside.remove(loop)
        stride, jumps, apart = 0, 1, 1
        jumping: Walk = []
        while at < len(walk) and (walk[at][0] == 1 or abs(walk[at][1]) > piece * (1 + gap)):
            count, step = walk[at]
            if count > 1:
                stride, jumps = gcd(stride, step), jumps * count
                apart *= (
                    count if abs(step) > LINE else 1
                )  # places in lines beside each other are one sequence
                jumping.append(walk[at])
            at += 1
        if total:
            for count, step in beside:
                stride, jumps, apart = gcd(stride, step), jumps * count, apart * count
        in_sets, most = _held(stride, machine.ways[0]), sequences
        if held:
            most = min(sequences, in_sets)
        elif piece < LINE:
            most = min(sequences, max(sequences // 2, in_sets))
        if at == len(walk) or apart > most:
            if held:  # those that grow side by side have sets of their own
                stride = gcd(stride, *(step for _, step in beside))
            return Side(piece, stride, jumps)
        beside += jumping


def _volume(walk: Walk) -> int:
    return prod(count for count, _ in walk)


def _walks(step: Step, pair: ElementPair) -> tuple[Walk, Walk]:
    """The loops of `step` as source and destination see them; their counts multiply to the bytes of each side."""
    reads, writes = _kernel_walks(step.kernel, pair)
    for loop in reversed(step.loops):
        count = index(loop.count)
        if isinstance(loop, Loop):
            src, dst = index(loop.src), index(loop.dst)
        elif isinstance(loop, TableLoop) and count > 1:
            src, dst = index(loop.src[1] - loop.src[0]), index(loop.dst[1] - loop.dst[0])
        else:
            src = dst = PAGE  # bounds that vary: somewhere else each time
        reads.append((count, src))
        writes.append((count, dst))
    return reads, writes


def _kernel_walks(kernel: Kernel, pair: ElementPair) -> tuple[Walk, Walk]:
    widths = (1, 1) if pair.conversion is None else (pair.src, pair.dst)
    match kernel:
        case Copy() | PaddedCopy() | Elements():
            run = kernel.width if isinstance(kernel, Elements) else index(kernel.run)
            count, strides = index(kernel.inner.count), (kernel.inner.src, kernel.inner.dst)
            src, dst = (
                [(run * width, 1), (count, index(x))] for width, x in zip(widths, strides, strict=True)
            )
            return src, dst
        case Interleave():
            src, dst = (kernel.width, kernel.width) if pair.conversion is None else widths
            count, stride = index(kernel.count), index(kernel.stride)
            if kernel.inverse:
                return [(kernel.ways * count * src, 1)], [(count * dst, 1), (kernel.ways, stride)]
            return [(count * src, 1), (kernel.ways, stride)], [(kernel.ways * count * dst, 1)]
        case Tile():
            return _tile_walks(kernel, pair)
        case Staged():
            reads, _ = _walks(kernel.steps[0], pair)
            reads.append((index(kernel.iterations), index(kernel.src_stride)))
            size = index(kernel.size)
            if kernel.then:
                return reads, _walks(kernel.then[0], ElementPair(pair.dst, pair.dst))[1]
            return reads, [
                (size, 1),
                (kernel.rows, index(kernel.dst_stride)),
                (index(kernel.iterations), size),
            ]
        case Fill():
            return [], [(index(kernel.run), 1), (index(kernel.inner.count), index(kernel.inner.dst))]


def _tile_walks(tile: Tile, pair: ElementPair) -> tuple[Walk, Walk]:
    src, dst = (tile.width, tile.width) if pair.conversion is None else (pair.src, pair.dst)
    row = index(tile.rows.stride)
    high, wide = index(tile.block("rows")), index(tile.block("cols"))
    reads: Walk = [(wide * src, 1), (index(tile.valid or high), row)]
    columns = [(index(count), index(stride)) for count, stride in tile.cols.loops]
    by_blocks = bool(tile.cols.fold and tile.streaming and tile.schedule[0].axis == "cols")
    if by_blocks:
        columns = [(wide, columns[0][1])]  # of which the rows have their turns before the next block has its
    # Columns that are folded have else had all their turns before the next rows have theirs.
    writes: Walk = [(high * dst, 1), *(columns if tile.cols.fold else [(wide, index(tile.cols.stride))])]
    extents = {"rows": index(tile.rows.count), "cols": index(tile.cols.count)}
    blocks: list[tuple[str, int, int]] = []
    for blocking in tile.schedule:
        size = min(index(blocking.size), extents[blocking.axis])
        blocks.append((blocking.axis, size, -(-extents[blocking.axis] // size)))
        extents[blocking.axis] = size
    for axis, size, count in reversed(blocks):
        if axis == "rows":
            reads.append((1 if tile.valid else count, size * row))
            writes.append((count, size * dst))
        else:
            reads.append((count, size * src))
            if not tile.cols.fold or by_blocks:
                writes.append((count, size * index(tile.cols.stride)))
    return reads, writes
