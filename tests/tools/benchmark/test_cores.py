"""How many cores threads have: a number between one and as many as there are threads."""

from __future__ import annotations

import ctypes

import pytest

from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.tools.benchmark import cores as module
from layout_ir.tools.benchmark.cores import apart, clock, cores


class _Pool:
    """Threads of which every `turns` take turns on one core."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def parallel(self, kernel: int, src: int, dst: int, _threads: int) -> None:
        run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(kernel)
        for _ in range(self.turns):
            run(src, dst, 0, 1)


@pytest.mark.parametrize("turns, wanted", [(1, 2.0), (2, 1.0)])
def test_threads_that_take_turns_have_one_core(monkeypatch: pytest.MonkeyPatch, turns: int, wanted: float):
    def available(threads: int) -> int:
        return threads

    def ensure(_threads: int) -> _Pool:
        return _Pool(turns)

    monkeypatch.setattr(thread_pool, "available", available)
    monkeypatch.setattr(thread_pool, "ensure", ensure)
    # Another process may come between the one thread and the two: not always.
    found = sorted(cores(2) for _ in range(25))[12]
    assert found == pytest.approx(wanted, rel=0.2)
    assert (sum(apart(2) for _ in range(25)) > 12) == (turns == 1)


def test_real_threads_have_up_to_two_cores():
    if thread_pool.available(2) < 2:
        pytest.skip("this process may use one CPU")
    assert 0 < cores(2) <= 2


def test_negative_one_thread_has_one_core(monkeypatch: pytest.MonkeyPatch):
    assert cores(1) == 1.0

    def one(_threads: int) -> int:
        return 1

    monkeypatch.setattr(thread_pool, "available", one)
    assert cores(2) == 1.0
    assert not apart(2)


def test_negative_threads_beyond_the_cpus_have_no_cores():
    assert 0 < cores(thread_pool.cpus() + 1) <= thread_pool.cpus()


def test_the_clock_is_that_of_a_processor():
    assert 0.5e9 < clock() < 8e9


def test_an_interruption_is_told_once(monkeypatch: pytest.MonkeyPatch):
    counts = iter([5, 5, 7, 7])
    monkeypatch.setattr(module, "_interruptions", lambda: next(counts))
    asked = module.uninterrupted()
    assert [asked() for _ in range(3)] == [True, False, True]
