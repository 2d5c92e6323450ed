"""Many threads, many kernels, and memory that comes back; benchmarks/stress.py does the same for longer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from layout_ir.backends.llvm import compile_reorder, forget
from tests.backends.llvm import stress

needs_status = pytest.mark.skipif(not stress.STATUS.exists(), reason="no /proc/self/status")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LAYOUT_IR_CACHE", "off")
    forget()
    yield
    forget()


def test_eight_threads_call_fifty_kernels():
    outcome = stress.hammer(8, 50, 3)
    assert outcome.calls > 100
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
    (first, areas), (second, areas_then) = stress.dropped(200, 2)
    assert areas_then - areas < 20
    assert second - first < 8 << 20


@needs_status
def test_negative_kernels_in_use_keep_theirs():
    forget()
    before = stress.mappings()
    alive = [compile_reorder(*stress.layouts(number), threads=1) for number in range(60)]
    forget()
    assert stress.mappings() - before > 20
    x = np.zeros(alive[0].plan.src_bytes // alive[0].plan.width, f"u{alive[0].plan.width}")
    alive[0](x, np.zeros(alive[0].plan.dst_bytes // x.itemsize, x.dtype))


def _in_a_fresh_process(expression: str) -> int:
    """What `expression` comes to in a process of its own: the peak of one that has run tests may lie far above."""
    try:
        stress.reset_peak()
    except OSError as error:
        pytest.skip(f"the peak cannot be reset: {error}")
    code = f"from tests.backends.llvm import stress; print({expression})"
    root = Path(__file__).resolve().parents[3]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


@needs_status
def test_a_reorder_takes_no_memory_but_source_and_destination():
    assert _in_a_fresh_process("stress.overhead(64)") <= 1 << 20


@needs_status
def test_negative_a_copy_would_be_noticed():
    assert _in_a_fresh_process("stress.overhead(64, copies=True)") > 60 << 20
