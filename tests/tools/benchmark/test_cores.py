"""How many cores threads have: a number between one and as many as there are threads."""

from __future__ import annotations

import pytest

from layout_ir.backends.llvm import pool
from layout_ir.tools.benchmark.cores import apart, cores


def test_two_threads_have_up_to_two_cores():
    if pool.available(2) < 2:
        pytest.skip("this process may use one CPU")
    # Other processes may hold a CPU, or the host may give both threads one core: now and then, not always.
    assert any(apart(2) for _ in range(200)) or max(cores(2) for _ in range(50)) > 0.9
    assert 0 < cores(2) <= 2


def test_negative_one_thread_has_one_core(monkeypatch: pytest.MonkeyPatch):
    assert cores(1) == 1.0

    def one(_threads: int) -> int:
        return 1

    monkeypatch.setattr(pool, "available", one)
    assert cores(2) == 1.0
    assert not apart(2)


def test_negative_threads_beyond_the_cpus_have_no_cores():
    assert 0 < cores(pool.cpus() + 1) <= pool.cpus()
