"""The thread pool: workers that wait in compiled code for parts of kernels.

Dispatching a kernel to Python threads costs tens of microseconds, more than most reorders take. Here workers wait in
compiled code: first they spin, for about the time between two calls of a busy program, then they sleep on a futex. A
call publishes the kernel, its buffers and a ticket that counts parts; whoever is awake takes parts until there are
none left, the caller too, so that it never waits for a worker that has not begun. One call has the workers at a time;
whoever comes while they are busy does all of its work itself, so that any number of threads may call.

Before it wakes workers, a call keeps them off the CPU it runs on. Left to itself a scheduler may put a woken thread on
the CPU of who wakes it, where the two take turns for milliseconds while others idle: as a guest, Linux takes virtual
CPUs that sleep for busy ones. Measured on two of them, the first calls after a pause of 4 ms, two threads copying 8
MiB: 39 GB/s left to itself, 70 kept apart; copying 256 KiB 27 and 57.

Work of a few microseconds pays for dispatching parts to a worker that spins, not for waking one (`NO_WAKE`).
Only where such calls follow each other closely are workers woken, for the calls to come.

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

from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.forking import fork_safe

# Numbers of system calls.
_FUTEX, _GETTID = (
    {"x86_64": (202, 186), "aarch64": (98, 178)}.get(platform.machine(), (0, 0))
    if sys.platform == "linux"
    else (0, 0)
)

PART_SIGNATURE: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
"""The C signature of machine code whose calls threads share: its two pointers, a part and the number of parts."""

NO_WAKE = 1 << 32
"""Added to the number of threads of a call that wakes no worker: only those that spin take part."""

_CLOSE = 100_000
"""Cycles between two no-wake calls of a busy program: about as long as workers spin."""

# { i64 ticket, i32 busy, i32 left, i32 sleeping, ptr kernel, ptr src, ptr dst, i64 threads, i64 last }
# The ticket is generation << 32 | parts << 16 | next part: taking the next part fails where any of it has changed, so
# that what was read of the call before belongs to it. A worker that comes late reads while the next call writes, which
# only atomic loads and stores may.
_STATE = "{ i64, i32, i32, i32, ptr, ptr, ptr, i64, i64 }"

_PLACES = 1024
"""CPUs that a mask has bits for, and workers that are kept apart from callers."""

_APART = f"""\
; Of every worker its thread, and 1 + the CPU that it was last told to keep off.
@workers = internal global [{_PLACES} x {{ i32, i32 }}] zeroinitializer
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

