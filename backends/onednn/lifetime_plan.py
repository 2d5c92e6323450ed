"""Where in one arena each buffer lies while it lives.

Buffers that live at the same time lie apart; the others may share memory. The largest come first, and each takes the
tightest gap among those placed before it that live when it does. No plan needs less than what lives at once at the
worst moment, which is the lower bound that the size is stated beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from layout_ir.elements.cache_line import LINE


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer of `size` bytes that lives from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """Byte offsets of the buffers in an arena of `size` bytes; `lower_bound`: what any arena for them needs."""

    offsets: tuple[int, ...]
    size: int
    lower_bound: int


def plan_arena(lifetimes: Sequence[Lifetime]) -> ArenaPlan:
    """The offsets of buffers, each at the beginning of a cache line."""
    sizes = [_aligned(lifetime.size) for lifetime in lifetimes]
    order = sorted(range(len(lifetimes)), key=lambda k: (-sizes[k], lifetimes[k].first))
    # What is placed, in that order: a network may have thousands of buffers, each of which looks at all before it.
    firsts, lasts, lows, highs = np.zeros((4, len(lifetimes)), dtype=np.int64)
    for count, k in enumerate(order):
        own = lifetimes[k]
        (busy,) = np.nonzero((firsts[:count] <= own.last) & (lasts[:count] >= own.first))
        best: tuple[int, int] | None = None
        end = 0
        for low, high in sorted(zip(lows[busy].tolist(), highs[busy].tolist(), strict=True)):
            gap = low - end
            if gap >= sizes[k] and (best is None or gap < best[0]):
                best = gap, end
            end = max(end, high)
        firsts[count], lasts[count] = own.first, own.last
        lows[count] = end if best is None else best[1]
        highs[count] = lows[count] + sizes[k]
    offsets = [0] * len(lifetimes)
    for k, low in zip(order, lows.tolist(), strict=True):
        offsets[k] = low
    return ArenaPlan(tuple(offsets), max(highs.tolist(), default=0), _at_once(lifetimes, sizes))


def _at_once(lifetimes: Sequence[Lifetime], sizes: Sequence[int]) -> int:
    """The most bytes that live at one step."""
    changes: dict[int, int] = {}
    for lifetime, size in zip(lifetimes, sizes, strict=True):
        changes[lifetime.first] = changes.get(lifetime.first, 0) + size
        changes[lifetime.last + 1] = changes.get(lifetime.last + 1, 0) - size
    most = running = 0
    for step in sorted(changes):
        running += changes[step]
        most = max(most, running)
    return most


def _aligned(size: int) -> int:
    return -(-size // LINE) * LINE
