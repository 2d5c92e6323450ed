"""Many threads, many kernels, and memory that comes back; benchmarks/stress.py does the same for longer."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from layout_ir.backends.llvm import forget
from tests.backends.llvm import stress
from tests.processes import run_python

needs_status = pytest.mark.skipif(not stress.STATUS.exists(), reason="no /proc/self/status")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LAYOUT_IR_CACHE", "off")
    forget()
    yield
    forget()


def test_eight_threads_call_fifty_kernels():
    outcome = stress.hammer(8, 50, 1.5)
    assert outcome.calls > 0
    assert outcome.wrong == 0


def test_negative_a_wrong_byte_is_counted(monkeypatch: pytest.MonkeyPatch):
    real = stress.subject

    def spoiled(number: int) -> stress.Subject:
        found = real(number)
        wanted = found.wanted.copy()
        wanted[-1] ^= 1
        return replace(found, wanted=wanted)

    monkeypatch.setattr(stress, "subject", spoiled)
    outcome = stress.hammer(2, 3, 0.2)
    assert outcome.wrong >= outcome.calls > 0


@needs_status
def test_kernels_that_are_dropped_give_their_memory_back():
    (first, _), (second, alive) = stress.dropped(200, 2)
    assert alive == 0
    assert second - first < 8 << 20


def _is_right(subject: stress.Subject) -> bool:
    out = np.full_like(subject.wanted, 0xA5)
    subject.kernel(subject.source, out)
    return np.array_equal(out, subject.wanted)


def test_negative_kernels_in_use_keep_their_code():
    numbers = range(30)
    alive = {number: stress.subject(number) for number in numbers}
    codes = [stress.code_of(subject.kernel) for subject in alive.values()]
    for number in range(30, 60):  # others take what memory is free
        stress.subject(number)
        forget()
    gc.collect()
    assert all(code() is not None for code in codes)
    assert all(map(_is_right, alive.values()))
    alive.clear()
    gc.collect()
    assert all(code() is None for code in codes)


def _in_a_fresh_process(expression: str) -> int:
    """What `expression` comes to in a process of its own: the peak of one that has run tests may lie far above."""
    try:
        stress.reset_peak()
    except OSError as error:
        pytest.skip(f"the peak cannot be reset: {error}")
    code = f"from tests.backends.llvm import stress; print({expression})"
    return int(run_python("-c", code).stdout)


@needs_status
def test_a_reorder_takes_no_memory_but_source_and_destination():
    assert _in_a_fresh_process("stress.overhead(64)") <= 1 << 20


@needs_status
def test_negative_a_copy_would_be_noticed():
    assert _in_a_fresh_process("stress.overhead(64, copies=True)") > 60 << 20