; Keeps the first workers off the CPU of the caller: theirs are the other CPUs that it may run on.
define internal void @keep_apart(i64 %most) nounwind {{
entry:
  %mask = alloca [{_PLACES // 8} x i8], align 8
  %cpu = call i32 @sched_getcpu()
  %known = icmp ult i32 %cpu, {_PLACES}
  br i1 %known, label %look, label %leave
look:
  %index = phi i64 [ 1, %entry ], [ %next, %step ]
  %low = icmp ult i64 %index, {_PLACES}
  %asked = icmp ult i64 %index, %most
  %both = and i1 %low, %asked
  br i1 %both, label %worker, label %leave
worker:
  %at = getelementptr {{ i32, i32 }}, ptr @workers, i64 %index
  %off = getelementptr i8, ptr %at, i64 4
  %thread = load atomic i32, ptr %at monotonic, align 4
  %there = icmp ne i32 %thread, 0
  %now = add i32 %cpu, 1
  %told = load i32, ptr %off
  %differs = icmp ne i32 %told, %now
  %move = and i1 %there, %differs
  br i1 %move, label %ask, label %step
ask:
  store i32 %now, ptr %off
  %failed = call i32 @sched_getaffinity(i32 0, i64 {_PLACES // 8}, ptr %mask)
  %may = icmp eq i32 %failed, 0
  br i1 %may, label %tell, label %leave
tell:
  %cpu64 = zext i32 %cpu to i64
  %byte64 = lshr i64 %cpu64, 3
  %place = getelementptr i8, ptr %mask, i64 %byte64
  %bits = load i8, ptr %place
  %bit = trunc i64 %cpu64 to i8
  %bit7 = and i8 %bit, 7
  %one = shl i8 1, %bit7
  %others = xor i8 %one, -1
  %rest = and i8 %bits, %others
  store i8 %rest, ptr %place
  ; Where there is no other CPU, this fails and nothing changes.
  %r = call i32 @sched_setaffinity(i32 %thread, i64 {_PLACES // 8}, ptr %mask)
  br label %step
step:
  %next = add i64 %index, 1
  br label %look
leave:
  ret void
}}
"""


def _field(number: int) -> str:
    return f"getelementptr ({_STATE}, ptr @state, i64 0, i32 {number})"


def _source(machine: Machine) -> str:
    pause = "call void @llvm.x86.sse2.pause()" if machine.triple.startswith("x86_64") else "fence seq_cst"
    # Elsewhere a program may not be allowed to count cycles: no-wake calls then never wake anybody.
    cycles = "call i64 @llvm.readcyclecounter()" if machine.triple.startswith("x86_64") else "add i64 0, 0"
    ticket, busy, left, sleeping, kernel, src, dst, threads, last = map(_field, range(9))
    generation = f"getelementptr (i8, ptr {ticket}, i64 4)"
    open_part = f"""\
  %t = load atomic i64, ptr {ticket} acquire, align 8
  %next = and i64 %t, 65535
  %t16 = lshr i64 %t, 16
  %n = and i64 %t16, 65535
  %t1 = add i64 %t, 1
  %open = icmp ult i64 %next, %n
"""
    return f"""\
target triple = "{machine.triple}"
@state = internal global {_STATE} zeroinitializer, align 64
declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
{_APART}
define void @reset() nounwind {{
  store {_STATE} zeroinitializer, ptr @state
  store [{_PLACES} x {{ i32, i32 }}] zeroinitializer, ptr @workers
  ret void
}}

define void @worker(i64 %index) nounwind {{
entry:
  %listed = icmp ult i64 %index, {_PLACES}
  br i1 %listed, label %name, label %look
name:
  %me64 = call i64 (i64, ...) @syscall(i64 {_GETTID})
  %me = trunc i64 %me64 to i32
  %mine = getelementptr {{ i32, i32 }}, ptr @workers, i64 %index
  store atomic i32 %me, ptr %mine monotonic, align 4
  br label %look
look:
  %k = phi i32 [ 0, %entry ], [ 0, %name ], [ %k1, %rest ], [ 0, %sleep ], [ 0, %try ], [ 0, %run ]
{open_part}  br i1 %open, label %read, label %idle
read:
  %f = load atomic ptr, ptr {kernel} monotonic, align 8
  %a = load atomic ptr, ptr {src} monotonic, align 8
  %b = load atomic ptr, ptr {dst} monotonic, align 8
  %most = load atomic i64, ptr {threads} monotonic, align 8
  %asked = icmp slt i64 %index, %most
  br i1 %asked, label %try, label %idle
try:
  %got = cmpxchg ptr {ticket}, i64 %t, i64 %t1 acq_rel monotonic
  %won = extractvalue {{ i64, i1 }} %got, 1
  br i1 %won, label %run, label %look
run:
  call void %f(ptr %a, ptr %b, i64 %next, i64 %n)
  %p = atomicrmw sub ptr {left}, i32 1 release
  br label %look
idle:
  %k1 = add i32 %k, 1
  %tired = icmp sgt i32 %k1, 2000
  br i1 %tired, label %sleep, label %rest
rest:
  {pause}
  br label %look
sleep:
  %t32 = lshr i64 %t, 32
  %seen = trunc i64 %t32 to i32
  %s0 = atomicrmw add ptr {sleeping}, i32 1 seq_cst
  %r = call i64 (i64, ...) @syscall(i64 {_FUTEX}, ptr {generation}, i32 128, i32 %seen, ptr null)
  %s1 = atomicrmw sub ptr {sleeping}, i32 1 seq_cst
  br label %look
}}

define void @parallel(ptr %f, ptr %a, ptr %b, i64 %asked) nounwind {{
entry:
  %most = and i64 %asked, 65535
  %heavy = icmp ult i64 %asked, {NO_WAKE}
  %got = cmpxchg ptr {busy}, i32 0, i32 1 acquire monotonic
  %free = extractvalue {{ i32, i1 }} %got, 1
  br i1 %free, label %publish, label %alone
alone:
  call void %f(ptr %a, ptr %b, i64 0, i64 1)
  ret void
publish:
  store atomic ptr %f, ptr {kernel} monotonic, align 8
  store atomic ptr %a, ptr {src} monotonic, align 8
  store atomic ptr %b, ptr {dst} monotonic, align 8
  store atomic i64 %most, ptr {threads} monotonic, align 8
  %number = trunc i64 %most to i32
  store atomic i32 %number, ptr {left} release, align 4
  %old = load atomic i64, ptr {ticket} monotonic, align 8
  %g0 = lshr i64 %old, 32
  %g1 = add i64 %g0, 1
  %g = shl i64 %g1, 32
  %parts = shl i64 %most, 16
  %new = or i64 %g, %parts
  %before = atomicrmw xchg ptr {ticket}, i64 %new seq_cst
  %asleep = load atomic i32, ptr {sleeping} seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %rouse, label %share
rouse:
  br i1 %heavy, label %wake, label %rate
rate:
  %then = load i64, ptr {last}
  %clock = {cycles}
  %since = sub i64 %clock, %then
  %s = sub i64 %since, 1
  %close = icmp ult i64 %s, {_CLOSE}
  br i1 %close, label %wake, label %share
wake:
  call void @keep_apart(i64 %most)
  %r = call i64 (i64, ...) @syscall(i64 {_FUTEX}, ptr {generation}, i32 129, i32 2147483647)
  br label %share
share:
{open_part}  br i1 %open, label %try, label %join
try:
  %took = cmpxchg ptr {ticket}, i64 %t, i64 %t1 acq_rel monotonic
  %won = extractvalue {{ i64, i1 }} %took, 1
  br i1 %won, label %run, label %share
run:
  call void %f(ptr %a, ptr %b, i64 %next, i64 %n)
  %p = atomicrmw sub ptr {left}, i32 1 release
  br label %share
join:
  %k = phi i32 [ 0, %share ], [ %k1, %turn ]
  %still = load atomic i32, ptr {left} acquire, align 4
  %ready = icmp eq i32 %still, 0
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
  br i1 %heavy, label %open_, label %stamp
stamp:
  %now = {cycles}
  store i64 %now, ptr {last}
  br label %open_
open_:
  store atomic i32 0, ptr {busy} release, align 4
  ret void
}}
"""


class Pool:
    """The workers of this process. `parallel` dispatches a kernel: void (kernel, src, dst, threads), at `address`."""

    def __init__(self) -> None:
        text = _source(host())
        self.code = Code(text, host(), ("reset", "worker", "parallel"), level=0, key=text)
        self.workers = 0
        signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        self.address = self.code.address("parallel")
        self.parallel: Any = signature(self.address)

    def grow(self, threads: int) -> None:
        """Starts workers until `threads` can work, the caller included, or until the system gives no more.

        Fewer workers do all of the work, too: parts are taken, not assigned.
        """
        run: Any = ctypes.CFUNCTYPE(None, ctypes.c_int64)(self.code.address("worker"))
        while self.workers < threads - 1:
            number = self.workers + 1
            try:
                threading.Thread(target=run, args=(number,), daemon=True, name=f"layout-ir-{number}").start()
            except RuntimeError:
                return
            self.workers = number


_pool: Pool | None = None
_lock = threading.RLock()
fork_safe(_lock)


def available(threads: int) -> int:
    """How many of `threads` can share a kernel here: 1 where there is no pool, else no more than there are CPUs."""
    if not _FUTEX or sys.implementation.name != "cpython":
        return 1
    return max(1, min(threads, cpus()))


def cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ensure(threads: int) -> Pool:
    """The pool of this process, with workers for `threads`, the caller included; started by the first call."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = Pool()
        _pool.grow(threads)
        return _pool


def _restart() -> None:
    """In a forked child the workers are gone, with whatever they were doing: the same state starts afresh."""
    if _pool is not None:
        ctypes.CFUNCTYPE(None)(_pool.code.address("reset"))()
        threads, _pool.workers = _pool.workers + 1, 0
        _pool.grow(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart)
