"""Kernels used from many threads at once and across forks, each in a process of its own.

    python -m tests.backends.llvm.concurrent_use first 8        8 threads meet the library for the first time, together
    python -m tests.backends.llvm.concurrent_use forks 40 2     40 children while 2 threads compile and drop kernels
    python -m tests.backends.llvm.concurrent_use load 60 8      60 s of 8 threads that call, while others compile,
                                                                fork and drop

Every result is compared with NumPy. The status is 0 where all were right, 1 where a byte was wrong or a child did not
end well. A child that does not end is killed by its own alarm after `PATIENCE` seconds, which counts as wrong.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from random import Random
from time import monotonic

import numpy as np
from numpy.random import default_rng  # now: NumPy loads it on first use

import layout_ir as li
from layout_ir.forking import loading
from tests.processes import run_python

PATIENCE = 120
"""Seconds that a child may take, on any machine: it has work for a few hundredths of one."""

_TAGS = tuple("".join(order) for order in permutations("nchw"))
_SHAPES = ((2, 16, 8, 8), (3, 5, 7, 6), (1, 8, 40, 36), (2, 16, 56, 56))
"""The last two are worth two threads."""


def _data(rng: Random, shape: Sequence[int]) -> np.ndarray:
    """Whole numbers from -99 to 99."""
    return default_rng(rng.randrange(1 << 30)).integers(-99, 100, shape).astype(np.float32)


def _transposed(x: np.ndarray, tag: str) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(["nchw".index(dim) for dim in tag]))


def _static(rng: Random) -> bool:
    x, tag = _data(rng, rng.choice(_SHAPES)), rng.choice(_TAGS)
    return np.array_equal(li.reorder(x, "nchw", tag), _transposed(x, tag))


def _blocked(rng: Random) -> bool:
    n, c, h, w = rng.choice(_SHAPES)
    x = _data(rng, (n, 8 * c, h, w))
    wanted = x.reshape(n, c, 8, h, w).transpose(0, 1, 3, 4, 2)
    return np.array_equal(li.reorder(x, "nchw", "nChw8c"), wanted)


def _converting(rng: Random) -> bool:
    x, tag, step = _data(rng, rng.choice(_SHAPES)), rng.choice(_TAGS), rng.choice((1.0, 2.0, 0.5))
    wanted = np.clip(np.rint(_transposed(x, tag) / step), -128, 127).astype(np.int8)
    return np.array_equal(li.reorder(x, "nchw", tag, dtype="i8", scale=step), wanted)


def _open(rng: Random) -> bool:
    tag = rng.choice(_TAGS)
    src, dst = (li.TensorDesc((None, None, None, None), "f32", name) for name in ("nchw", tag))
    kernel = li.compile_reorder(src, dst, threads=rng.choice((1, 2)))
    for shape in rng.sample(_SHAPES, 2):
        x = _data(rng, shape)
        wanted = _transposed(x, tag)
        y = np.full_like(wanted, np.nan)
        kernel(x, y)
        if not np.array_equal(y, wanted):
            return False
    return True


KINDS: tuple[Callable[[Random], bool], ...] = (_static, _blocked, _converting, _open)


def _all_right(rng: Random, rounds: int) -> bool:
    return all(kind(rng) for _ in range(rounds) for kind in rng.sample(KINDS, len(KINDS)))


def _together(tasks: Sequence[Callable[[], bool]]) -> bool:
    """Whether all of `tasks`, each in a thread and all begun at once, end with True."""
    barrier, right = threading.Barrier(len(tasks)), list[bool]()

    def run(task: Callable[[], bool]) -> None:
        barrier.wait()
        try:
            right.append(task())
        except BaseException:
            traceback.print_exc()
            right.append(False)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return right == [True] * len(tasks)


def _drop() -> None:
    with (
        loading
    ):  # an import statement of one's own is not safe beside forks: the child may have half of a module
        from layout_ir.backends.llvm import forget

    forget()
    gc.collect()


def first_use(threads: int, seed: int = 0) -> bool:
    """Whether threads that all meet the library for the first time get what they should."""
    return _together([lambda k=k: _all_right(Random(seed * 100 + k), 1) for k in range(threads)])


def child_is_right(seed: int, task: Callable[[], bool] | None = None) -> bool:
    """Forks a child that compiles and calls kernels of every kind (or does `task`), and waits for it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(PATIENCE)
            if task is None:
                _drop()
                status = 0 if _all_right(Random(seed), 1) else 1
            else:
                status = 0 if task() else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def _until(done: threading.Event, rng: Random, *, drop: bool) -> bool:
    """Whether every call is right until `done`; with `drop` the kernels kept for others are dropped all the time."""
    right = True
    while not done.is_set():
        right &= _all_right(rng, 1)
        if drop:
            _drop()
    return right


def forks(children: int, threads: int, seed: int = 0) -> bool:
    """Whether children are right that are forked while `threads` threads compile, call and drop kernels."""
    done = threading.Event()

    def fork() -> bool:
        right = [child_is_right(seed + k) for k in range(children)]
        done.set()
        return all(right)

    others = [lambda k=k: _until(done, Random(seed * 100 + k), drop=True) for k in range(threads)]
    return _together([fork, *others])


def load(seconds: float, threads: int, seed: int = 0) -> bool:
    """Whether all is right while `threads` threads call, one compiles and drops, and one forks, for some seconds."""
    done, end = threading.Event(), monotonic() + seconds

    def fork() -> bool:
        right, number = True, seed
        while monotonic() < end:
            right, number = child_is_right(number) and right, number + 1
        done.set()
        return right

    callers = [lambda k=k: _until(done, Random(seed * 100 + k), drop=False) for k in range(threads)]
    return _together([fork, lambda: _until(done, Random(seed), drop=True), *callers])


def in_a_process(*arguments: object, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`python -m tests.backends.llvm.concurrent_use` with `arguments`, machine code kept in `cache` or nowhere."""
    variables = {"LAYOUT_IR_CACHE": "off" if cache is None else str(cache)}
    module = "tests.backends.llvm.concurrent_use"
    return run_python("-W", "ignore", "-m", module, *map(str, arguments), variables=variables, check=False)


_MODES: dict[str, Callable[..., bool]] = {"first": first_use, "forks": forks, "load": load}


def main() -> int:
    mode, *numbers = sys.argv[1:]
    return 0 if _MODES[mode](*map(int, numbers)) else 1


if __name__ == "__main__":
    sys.exit(main())
