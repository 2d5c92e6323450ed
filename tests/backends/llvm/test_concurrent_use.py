"""First use by many threads, forks while others compile: in processes of their own, which may not crash or hang.

`python -m tests.backends.llvm.concurrent_use` and benchmarks/stress.py do the same as often and as long as you like.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.backends.llvm import concurrent_use

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


def _ends_well(run: subprocess.CompletedProcess[str]) -> None:
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


@pytest.mark.parametrize("threads", [2, 8])
def test_threads_that_meet_the_library_together_get_the_right_bytes(threads: int, tmp_path: Path):
    for seed, cache in enumerate([None, None, tmp_path / "cache", tmp_path / "cache"]):
        _ends_well(concurrent_use.in_a_process("first", threads, seed // 3, cache=cache))
    assert list((tmp_path / "cache").iterdir()), "nothing was kept, so the last process was not warm"


@needs_fork
@pytest.mark.slow
@pytest.mark.parametrize("children", [15, pytest.param(40, marks=pytest.mark.deep)])
def test_children_are_right_that_are_forked_while_threads_compile_and_drop_kernels(children: int):
    _ends_well(concurrent_use.in_a_process("forks", children, 2))


@needs_fork
def test_threads_call_while_others_compile_drop_and_fork(tmp_path: Path):
    _ends_well(concurrent_use.in_a_process("load", 2, 4, cache=tmp_path))


def test_negative_a_wrong_byte_a_crash_and_a_thread_that_fails_are_noticed(monkeypatch: pytest.MonkeyPatch):
    def fail(_: object) -> bool:
        raise RuntimeError("on purpose")

    def err(_: object) -> bool:
        return False

    for kind in (err, fail):
        monkeypatch.setattr(concurrent_use, "KINDS", (kind,))
        assert not concurrent_use.first_use(2)
    with pytest.raises(AssertionError):
        _ends_well(concurrent_use.in_a_process("no such mode"))


@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_negative_children_that_hang_crash_or_are_wrong_are_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(concurrent_use, "PATIENCE", 1)
    assert concurrent_use.child_is_right(0, lambda: True)
    assert not concurrent_use.child_is_right(0, lambda: False)
    assert not concurrent_use.child_is_right(0, lambda: bool(threading.Event().wait()))
    assert not concurrent_use.child_is_right(0, lambda: bool(os.kill(os.getpid(), signal.SIGKILL)))
