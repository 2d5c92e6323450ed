"""Compiled reorders under stress: many threads, many kernels, memory. Used by tests and by benchmarks/stress.py."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm import Reorder, compile_reorder, forget

STATUS = Path("/proc/self/status")
_PAIRS = (
    ("nchw", "nhwc"), ("nhwc", "nchw"), ("nchw", "nChw8c"), ("nChw8c", "nChw16c"), ("nChw16c", "nchw"),
    ("nhwc", "nChw16c"), ("oihw", "OIhw8i8o"), ("chwn", "nhwc"),
)  # fmt: skip
_TYPES = {"f32": np.dtype("u4"), "i8": np.dtype("u1"), "bf16": np.dtype("u2"), "f64": np.dtype("u8")}


def layouts(number: int) -> tuple[Layout, Layout, str]:
    """A reorder of its own for every number below a few thousand; some are large enough for two threads."""
    rng = Random(number)
    src, dst = _PAIRS[number % len(_PAIRS)]
    side = 56 if number % 5 == 4 else rng.randint(3, 20)
    shape = (1 + number % 3, 3 + number % 61, side, 2 + number // 61)
    return Format.of(src).bind(shape), Format.of(dst).bind(shape), list(_TYPES)[number % len(_TYPES)]


@dataclass(frozen=True)
class Subject:
    """A kernel, its source, and what it must write; places without an element keep what they held."""

    kernel: Reorder
    source: NDArray[Any]
    wanted: NDArray[Any]


def subject(number: int) -> Subject:
    """Raises LayoutError where the layouts cannot be reordered."""
    src, dst, dtype = layouts(number)
    source = np.random.default_rng(number).integers(0, 256, src.extent * _TYPES[dtype].itemsize, np.uint8)
    source = source.view(_TYPES[dtype])
    wanted = np.full(dst.extent, 0xA5, _TYPES[dtype])
    if dst.pad != "undef":
        wanted[dst.addresses(padded=True).ravel()] = 0
    wanted[dst.addresses().ravel()] = source[src.addresses().ravel()]
    return Subject(compile_reorder(src, dst, dtype, threads=1 + number % 2), source, wanted)


@dataclass
class Outcome:
    """Calls made by all threads, and those after which a byte was wrong."""

    calls: int = 0
    wrong: int = 0


def hammer(threads: int, kernels: int, seconds: float) -> Outcome:
    """`threads` threads call random ones of `kernels` kernels; one more compiles new kernels and drops them."""
    subjects = [subject(number) for number in range(kernels)]
    outcome, lock = Outcome(), threading.Lock()
    end = perf_counter() + seconds

    def call(seed: int) -> None:
        rng, calls, wrong = Random(seed), 0, 0
        while perf_counter() < end:
            chosen = rng.choice(subjects)
            out = np.full_like(chosen.wanted, 0xA5)
            chosen.kernel(chosen.source, out)
            calls += 1
            wrong += not np.array_equal(out, chosen.wanted)
        with lock:
            outcome.calls += calls
            outcome.wrong += wrong

    def churn() -> None:
        number = kernels
        while perf_counter() < end:
            fresh, number = subject(number), number + 1
            out = np.full_like(fresh.wanted, 0xA5)
            fresh.kernel(fresh.source, out)
            with lock:
                outcome.wrong += not np.array_equal(out, fresh.wanted)
            if number % 16 == 0:
                forget()

    workers = [threading.Thread(target=call, args=(seed,)) for seed in range(threads)]
    workers.append(threading.Thread(target=churn))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return outcome


# Memory --------------------------------------------------------------------------------------------------------------


def resident(what: str = "VmRSS") -> int:
    """Bytes of this process in memory; with `VmHWM` the most there ever were since `reset_peak`."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) << 10


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def code_of(kernel: Reorder) -> weakref.ref[Any]:
    """The machine code of `kernel`, which is given back when nobody refers to it any more.

    Areas of memory that the process has mapped do not tell: the system merges neighbours.
    """
    return weakref.ref(kernel._checked.code)  # pyright: ignore[reportPrivateUsage]


def dropped(kernels: int, times: int) -> Iterator[tuple[int, int]]:
    """Resident bytes, and kernels with code, after `kernels` distinct ones were compiled and dropped, each time."""
    codes: list[weakref.ref[Any]] = []
    for k in range(times):
        alive = [compile_reorder(*layouts(k * kernels + number), threads=1) for number in range(kernels)]
        assert len({id(kernel) for kernel in alive}) == kernels
        codes += map(code_of, alive)
        del alive
        forget()
        gc.collect()
        yield resident(), sum(code() is not None for code in codes)


def overhead(megabytes: int, *, copies: bool = False) -> int:
    """Bytes that a call of a large reorder takes beyond its source and destination; `copies`: and a copy of it."""
    shape = (2 * megabytes, 64, 64, 64)  # of half a megabyte each
    src, dst = (Format.of(tag).bind(shape) for tag in ("nchw", "nhwc"))
    x = np.ones(src.extent, np.float16)
    kernel = compile_reorder(src, dst, "f16")
    small = Format.of("nchw").bind((1, 8, 256, 256)), Format.of("nhwc").bind((1, 8, 256, 256))
    compile_reorder(*small, "f16")(np.ones(1 << 19, np.float16), np.ones(1 << 19, np.float16))
    gc.collect()
    before = resident()
    y = np.empty(dst.extent, np.float16)
    reset_peak()
    kernel(x.copy() if copies else x, y)
    return resident("VmHWM") - before - y.nbytes
