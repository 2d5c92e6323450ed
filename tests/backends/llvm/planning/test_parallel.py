"""The parallel loop divides evenly among threads, and is the outermost of those that do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import pytest

from layout_ir.backends.llvm.planning.parallel import finished, for_threads, parallel_blocking, parallel_loop
from layout_ir.dialects.kernel.plan import (
    Axis,
    Blocking,
    Copy,
    Interleave,
    Level,
    Loop,
    Staged,
    Step,
    Tile,
    VariableBoundLoops,
)

COUNTS = (1, 2, 3, 5, 7, 16, 33)


def _busiest(count: int, threads: int) -> float:
    """The part of `count` iterations that the thread with most of them runs, where each gets a stretch of them."""
    borders = [count * part // threads for part in range(threads + 1)]
    return max(high - low for low, high in pairwise(borders)) / count


@pytest.mark.parametrize("threads", [2, 3, 4, 8])
def test_no_other_loop_has_less_to_do_for_the_busiest_thread(threads: int):
    for counts in product(COUNTS, repeat=3):
        *outer, inner = counts
        loops = tuple(Loop(n, 1, 1) for n in outer)
        chosen = parallel_loop(loops, Copy(1, Loop(inner, 1, 1)), threads)
        parts = [_busiest(n, threads) for n in counts]
        even = [k for k, part in enumerate(parts) if part <= (1 + 1 / 16) / threads]
        assert chosen == even[0] if even else parts[chosen] == min(parts), counts


def test_for_an_unknown_number_sixteen_iterations_are_enough():
    for counts in product(COUNTS, repeat=2):
        chosen = parallel_loop([Loop(counts[0], 1, 1)], Copy(1, Loop(counts[1], 1, 1)))
        assert counts[chosen] >= 16 or counts[chosen] == max(counts)
        assert chosen == 0 or counts[0] < 16


def test_negative_loops_of_variable_bounds_and_staging_buffers_are_not_divided():
    bounds = VariableBoundLoops((Level(1, Loop(100, 1, 1)),), 0, 100)
    assert parallel_loop([bounds, Loop(2, 1, 1)], Copy(1), 2) == 1
    inner = Step((), 0, 0, Copy(4096, Loop(64, 4096, 4096)), -1)
    assert parallel_loop([Loop(2, 1, 1)], Staged(1 << 18, (inner,)), 2) == 0


def test_threads_change_nothing_but_the_parallel_loop():
    step = finished(
        Step((), 8, 16, Copy(1)), (Loop(3, 1 << 20, 1 << 20), Loop(8, 64, 64)), Copy(4, Loop(20, 8, 8))
    )
    assert step.parallel == 2
    assert for_threads(step, 3) == replace(step, parallel=0)
    assert for_threads(step, 8) == replace(step, parallel=1)


def _tile(rows: int, cols: int) -> Tile:
    schedule = Blocking("rows", 16), Blocking("cols", 4)
    return Tile(4, Axis(rows, 4 * cols), Axis(cols, 4 * rows), schedule)


def test_threads_divide_columns_of_a_tile():
    assert parallel_blocking(_tile(160, 40)) == 1
    assert parallel_blocking(_tile(160, 16)) == parallel_blocking(_tile(32, 8)) == 1
    assert parallel_blocking(_tile(4096, 64)) == 1


def test_negative_few_columns_leave_the_rows_to_divide():
    assert parallel_blocking(_tile(160, 12)) == 0
    assert parallel_blocking(_tile(4096, 60)) == 0  # parts of long rows share few lines


def test_pieces_of_interleaves_and_runs_are_counted_in_blocks():
    ways = Interleave(4, 3, 160, 640, inverse=False, block=16)
    assert parallel_loop([Loop(9, 1, 1)], ways) == 1
    assert parallel_loop([Loop(9, 1, 1)], replace(ways, count=128)) == 0
    assert parallel_loop([Loop(9, 1, 1)], Copy(10 * 256)) == 1
    assert parallel_loop([Loop(9, 1, 1)], Copy(8 * 256)) == 0
