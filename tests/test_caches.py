"""Caches of kernels register themselves, and are emptied together."""

from __future__ import annotations

from functools import lru_cache

import pytest

from layout_ir import caches
from layout_ir.caches import forget, keeps_kernels


def test_forget_empties_every_registered_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(caches, "_caches", [])

    def kernel(number: int) -> object:
        return object()

    kept, other = [keeps_kernels(lru_cache(kernel)) for _ in range(2)], lru_cache(kernel)
    before = [cache(1) for cache in (*kept, other)]
    assert before == [cache(1) for cache in (*kept, other)]
    forget()
    assert [cache(1) is old for cache, old in zip((*kept, other), before, strict=True)] == [
        False,
        False,
        True,
    ]
