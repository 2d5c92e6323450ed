"""What surrounds a micro-kernel: loops with constant steps, tables, and dims whose last block is not whole.

Strides and offsets count bytes (half bytes on a side of 4-bit elements).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class Loop:
    """`count` rounds, `src` and `dst` bytes apart. From round `valid` on (0: none) the destination gets pads."""

    count: int
    src: int
    dst: int
    valid: int = 0
    channel: int = 0
    """How many channels later the next round is, where a conversion has numbers for each."""

    def __str__(self) -> str:
        return f"for {self.count}: src{self.src:+} dst{self.dst:+}{channel_text(self.channel)}"


ONCE = Loop(1, 0, 0)


@dataclass(frozen=True, slots=True)
class Table:
    """A round per entry, at src[k] and dst[k] bytes, `channel` channels apart."""

    src: tuple[int, ...]
    dst: tuple[int, ...]
    channel: int = 0

    @property
    def count(self) -> int:
        return len(self.src)

    def __str__(self) -> str:
        shown = ", ".join(f"{s}:{d}" for s, d in list(zip(self.src, self.dst, strict=True))[:8])
        return f"table {self.count}: {shown}{', ...' if self.count > 8 else ''}{channel_text(self.channel)}"


def channel_text(step: int) -> str:
    return f" channel{step:+}" if step else ""


@dataclass(frozen=True, slots=True)
class Level:
    """One digit of a ragged dim: steps of `unit` indices, as a linear loop or a table."""

    unit: int
    move: Loop | Table


@dataclass(frozen=True, slots=True)
class Ragged:
    """The positions [start, stop) of one dim whose digits are `levels` (fine to coarse).

    The bounds of the inner loops depend on the outer ones. Used where cutting the dim into boxes would make too many
    steps.
    """

    levels: tuple[Level, ...]
    start: int
    stop: int

    def __str__(self) -> str:
        digits = ", ".join(f"{level.unit}: ({level.move})" for level in self.levels)
        return f"ragged [{self.start}, {self.stop}): {digits}"


Item = Loop | Table | Ragged


def rounds(items: tuple[Item, ...]) -> int:
    """How often the body runs."""
    return prod(item.stop - item.start if isinstance(item, Ragged) else item.count for item in items)
