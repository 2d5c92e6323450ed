"""A process that forks waits for whoever holds a lock, in this order or that, and children find them free."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path

import pytest

from layout_ir import forking

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
]
ROOT = Path(__file__).parents[1]


def _status_of_a_child(*locks: object) -> int:
    """0 where a child takes each of `locks`; it is killed where it waits."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        for lock in locks:
            with lock:  # type: ignore[attr-defined]
                pass
        os._exit(0)
    return os.waitpid(child, 0)[1]


def test_a_fork_waits_for_who_holds_a_lock(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forking, "_locks", [])
    inner, outer = threading.RLock(), threading.RLock()
    forking.fork_safe(inner)
    forking.fork_safe(outer)
    inside, done, steps = threading.Event(), threading.Event(), list[str]()

    def hold() -> None:
        with outer:
            inside.set()
            done.wait(0.2)  # the other thread forks meanwhile, if nothing keeps it
            with inner:
                steps.append("held")

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait()
    status = _status_of_a_child(inner, outer, forking.loading)
    steps.append("forked")
    done.set()
    holder.join()
    assert status == 0
    assert steps == ["held", "forked"]


def test_negative_a_lock_that_nobody_said_is_taken_in_the_child():
    lock, inside, done = threading.Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            inside.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(timeout=0.1) else 1)
    done.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_a_thread_that_holds_a_lock_may_fork_itself(monkeypatch: pytest.MonkeyPatch):
    """As a signal handler or a finalizer does, which comes in between."""
    monkeypatch.setattr(forking, "_locks", [])
    lock = threading.RLock()
    forking.fork_safe(lock)
    with lock, forking.loading:
        assert _status_of_a_child(lock, forking.loading) == 0
    assert _status_of_a_child(lock, forking.loading) == 0


def test_an_interrupt_while_a_fork_waits_leaves_no_lock_taken(monkeypatch: pytest.MonkeyPatch):
    class Interrupted:
        def __enter__(self) -> None:
            raise KeyboardInterrupt

        def __exit__(self, *_: object) -> None:
            raise AssertionError("it was never entered")

    lock = threading.RLock()
    monkeypatch.setattr(forking, "_locks", [Interrupted(), lock])
    with pytest.raises(KeyboardInterrupt):
        forking._hold()  # pyright: ignore[reportPrivateUsage]
    forking._release()  # pyright: ignore[reportPrivateUsage]
    free: list[bool] = []

    def take() -> None:
        for one in (lock, forking.loading):
            free.append(one.acquire(blocking=False))
            one.release()

    other = threading.Thread(target=take)
    other.start()
    other.join()
    assert free == [True, True]


def test_the_lock_of_the_bindings_is_held_while_they_call_llvm():
    """What `jit` relies on: their lock is under this name, reentrant, and every call takes it."""
    library = import_module("llvmlite.binding.ffi").lib
    jit = import_module("layout_ir.backends.llvm.runtime.jit")
    assert library._lock is jit._lock
    version, answered = import_module("llvmlite.binding").get_default_triple, threading.Event()

    def ask() -> None:
        version()
        answered.set()

    with library._lock, library._lock:
        other = threading.Thread(target=ask)
        other.start()
        assert not answered.wait(0.1)
    other.join()
    assert answered.is_set()


_IMPORTING = """\
import os, signal, sys, threading, time
import layout_ir as li

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "layout_ir.backends.llvm.planning.planner":
            inside.set()
            time.sleep(0.3)

inside = threading.Event()
sys.meta_path.insert(0, Slow())
first = threading.Thread(target=lambda: li.compile_reorder(*sides()))
sides = lambda: [li.TensorDesc((2, 3), "f32", tag) for tag in ("ab", "ba")]
sides()
first.start()
inside.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)
    li.compile_reorder(*sides())
    os._exit(0)
first.join()
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


def test_a_child_imports_what_another_thread_was_importing():
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _IMPORTING],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
