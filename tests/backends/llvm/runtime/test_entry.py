"""The way from Python into kernels: one for all of them, whoever comes first, and it lives as long as they do."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import compile_reorder
from layout_ir.backends.llvm.runtime import entry
from tests.processes import run_python


def test_threads_that_come_first_together_get_the_same_entry(monkeypatch: pytest.MonkeyPatch):
    for _ in range(10):
        monkeypatch.setattr(entry, "_made", None)
        barrier, found = threading.Barrier(8), list[Any]()

        def come(barrier: threading.Barrier = barrier, found: list[Any] = found) -> None:
            barrier.wait()
            found.append(entry._method())  # pyright: ignore[reportPrivateUsage]

        threads = [threading.Thread(target=come) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert all(method is found[0] for method in found)


_DROPPED = """\
import gc
import numpy as np
from layout_ir.backends.llvm import compile_reorder
from layout_ir.backends.llvm.runtime import entry
from layout_ir.algebra.format import Format

def made(k):
    return compile_reorder(*(Format.of(tag).bind((2, k)) for tag in ("ab", "ba")))

first = made(3)
entry._made = None           # as whoever lost a race between threads would be left
gc.collect()
others = [made(k) for k in range(4, 40)]  # take the memory that was given back
y = np.zeros((3, 2), np.float32)
for _ in range(100):
    first(np.arange(6, dtype=np.float32).reshape(2, 3), y)
print(y.T.ravel().tolist())
"""


def test_a_kernel_keeps_the_entry_that_it_was_made_with():
    assert run_python("-c", _DROPPED).stdout == "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]\n"


def test_looking_at_an_array_and_asking_for_its_format_come_to_the_same(monkeypatch: pytest.MonkeyPatch):
    """What fits runs without the slow way, what does not never does."""
    src, dst = (Format.of(tag).bind((2, 3)) for tag in ("ab", "ba"))
    arrays = [np.zeros(6, dtype) for dtype in ("f4", "u4", "i4", ">f4", "S4", [("a", "f2"), ("b", "f2")])]
    for peeks in (True, False):
        seen: list[str] = []
        if not peeks:
            monkeypatch.setattr(entry, "_array_type", lambda: 0)
        assert bool(entry._array_type()) is peeks  # pyright: ignore[reportPrivateUsage]
        checked = compile_reorder(src, dst)._checked  # pyright: ignore[reportPrivateUsage]

        def slow(x: Any, y: Any, seen: list[str] = seen) -> None:
            seen.append(x.dtype.str if x.dtype.names is None else "record")

        call = entry.entry(checked.kernel, 0, 1, (24, 24), (4, 4), False, slow)
        for x in arrays:
            y = np.ones(6, np.float32)
            call(x, y)
            assert y.any() == bool(seen and seen[-1] == (x.dtype.str if x.dtype.names is None else "record"))
        assert seen == [">f4", "|S4", "record"]
