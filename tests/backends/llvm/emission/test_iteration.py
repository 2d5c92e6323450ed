"""Parts of a loop are all of its iterations, each once; pointers and cursors go where the steps say."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.backends.llvm.emission.iteration import Pointers, PrefetchCursor, all_iterations, partition
from layout_ir.backends.llvm.emission.llvm_builder import Builder
from tests.backends.llvm.emission.bodies import run


def _runs(count: int, part: int, parts: int, *, parallel: bool) -> list[int]:
    """How often each of `count` iterations runs."""
    b = Builder()
    with b.loop(*partition(b, parallel=parallel)(count)) as i:
        at = b.at("%dst", b.mul(i, 8))
        b.store("i64", b.put(f"add i64 {b.load('i64', at)}, 1"), at)
    found = np.zeros(count, np.int64)
    run(b, found, found, part, parts)
    return found.tolist()


@pytest.mark.parametrize("count, parts", [(1, 1), (7, 1), (7, 3), (3, 7), (64, 5)])
def test_parts_of_a_parallel_loop_are_all_of_it_in_about_equal_stretches(count: int, parts: int):
    runs = [_runs(count, part, parts, parallel=True) for part in range(parts)]
    assert [sum(column) for column in zip(*runs, strict=True)] == [1] * count
    sizes = list(map(sum, runs))
    assert max(sizes) - min(sizes) <= 1
    assert [k for part in runs for k, n in enumerate(part) if n] == list(range(count))


def test_negative_every_thread_runs_all_of_another_loop():
    assert _runs(5, 1, 3, parallel=False) == [1] * 5
    assert all_iterations(5) == (0, 5)


def test_pointers_advance_by_steps_of_bytes_and_channels():
    b = Builder()
    pointers = Pointers("%src", "%dst", 2).moved(b, 3, 8, 1)
    pointers = pointers.advanced(b, b.put("add i64 0, 4"), 5, 16, 10)
    b.store("i8", b.load("i8", pointers.src), pointers.dst)
    b.store("i64", b.operand(pointers.channel), "%dst")
    src, dst = np.arange(100, dtype=np.uint8), np.zeros(100, np.uint8)
    run(b, src, dst)
    assert dst[8 + 4 * 16] == 3 + 4 * 5
    assert dst[:8].view(np.int64)[0] == 2 + 1 + 4 * 10


@pytest.mark.parametrize("size, lines", [(0, 0), (1, 1), (64, 1), (65, 2), (256, 4)])
def test_a_cursor_prefetches_each_line_once(size: int, lines: int):
    b = Builder()
    PrefetchCursor("%src").ahead(b, 128).prefetch(b, 64, size)
    assert sum("llvm.prefetch" in line for line in b.lines) == lines
    found = np.zeros(1, np.uint8)
    run(b, found, found)  # past the array, where a load would fail


def test_negative_without_a_cursor_nothing_is_ahead():
    b = Builder()
    pointers = Pointers("%src", "%dst")
    assert pointers.ahead(b, 64) == pointers
    with_cursor = Pointers("%src", "%dst", cursor=PrefetchCursor("%src", 8)).ahead(b, 64)
    assert with_cursor.cursor == PrefetchCursor("%src", 72)
