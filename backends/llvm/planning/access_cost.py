"""What a step is expected to cost: how its loops walk through both sides, and what the profile says of that.

Both sides are gone through in pieces (`walks`). Between two neighbours nothing of a cache line, of a prefetched line or
of a translated page may be lost, or it is paid for again:

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
from math import gcd, log
from operator import index

from layout_ir.backends.llvm.machine.machine import LINE, PAGE, Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.nontemporal import streaming_limit, streaming_volume
from layout_ir.backends.llvm.planning.walks import (
    Side,
    Walk,
    crosses_lines,
    followed_pieces,
    is_in_order,
    lines_held,
    pieces_of,
    walked_bytes,
    walks_of,
)
from layout_ir.dialects.kernel.plan import Copy, Fill, Kernel, Loop, Staged, Step, Tile

_WRITES_IN_FLIGHT, _READS_IN_FLIGHT = 64, 32
"""Lines that are on their way at a time: so many must find a place, even where none is asked for again."""

_SCATTERED = 64
"""Places that are far too many to be followed: prices of a profile for what jumps are those of so many."""

_READS = 0.5
"""The part of the cost of a conflict of writes that one of reads of whole lines has: only prefetched lines are lost."""

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

_BESIDE = 0.5
"""The part of a set that begun lines may take without loss: the other side has lines there, too. Measured on Zen 4,
512 KiB of f32 from rows of 2 KiB to blocks of 8 channels (cdba to ABcd8b8a), eight half lines by turns: 52 GB/s where
they share a set of eight ways, 77 where they do not, and 25 where 128 of them are read."""

_JUMP = 0.1
"""What a jump that meets no conflict costs, as a part of a line through the caches: a stream begins anew. Parts of a
line that is still there begin none: measured on Zen 3, 8 MiB of bytes from nchw to nhwc with 64 channels, ns per line
read as four parts and as one, over a buffer, 2.4 and 2.8."""

_NEAR, _FAR = 0.5, 1.4
"""How many times as much a jump between whole lines costs within half a KiB or among places that the processor follows,
and among four times as many. Measured on Zen 4, f32 in the last level, ns per line more than a copy takes: lines to 16,
32 and 64 places by turns 0.1, 0.2 and 0.3, from 16, 32 and 64 places 0.1, 0.2 and 0.3, every fourth line 0.1."""

_WRITTEN_SEQUENCES = 4
"""Sequences that are written side by side as one is, at most: whoever writes combines few lines at a time. Measured on
Zen 4, 66 MiB of nhwc to nChw16c with 64 channels, past the caches: 48 GB/s to four sequences by turns, 25 to each of
them in its turn."""

_WRITES_FOLLOWED = 8
"""Sequences side by side up to which lines that are written through the caches come in time from memory: of 1, 2, 4, 8,
16 and 32 that with which the plans of 442 reorders took the least time (Zen 4)."""

_GROUP = 6
"""Lines whose conflicts it costs, for each place, to go over from places that fill a set of L1, written by turns, to
others in that set. Measured on Zen 4, ns per line of pieces of 1, 2, 4, 8, 16 and 32 lines more than in order, 64
places in one set, eight by turns: 2.2, 1.4, 1.4, 1.0, 0.5 and 0.2, four by turns: 2.2, 1.2, 0.5 and 0.1."""

_FROM_L2 = 0.5
"""What a line costs that comes back from L2 to be written to once more, in lines through the caches. Measured on Zen 4,
f32 of nhwc to nchw, 960 channels of 7 x 7, ns per line across all columns and down one after the other 2.2 and 1.6."""

_CUT = 20
"""Lines in memory whose time it takes to empty a buffer to a place that begins or ends within a line: that line is read
first, and what is streamed behind it waits. Measured on Zen 4, ns more for each buffer of 784 to 1568 bytes, 65 to 156.
"""

_CROSSING = 1.0
"""What stores that go on in another page cost each line of a buffer that is streamed, in lines through the caches: what
is read behind them waits. Measured on Zen 4, f32 from blocks of 16 channels of 7 x 7 to nchw, 6 MiB, ns per line within
a page and over 15 KiB 2.4 and 3.9."""

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

_SHORT = 2 * PAGE
"""Bytes of an iteration up to which the processor has itself fetched the next one, if it is read in order. Measured
on Zen 4, 120 MiB to nchw over a buffer, GB/s without and with prefetches: f32 of 16 channels of 7 x 7, 3136 bytes, 40
and 26; bytes of 32 channels of 14 x 14 to blocks of 8, 6272 bytes, 43 and 39; bf16 of 8 channels of 28 x 28, 12544
bytes, 22 and 39."""


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
    reads, writes = walks_of(step, pair)
    read = followed_pieces(reads, machine)
    written = pieces_of(writes, min(profile.sequences, _WRITTEN_SEQUENCES), machine)
    work, *then = (*step.kernel.steps[:1], *step.kernel.then) if isinstance(step.kernel, Staged) else (step,)
    limit = index(streaming_limit([work, *then], pair, machine, threads))
    if all(pieces_of(x, 1, machine).piece >= PAGE for x in (reads, writes)):
        limit = max(limit, streaming_volume(machine, threads, few_streams=True))
    streaming, in_memory = step.kernel.streaming, volume > limit
    line = _line(volume, limit, machine, streaming=streaming)
    hidden = max(line - profile.streamed_ns, 0.0)
    apart = followed_pieces(reads, machine, total=True)
    prefetched = _prefetches(step, work.kernel, apart, machine)
    # Each load of a block of a tile has a row of its own, which the processor follows where the next block lies behind
    # it. Measured on Zen 3, f32 from nchw to blocks of 32, GB/s along 16 rows and down all 32 of them: 28 and 12.
    high = index(work.kernel.block("rows")) if isinstance(work.kernel, Tile) else 1
    rows = max(profile.sequences, high)
    ordered = pieces_of(reads, rows, machine, held=False, total=True, followed=True)
    jumping_reads = ordered.jumps > rows and ordered.piece < PAGE
    # A line that is written through the caches is read first, and none is on its way where it jumps. Measured on Zen 3,
    # 147 MiB of f32 with 64 channels from nhwc to nchw, GB/s in tiles past the caches and from a buffer through them
    # 10.1 and 6.2; on Zen 4, 120 MiB of bf16 from nchw with 512 channels of 7 x 7 to nhwc, ns per line in blocks of 16
    # columns 8.1 to 9.7, of a copy 4.2.
    written_beside = pieces_of(writes, _WRITES_FOLLOWED, machine, total=True, followed=True)
    jumping_writes = not streaming and written_beside.piece < PAGE
    if in_memory and (jumping_writes or (jumping_reads and not prefetched)):
        # Of what the last level does not quite hold a part is there. Measured on Zen 3, 16 MiB of f32 from rows of 8128
        # bytes to blocks of 8 channels, past the caches, ns per line read from 1024 rows by turns 2.7, of a copy 3.0.
        line *= 1 + _UNFOLLOWED * min(volume / limit - 1, 1.0)
    held = max(limit, machine.l3 // 2)
    beyond = min(max(volume / held - 1, 0.0), 1.0)
    staging = _staging_cost(step.kernel, machine, in_memory=in_memory)
    if _is_filled_from_rows(step):
        staging += beyond * profile.staging_scattered_ns * _unfollowed(reads, machine)
    is_across = _lies_across(work.kernel)
    if is_across and not prefetched and not jumping_reads:
        line *= 1 + _UNFOLLOWED * beyond
    lines_read = walked_bytes(reads) / LINE / _overlap(work.kernel)
    lines_written = walked_bytes(writes) / LINE / _overlap(step.kernel)
    # Each line that is read brings its neighbour, and the other side has as many.
    again = (
        line * (_lines_of_piece(apart) * LINE / apart.piece - 1) if 4 * LINE * apart.jumps > limit else 0.0
    )
    # Lines past the caches go one by one, however long their piece is.
    at_once = _WRITES_IN_FLIGHT if streaming else _pieces_in_flight(_WRITES_IN_FLIGHT, written.piece)
    waiting = _jump_cost(written, machine, at_once, line, streams=streaming)
    if streaming:
        conflicts = _conflicts_of_streams(writes, machine)
        # Meanwhile the next lines come. Measured on Zen 3, ns per line more to 8, 16, 32 and 64 places in one set, from
        # the last level 4.7, 5.3, 6.2 and 8.7, from memory 2.6, 2.5, 4 and 6.4; in pieces of 256 bytes 1.3 from both.
        waiting += max(min(conflicts, hidden), conflicts - hidden)
        # What is streamed twice goes to memory twice.
        lines_written *= _overlap(step.kernel)
        if isinstance(step.kernel, Staged) and _cuts_lines(step, step.kernel):
            waiting += _CUT * profile.memory_ns * LINE / index(step.kernel.size)
    else:
        waiting += _group_cost(writes, written, machine)
        # A line in which two places meet is written twice, and has by then left L1 and L2 as far as others fill them.
        shared, between = _lines_of_piece(written) * LINE / written.piece - 1, written.jumps * LINE
        back = _FROM_L2 * profile.cached_ns * min(max(between / machine.l1 - _BESIDE, 0.0), 1.0)
        waiting += shared * max(back, line * min(between / machine.l2, 1))
    waiting *= lines_written
    # What a tile reads of its rows, and sequences that are read side by side, come by turns.
    piece = pieces_of(reads, 1, machine).piece if isinstance(work.kernel, Copy) else LINE
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


def _cuts_lines(step: Step, kernel: Staged) -> bool:
    """Whether the buffer of `step` is emptied to places that begin or end within a line, and no begun line stays in it
    for a next iteration."""
    strides = [loop.dst if isinstance(loop, Loop) else 1 for loop in step.loops]
    return index(kernel.iterations) == 1 and any(index(x) % LINE for x in (step.dst, kernel.size, *strides))


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


def _line(volume: int, limit: int, machine: Machine, *, streaming: bool) -> float:
    """Nanoseconds of a line of a plan that reads and writes `volume` bytes; from `limit` on streams win.

    There a line through the caches takes as long as one past them, for that is what the limit says; at four times L2,
    where the price of the profile is measured, it takes that. In between it grows with what others take of the last
    level, and beyond with what that has lost: of twice the volume all of it, and where only the source is kept of four
    times as much. Of 1 to 3 times and 2 to 4 times, with these the plans of 887 reorders took the least time (Zen 4).
    """
    profile, measured = machine.profile, 4 * machine.l2
    if volume > limit:
        whole = profile.memory_streamed_ns if streaming else profile.memory_ns
        lost = min((volume / limit - 1) / (3 if streaming else 1), 1.0)
        return profile.streamed_ns + lost * max(whole - profile.streamed_ns, 0.0)
    if streaming:
        return profile.streamed_ns
    grown = min(max(volume - measured, 0) / max(limit - measured, 1), 1.0)
    return profile.cached_ns + grown**2 * max(profile.streamed_ns - profile.cached_ns, 0.0)


def _staging_cost(kernel: Kernel, machine: Machine, *, in_memory: bool) -> float:
    """Nanoseconds per line that the way over a buffer adds, of a kernel that has one.

    Lines that are copied to a buffer from memory leave no time in which stores are under way: no part of the price is
    saved there. Measured on Zen 3, 128 MiB of bytes, 128 channels from nchw to nhwc, GB/s in tiles and so: 5.2 and 4.4.
    """
    if not isinstance(kernel, Staged):
        return 0.0
    profile = machine.profile
    if kernel.streaming:
        streamed = profile.staging_streamed_ns * (_BESIDE_MEMORY if in_memory else 1.0)
        # A register of a line is stored in halves: columns that begin with these go on in no other page (Zen 4).
        crossing = index(kernel.extent) >= PAGE and any(
            crosses_lines(step, LINE // 2) for step in kernel.steps
        )
        return streamed + (_CROSSING * profile.cached_ns if crossing else 0.0)
    copied = kernel.then and isinstance(kernel.steps[0].kernel, Copy) and not in_memory
    return profile.staging_copied_ns if copied else profile.staging_ns


def _is_filled_from_rows(step: Step) -> bool:
    """Whether a buffer that is streamed is filled with what nobody prefetches as it lies: the next iteration of a loop,
    or the next block of rows."""
    kernel = step.kernel
    is_buffer = isinstance(kernel, Staged) and kernel.streaming and index(kernel.iterations) == 1
    return is_buffer and step.prefetch is None


def _read_cost(side: Side, machine: Machine, at_once: int, again: float, *, prefetched: bool) -> float:
    """Nanoseconds per line that is read, `at_once` pieces at a time, in addition to the line itself.

    A prefetched line comes in time, but once only: a line that is read in parts costs `again` for each further part.
    """
    cost = _jump_cost(side, machine, at_once, machine.profile.cached_ns)
    if side.piece < LINE:
        held = lines_held(side.stride, machine.ways[0])
        if side.jumps <= held:
            # Only what is written takes their places, and that has as many lines in each of the other sets.
            cost *= held * LINE / machine.l1
        followed = prefetched or side.stride <= _FOLLOWED_STRIDE
        return cost * (_FOLLOWED if followed else 1) + again
    return again + (0.0 if prefetched else _READS * cost)


def _lines_of_piece(side: Side) -> float:
    """Lines that a piece of `side` lies in, on average: it may begin wherever its stride leads to."""
    apart = gcd(side.stride, LINE) or LINE
    return 1 + (-(-side.piece // apart) - 1) * apart / LINE


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
    held = lines_held(read.stride, machine.ways[1])
    return 4 * distance * read.jumps <= machine.l2 and 2 * read.jumps <= 3 * held


def _jump_cost(side: Side, machine: Machine, in_flight: int, line: float, *, streams: bool = False) -> float:
    """Nanoseconds per line that jumps add to the line itself; parts of a line that L2 has lost cost that of `line`."""
    profile = machine.profile
    if side.jumps == 1:
        return 0.0
    l1, l2 = (_lost(side, ways, in_flight) for ways in machine.ways)
    cost = l1 * profile.l1_conflict_ns * (_STREAMED_CONFLICT if streams else 1)
    if streams:
        cost += profile.streamed_jump_ns * _scattered(side.jumps)
        if l1 and side.jumps > lines_held(side.stride, machine.ways[1]):
            cost += profile.l1_conflict_ns
    else:
        cost += l2 * profile.l2_conflict_ns
        if side.piece < LINE:
            cost += l2 * line * (1 - side.piece / LINE)  # the rest of a line that is gone by now
    if side.stride >= PAGE and side.jumps > _TLB_ENTRIES:
        cost += profile.page_ns
    if streams and side.piece < LINE:
        cost += profile.memory_ns  # a line that is not written whole is read first
    # Of pieces less than a line apart some are in one line, and have their turns together.
    turns = LINE if side.piece >= LINE else min(max(side.stride, side.piece), LINE)
    jump = _JUMP
    if side.piece >= LINE:
        places = 1.0 if side.stride <= _FOLLOWED_STRIDE else side.jumps / profile.sequences
        jump *= _NEAR + (_FAR - _NEAR) * min(max(log(places) / log(4), 0.0), 1.0)
    return cost * turns / side.piece + jump * profile.cached_ns * LINE / max(side.piece, LINE)


def _group_cost(walk: Walk, written: Side, machine: Machine) -> float:
    """Nanoseconds per line that it takes to write to all places of a set by turns, then to others in that set.

    `written` are the pieces of the walk where no more than a few places grow side by side. To go over to the next group
    costs as much as conflicts of `_GROUP` lines for each of its places.
    """
    held = lines_held(written.stride, machine.ways[0])
    if written.jumps != held:
        return 0.0
    group = pieces_of(walk, held, machine, total=True)
    if not LINE <= written.piece < group.piece or group.jumps <= held:
        return 0.0
    sets = held // machine.ways[0][1]
    return machine.profile.l1_conflict_ns * min(_GROUP * LINE / group.piece, 1.0) / (2 * sets - 1)


def _lost(side: Side, ways: tuple[int, int], in_flight: int) -> float:
    """The part of the lines that a cache with these `Machine.ways` has lost when their neighbours have their turns.

    Whole lines must find a place while they are on their way: of those, as many are lost as there is no place for; all
    that the price of a profile counts where 64 are. Measured on Zen 3, f32 in the last level, ns per line more than 64
    bytes farther apart: T 1024 x 512, which writes to 16 places of one set, or 512 of them, by turns 0.5 and 1.8; lines
    copied to 16 and to 64 places 1.2 and 1.5; of 1, 2, 4 and 8 lines to 64 places of one set 1.2, 0.5, 0.1 and 0. Begun
    ones must stay until they are whole, beside what else comes into their sets meanwhile: where they take all of a set,
    some do not.
    """
    held = lines_held(side.stride, ways)
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
    rows = pieces_of(walk, sequences, machine, held=False, total=True, followed=True)
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
    sides = {pieces_of(walk, turns, machine, total=True) for turns in (1, _WRITTEN_SEQUENCES)}
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
    """`step`, without prefetches of its next iteration where these only cost time.

    They do so where the processor itself fetches what is read. Over a buffer, that is where short iterations read it in
    order. Measured on Zen 4, 120 MiB, GB/s without and with prefetches: bf16 from blocks of 8 channels of 7 x 7 to
    blocks of 16, two sequences by turns, 16 and 42, and bytes from blocks of 32 channels of 14 x 14 to nchw, 16
    channels of all pixels and then the others, 17 and 34.
    In tiles, where the profile says so, it is where few sequences are read, a page or more of each, in so small parts
    that there are many prefetches.
    """
    if step.prefetch is None:
        return step
    reads, _ = walks_of(step, pair)
    if isinstance(step.kernel, Staged):
        loop = step.loops[step.prefetch]
        is_short = isinstance(loop, Loop) and loop.src <= _SHORT
        return replace(step, prefetch=None) if is_short and is_in_order(reads) else step
    kernel = step.kernel
    if machine.profile.prefetch_gain > _IDLE or not isinstance(kernel, Tile):
        return step
    width = kernel.width if pair.conversion is None else pair.src
    if index(kernel.block("cols")) * width >= LINE:
        return step
    read = pieces_of(reads, machine.profile.sequences, machine, held=False, total=True, followed=True)
    return replace(step, prefetch=None) if read.jumps == 1 or read.piece >= PAGE else step
