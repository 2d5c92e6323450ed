"""Where in one arena each buffer lies while it lives.

Buffers that live at the same time lie apart; the others may share memory. The largest come first, and each takes the
tightest gap among those placed before it that live when it does. No plan needs less than what lives at once at the
worst moment, which is the lower bound that the size is stated beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64
"""Bytes of a cache line, to which buffers are aligned."""


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
    """The offsets of buffers, each a multiple of `ALIGNMENT`."""
    sizes = [_aligned(lifetime.size) for lifetime in lifetimes]
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    order = sorted(range(len(lifetimes)), key=lambda k: (-sizes[k], lifetimes[k].first))
    for k in order:
        own = lifetimes[k]
        busy = sorted(
            (offsets[j], offsets[j] + sizes[j])
            for j in placed
            if lifetimes[j].first <= own.last and own.first <= lifetimes[j].last
        )
        best: tuple[int, int] | None = None
        end = 0
        for low, high in busy:
            gap = low - end
            if gap >= sizes[k] and (best is None or gap < best[0]):
                best = gap, end
            end = max(end, high)
        offsets[k] = end if best is None else best[1]
        placed.append(k)
    size = max((offsets[k] + sizes[k] for k in placed), default=0)
    return ArenaPlan(tuple(offsets), size, _at_once(lifetimes, sizes))


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
    return -(-size // ALIGNMENT) * ALIGNMENT
