"""Threads that wait for kernels.

Handing a kernel to Python threads costs tens of microseconds, more than most reorders take. Here workers wait in
compiled code: first they spin, for about the time between two calls of a busy program, then they sleep on a futex. A
call publishes the kernel and its buffers, runs its own share and waits for the others'. One call has the workers at a
time; whoever comes while they are busy does all of its work itself, so that any number of threads may call.

The workers are daemon threads of this process, started when a kernel is first compiled for more than one thread; a
forked child starts its own. Only on Linux on x86-64 and aarch64; elsewhere kernels run on the calling thread.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from typing import Any

from layout_ir.backends.llvm.jit import Code
from layout_ir.backends.llvm.machine import Machine, host

_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine(), 0) if sys.platform == "linux" else 0

# { i32 busy, i32 generation, i32 pending, i32 sleeping, ptr kernel, ptr src, ptr dst, i64 parts, i32 workers }
_STATE = "{ i32, i32, i32, i32, ptr, ptr, ptr, i64, i32 }"


def _field(number: int) -> str:
    return f"getelementptr ({_STATE}, ptr @state, i64 0, i32 {number})"


def _source(machine: Machine) -> str:
    pause = "call void @llvm.x86.sse2.pause()" if machine.triple.startswith("x86_64") else "fence seq_cst"
    busy, generation, pending, sleeping, kernel, src, dst, parts, workers = map(_field, range(9))
    return f"""\
target triple = "{machine.triple}"
@state = internal global {_STATE} zeroinitializer, align 64
declare i64 @syscall(i64, ...)
declare i32 @sched_yield()

define i32 @add_worker() nounwind {{
entry:
  br label %take
take:
  %got = cmpxchg ptr {busy}, i32 0, i32 1 acquire monotonic
  %free = extractvalue {{ i32, i1 }} %got, 1
  br i1 %free, label %count, label %later
later:
  %y = call i32 @sched_yield()
  br label %take
count:
  %old = atomicrmw add ptr {workers}, i32 1 seq_cst
  %now = load atomic i32, ptr {generation} acquire, align 4
  store atomic i32 0, ptr {busy} release, align 4
  ret i32 %now
}}

define void @reset() nounwind {{
  store {_STATE} zeroinitializer, ptr @state
  ret void
}}

define void @worker(i64 %index, i32 %start) nounwind {{
entry:
  br label %wait
wait:
  %seen = phi i32 [ %start, %entry ], [ %now, %done ]
  br label %spin
spin:
  %k = phi i32 [ 0, %wait ], [ %k1, %again ]
  %now = load atomic i32, ptr {generation} acquire, align 4
  %new = icmp ne i32 %now, %seen
  br i1 %new, label %work, label %idle
idle:
  %k1 = add i32 %k, 1
  %tired = icmp sgt i32 %k1, 2000
  br i1 %tired, label %sleep, label %rest
rest:
  {pause}
  br label %again
sleep:
  %s0 = atomicrmw add ptr {sleeping}, i32 1 seq_cst
  %r = call i64 (i64, ...) @syscall(i64 {_FUTEX}, ptr {generation}, i32 128, i32 %seen, ptr null)
  %s1 = atomicrmw sub ptr {sleeping}, i32 1 seq_cst
  br label %again
again:
  br label %spin
work:
  %n = load i64, ptr {parts}
  %mine = icmp slt i64 %index, %n
  br i1 %mine, label %run, label %done
run:
  %f = load ptr, ptr {kernel}
  %a = load ptr, ptr {src}
  %b = load ptr, ptr {dst}
  call void %f(ptr %a, ptr %b, i64 %index, i64 %n)
  br label %done
done:
  %p = atomicrmw sub ptr {pending}, i32 1 release
  br label %wait
}}

define void @parallel(ptr %f, ptr %a, ptr %b, i64 %parts) nounwind {{
entry:
  %got = cmpxchg ptr {busy}, i32 0, i32 1 acquire monotonic
  %free = extractvalue {{ i32, i1 }} %got, 1
  br i1 %free, label %publish, label %alone
alone:
  call void %f(ptr %a, ptr %b, i64 0, i64 1)
  ret void
publish:
  store ptr %f, ptr {kernel}
  store ptr %a, ptr {src}
  store ptr %b, ptr {dst}
  %w = load i32, ptr {workers}
  %w1 = add i32 %w, 1
  %most = zext i32 %w1 to i64
  %fits = icmp sle i64 %parts, %most
  %n = select i1 %fits, i64 %parts, i64 %most
  store i64 %n, ptr {parts}
  store atomic i32 %w, ptr {pending} release, align 4
  %g = atomicrmw add ptr {generation}, i32 1 seq_cst
  %asleep = load atomic i32, ptr {sleeping} seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %wake, label %share
wake:
  %r = call i64 (i64, ...) @syscall(i64 {_FUTEX}, ptr {generation}, i32 129, i32 2147483647)
  br label %share
share:
  call void %f(ptr %a, ptr %b, i64 0, i64 %n)
  br label %join
join:
  %k = phi i32 [ 0, %share ], [ %k1, %turn ]
  %left = load atomic i32, ptr {pending} acquire, align 4
  %ready = icmp eq i32 %left, 0
  br i1 %ready, label %leave, label %more
more:
  %k1 = add i32 %k, 1
  %long = icmp sgt i32 %k1, 2000
  br i1 %long, label %yield, label %turn0
turn0:
  {pause}
  br label %turn
yield:
  %y = call i32 @sched_yield()
  br label %turn
turn:
  br label %join
leave:
  store atomic i32 0, ptr {busy} release, align 4
  ret void
}}
"""


class Pool:
    """The workers of this process; `parallel` is void (kernel, src, dst, parts), at `address`."""

    def __init__(self) -> None:
        self.code = Code(_source(host()), host(), ("add_worker", "reset", "worker", "parallel"), keep=True)
        self.workers = 0
        signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        self.address = self.code.address("parallel")
        self.parallel: Any = signature(self.address)

    def grow(self, threads: int) -> None:
        """Starts workers until `threads` can work, the caller included."""
        run: Any = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int32)(self.code.address("worker"))
        add: Any = ctypes.CFUNCTYPE(ctypes.c_int32)(self.code.address("add_worker"))
        while self.workers < threads - 1:
            self.workers += 1
            # Counted while no call is under way: every later one waits for it, and it sees every later one.
            arguments = (self.workers, add())
            threading.Thread(
                target=run, args=arguments, daemon=True, name=f"layout-ir-{self.workers}"
            ).start()


_pool: Pool | None = None
_lock = threading.Lock()


def available(threads: int) -> int:
    """How many threads a kernel may count on when `threads` are asked for."""
    if not _FUTEX or sys.implementation.name != "cpython":
        return 1
    return max(1, min(threads, cpus()))


def cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ensure(threads: int) -> Pool:
    """The pool, with workers for `threads`."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = Pool()
        _pool.grow(threads)
        return _pool


def _restart() -> None:
    """In a forked child the workers are gone, with whatever they were doing: the same state starts afresh."""
    global _lock
    _lock = threading.Lock()
    if _pool is not None:
        ctypes.CFUNCTYPE(None)(_pool.code.address("reset"))()
        threads, _pool.workers = _pool.workers + 1, 0
        _pool.grow(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart)
