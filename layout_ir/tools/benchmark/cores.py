"""Whether the threads of a benchmark have cores of their own and undisturbed, and what clock those run at.

CPUs may be the two sides of one core, and a host may run those of a guest on one for seconds and then apart again.
What waits for memory gains from a second thread all the same, what shuffles in registers does not: on one core of a
Zen 4 two threads shuffle as much as one. Shares of such a bandwidth say nothing about two cores, so the benchmark asks
before and after it measures.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from time import perf_counter

import numpy as np

from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.llvm.runtime.jit import Code

try:
    import resource
except ImportError:  # only POSIX has it
    resource = None

_ROUNDS = 30_000
"""Rounds of four multiplications, one of which begins in a cycle: some 30 microseconds."""

_OWN = 0.75
"""Of a core for every thread, from which on they count as apart."""


def _source() -> str:
    names = "abcd"
    phis = "\n".join(f"  %{n} = phi i64 [ {k + 3}, %entry ], [ %{n}2, %round ]" for k, n in enumerate(names))
    products = "\n".join(f"  %{n}2 = mul i64 %{n}, %{n}" for n in names)
    return f"""\
target triple = "{host().triple}"
define void @multiply(ptr %src, ptr %dst, i64 %part, i64 %parts) nounwind {{
entry:
  %place = getelementptr [8 x i64], ptr %dst, i64 %part
  br label %round
round:
  %i = phi i64 [ 0, %entry ], [ %next, %round ]
{phis}
{products}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {_ROUNDS}
  br i1 %more, label %round, label %done
done:
  %ab = xor i64 %a2, %b2
  %cd = xor i64 %c2, %d2
  %all = xor i64 %ab, %cd
  store i64 %all, ptr %place
  ret void
}}
"""


@cache
def _code() -> Code:
    return Code(_source(), host(), ("multiply",))


def cores(threads: int) -> float:
    """How many cores' worth of work `threads` of the kernels' own do together just now, at most as many.

    Where there are fewer CPUs than threads, so many of them: a kernel counts on no more.
    """
    threads = thread_pool.available(threads)
    if threads == 1:
        return 1.0
    results = np.zeros(8 * threads, np.int64)
    code = _code()  # held: of threads that come first together each has its own
    where, work = int(results.ctypes.data), code.address("multiply")
    alone = thread_pool.PART_SIGNATURE(work)
    together = thread_pool.ensure(threads).parallel
    least = [float("inf")] * 2
    for _ in range(3):
        times = [perf_counter()]
        alone(where, where, 0, 1)
        times.append(perf_counter())
        together(work, where, where, threads)
        times.append(perf_counter())
        least = [
            min(best, after - before) for best, before, after in zip(least, times, times[1:], strict=False)
        ]
    return min(float(threads), threads * least[0] / least[1])


@cache
def clock() -> float:
    """Cycles per second of a core at work: the rounds of four multiplications, of which a core begins one per cycle.

    A product takes three cycles on every x86-64 of the last fifteen years, so that none of the four chains waits for
    itself where one multiplication begins per cycle.
    """
    results = np.zeros(8, np.int64)
    code = _code()
    where = int(results.ctypes.data)
    alone = thread_pool.PART_SIGNATURE(code.address("multiply"))
    least = float("inf")
    for _ in range(50):
        start = perf_counter()
        alone(where, where, 0, 1)
        least = min(least, perf_counter() - start)
    return 4 * _ROUNDS / least


def apart(threads: int) -> bool:
    """Whether every one of `threads` has a core of its own just now."""
    return cores(threads) >= _OWN * threads


def uninterrupted() -> Callable[[], bool]:
    """A function that says whether nobody else was given the CPU of this process since it was last asked.

    The operating system counts how often it takes the CPU away from who would go on. Where it counts nothing, nobody
    was.
    """
    last = _interruptions()

    def asked() -> bool:
        nonlocal last
        before, last = last, _interruptions()
        return last == before

    return asked


def _interruptions() -> int:
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
