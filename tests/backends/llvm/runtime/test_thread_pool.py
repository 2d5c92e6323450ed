"""Workers: same bytes, whoever calls and however many."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import Reorder, compile_reorder
from layout_ir.backends.llvm.planning.dynamic_shapes import DynamicReorder
from layout_ir.backends.llvm.runtime.dynamic_call import compile_dynamic
from layout_ir.backends.llvm.runtime.thread_pool import NO_WAKE, available, ensure
from layout_ir.errors import LayoutError

needs_workers = pytest.mark.skipif(available(2) < 2, reason="one CPU, or a platform without workers")


def _kernel(threads: int | None, images: int = 3) -> tuple[Reorder, NDArray[Any], NDArray[Any]]:
    src, dst = (Format.from_tag(tag).bind((images, 17, 64, 56)) for tag in ("nchw", "nChw8c"))
    x = np.random.default_rng(0).random(src.extent, np.float32)
    wanted = np.zeros(dst.extent, np.float32)
    wanted[dst.addresses().ravel()] = x[src.addresses().ravel()]
    return compile_reorder(src, dst, threads=threads), x, wanted


def _runs_right(kernel: Reorder, x: NDArray[Any], wanted: NDArray[Any], times: int) -> bool:
    out = np.empty_like(wanted)
    for _ in range(times):
        out.fill(np.nan)
        kernel(x, out)
        if not np.array_equal(out, wanted):
            return False
    return True


@needs_workers
@pytest.mark.parametrize("threads", [None, 2, 7])
def test_threads_share_a_call(threads: int | None):
    kernel, x, wanted = _kernel(threads)
    assert _runs_right(kernel, x, wanted, 50)
    out = np.zeros_like(wanted)
    kernel(x.ctypes.data, out.ctypes.data)
    assert np.array_equal(out, wanted)


@needs_workers
def test_small_reorders_are_shared_with_workers_that_are_awake():
    src, dst = (Format.of(order).bind((170, 150)) for order in ("ab", "ba"))
    kernel = compile_reorder(src, dst, threads=2)
    assert kernel._checked.threads == 2 + NO_WAKE  # pyright: ignore[reportPrivateUsage]
    x = np.random.default_rng(0).random(src.extent, np.float32)
    wanted = x.reshape(170, 150).T.ravel()
    for pause in (0.0, 0.0, 0.002, 0.0):  # the workers spin, fall asleep, are woken
        sleep(pause)
        assert _runs_right(kernel, x, wanted, 300)


def _workers() -> list[int]:
    """System's ids of the threads that wait for kernels."""
    names = (thread for thread in threading.enumerate() if thread.name.startswith("layout-ir-"))
    return [thread.native_id for thread in names if thread.native_id]


def _wait_until_asleep() -> None:
    """Returns when every worker sleeps, which on a loaded machine may take its time: a spinning one has to run."""
    stats = [Path(f"/proc/self/task/{worker}/stat") for worker in _workers()]
    while any(stat.read_text().rpartition(")")[2].split()[0] != "S" for stat in stats):
        sleep(0.01)


@needs_workers
def test_workers_that_are_woken_keep_off_the_cpu_of_the_caller():
    kernel, x, wanted = _kernel(2, images=15)
    assert kernel._checked.threads == 2  # pyright: ignore[reportPrivateUsage]
    assert _runs_right(kernel, x, wanted, 1)
    here = os.sched_getaffinity(0)
    try:
        for cpu in sorted(here)[:2]:
            # A caller that may run on two CPUs is moved to the one and has the other left for its worker.
            other = min(here - {cpu})
            os.sched_setaffinity(0, {cpu})
            os.sched_setaffinity(0, {cpu, other})
            _wait_until_asleep()
            before = _cpu()
            assert _runs_right(kernel, x, wanted, 1)
            if _cpu() == before:  # else somebody moved us meanwhile
                assert {before} not in [os.sched_getaffinity(worker) for worker in _workers()]
                assert any(os.sched_getaffinity(worker) == {cpu, other} - {before} for worker in _workers())
    finally:
        os.sched_setaffinity(0, here)
    assert _runs_right(kernel, x, wanted, 20)


def _cpu() -> int:
    """The CPU that this thread runs on."""
    return ctypes.CDLL(None).sched_getcpu()


@needs_workers
def test_many_threads_call_at_once():
    kernel, x, wanted = _kernel(2)
    right: list[bool] = []
    threads = [
        threading.Thread(target=lambda: right.append(_runs_right(kernel, x, wanted, 40))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 6


@needs_workers
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_child_has_workers_of_its_own():
    kernel, x, wanted = _kernel(2)
    assert _runs_right(kernel, x, wanted, 3)
    child = os.fork()
    if child == 0:
        os._exit(0 if _runs_right(kernel, x, wanted, 10) else 1)
    assert os.waitpid(child, 0)[1] == 0


@needs_workers
def test_a_call_does_without_workers_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch):
    def refuse(_: threading.Thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    workers = ensure(1).workers
    assert ensure(workers + 3).workers == workers
    kernel, x, wanted = _kernel(2, images=5)
    assert _runs_right(kernel, x, wanted, 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_child_finds_no_lock_taken(monkeypatch: pytest.MonkeyPatch):
    """While another thread finds out which plan serves a shape, or which is fastest."""
    kernel = compile_dynamic(Format.of("ab"), Format.of("ba"), (None, 40))
    inside, original = threading.Event(), DynamicReorder.specialize

    def slow(self: DynamicReorder, example: Any) -> Any:
        inside.set()
        sleep(0.2)
        return original(self, example)

    monkeypatch.setattr(DynamicReorder, "specialize", slow)
    x, y = np.ones((100, 40), np.float32), np.zeros((40, 100), np.float32)
    other = threading.Thread(target=kernel, args=(x, y))
    other.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        monkeypatch.undo()
        kernel(x[:99], np.zeros((40, 99), np.float32))
        os._exit(0)
    other.join()
    assert os.waitpid(child, 0)[1] == 0


def test_negative_no_threads():
    src = Format.from_tag("nchw").bind((3, 17, 64, 56))
    with pytest.raises(LayoutError, match="threads = 0 is no number of threads"):
        compile_reorder(src, src, threads=0)
