"""Which plan of a handful is the fastest here: measured once, remembered per machine.

What is remembered is the winner among the plans that were measured, by their texts: a planner that thinks of other
plans is asked again. Plans of one problem take turns, round after round. The planner's own first choice loses only to
one that is faster by more than the noise, and that is so again when just the two take turns: not by its best time but
by the interval that holds the median of their ratio. Whoever asks again gets the same answer without measuring, in this
process and in the next (`code_cache`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import index
from threading import RLock
from typing import Any

from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.runtime import code_cache
from layout_ir.backends.llvm.runtime.timing import Limits, least_times, race, touched_bytes
from layout_ir.dialects.kernel.plan import Plan
from layout_ir.errors import LayoutError
from layout_ir.forking import fork_safe

ROUNDS, BATCH = 9, 0.001
"""Turns of every plan, and seconds of calls in each."""

MARGIN = 0.03
"""How much faster a plan must be to be preferred to the one before it: what two turns of one plan differ by."""

CONFIRMATION = Limits(precision=MARGIN / 2, seconds=0.25, fewest=15, most=100, batch=BATCH)
"""Turns of the winner against the planner's choice, which keeps its place unless the interval says otherwise."""

_known: dict[str, str] = {}
"""The winner's text by the name of the choice: what this process has read or measured."""

_lock = RLock()  # one measurement at a time: two would slow each other
fork_safe(_lock)

Kernel = Callable[[Any, Any], None]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the plans that were asked for."""

    plan: Plan
    number: int
    """Its place among them; 0 is the planner's own first choice."""
    of: int
    remembered: bool
    """Whether it was known before."""


def choose(
    plans: Sequence[Plan], machine: Machine, threads: int, load: Callable[[Plan], Kernel] | None
) -> Choice:
    """The fastest of `plans` (the planner's first choice first) on `machine`, shared by `threads`.

    `load` makes a kernel of a plan; without it nothing is measured, and LayoutError says so where nothing is
    remembered. All plans do the same work on buffers of the same sizes.
    """
    if len(plans) == 1:
        return Choice(plans[0], 0, 1, True)
    texts = [_digest(plan) for plan in plans]
    name = code_cache.name("choice", machine, threads, *texts)
    with _lock:
        remembered = _known.get(name) or (code_cache.read(name) or b"").decode(errors="replace")
        if remembered in texts:
            _known[name], number = remembered, texts.index(remembered)
            return Choice(plans[number], number, len(plans), True)
        if load is None:
            raise LayoutError(
                f"no choice among {len(plans)} plans is remembered for {machine.cpu}, and only plans for this machine "
                "can be measured"
            )
        number = fastest([load(plan) for plan in plans], plans[0])
        _known[name] = texts[number]
        code_cache.write(name, texts[number].encode())
        return Choice(plans[number], number, len(plans), False)


def _digest(plan: Plan) -> str:
    return hashlib.sha256(repr(plan).encode()).hexdigest()


def fastest(kernels: Sequence[Kernel], plan: Plan) -> int:
    """The number of the fastest of `kernels`, which move the bytes of `plan`; 0 unless another is faster for certain.

    The one with the least time is run against the first again, by turns, until the interval of the ratio of their times
    is narrow, or `Limits` end it.
    """
    buffers = touched_bytes(index(plan.src_bytes)), touched_bytes(index(plan.dst_bytes))
    x, y = (int(buffer.ctypes.data) for buffer in buffers)
    calls = [partial(kernel, x, y) for kernel in kernels]
    least = preferred(least_times(calls, ROUNDS, BATCH))
    return least if least == 0 or is_faster(calls[least], calls[0]) else 0


def preferred(times: Sequence[float]) -> int:
    """The least of `times`, where it is below the first by more than the margin; else the first."""
    least = min(range(len(times)), key=lambda k: times[k])
    return least if times[least] < (1 - MARGIN) * times[0] else 0


def is_faster(call: Callable[[], object], than: Callable[[], object]) -> bool:
    """Whether the interval of the ratio of the two times, over rounds in which both have a turn, lies below 1."""
    times = race(
        {"one": call, "other": than}, lambda times: times.ratio("one", "other").uncertainty, CONFIRMATION
    )
    return times.ratio("one", to="other").high < 1
