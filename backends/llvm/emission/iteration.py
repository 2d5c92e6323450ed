"""What the loops around a micro-kernel tell it: where it works, and which of its iterations are its thread's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value
from layout_ir.backends.llvm.machine.machine import LINE
from layout_ir.symbolic.symint import Size

Partition = Callable[[Value], tuple[Value, Value]]
"""The iterations [low, high) that this thread runs, of a loop of so many."""


def partition(b: Builder, *, parallel: bool) -> Partition:
    """Part `%part` of `%parts` equal ones if the loop is `parallel`, all iterations if not."""

    def part(count: Value) -> tuple[Value, Value]:
        if not parallel:
            return 0, count
        low = b.put(f"mul nuw nsw i64 {b.operand(count)}, %part")
        low = b.put(f"udiv i64 {low}, %parts")
        high = b.add("%part", 1)
        high = b.put(f"mul nuw nsw i64 {b.operand(count)}, {high}")
        return low, b.put(f"udiv i64 {high}, %parts")

    return part


def all_iterations(count: Value) -> tuple[Value, Value]:
    """The partition of a loop that every thread runs whole."""
    return 0, count


@dataclass(frozen=True, slots=True)
class PrefetchCursor:
    """How far into the source of a loop's next iteration, at `base`, the prefetches of this one have got.

    What this iteration reads and what it prefetches advance alike, so that prefetches spread over all of it.
    """

    base: str
    position: Value = 0

    def ahead(self, b: Builder, offset: Value) -> PrefetchCursor:
        """The cursor `offset` bytes further."""
        return PrefetchCursor(self.base, b.add(self.position, offset))

    def prefetch(self, b: Builder, offset: Value, size: Size) -> None:
        """Prefetches the lines of `size` bytes, `offset` bytes behind the cursor; past the source this does nothing."""
        for _ in self.lines(b, offset, size):
            pass

    def lines(self, b: Builder, offset: Value, size: Size) -> Iterator[None]:
        """Like `prefetch`, but emits one prefetch each time it is asked for the next value."""
        at = b.at(self.base, b.add(self.position, offset))
        for line in range(0, size, LINE):
            yield b.prefetch(b.at(at, line))


@dataclass(frozen=True, slots=True)
class Pointers:
    """Where an iteration works: pointers into source and destination, and the channel of its first element.

    A pointer to elements of 4 bits is twice an address, so that offsets count half bytes.
    """

    src: str
    dst: str
    channel: Value = 0
    cursor: PrefetchCursor | None = None

    def moved(self, b: Builder, src: Value, dst: Value, channel: Value = 0) -> Pointers:
        """The pointers so many bytes (half bytes, where two elements share one) and channels further."""
        channel = b.add(self.channel, channel)
        return replace(self, src=b.at(self.src, src), dst=b.at(self.dst, dst), channel=channel)

    def advanced(self, b: Builder, steps: Value, src: Size, dst: Size, channel: Size = 0) -> Pointers:
        """The pointers `steps` steps of so many bytes and channels further."""
        channel_ = b.add(self.channel, b.mul(steps, channel))
        to = b.at(self.src, b.mul(steps, src))
        return replace(self, src=to, dst=b.at(self.dst, b.mul(steps, dst)), channel=channel_)

    def ahead(self, b: Builder, offset: Value) -> Pointers:
        """The pointers with their cursor `offset` bytes further, if they have one."""
        return self if self.cursor is None else replace(self, cursor=self.cursor.ahead(b, offset))
