"""Loops around the accesses of tensors, one of which may have lanes, and their division among threads.

The loop with lanes is innermost. Of its last iterations, where the lanes do not divide them, some lanes are masked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from layout_ir.backends.llvm.emission.iteration import Partition, all_iterations, partition
from layout_ir.backends.llvm.loops.loop_nest import Loop
from layout_ir.backends.llvm.loops.tensor_access import Cursor, TensorAccess

_PARTS = 16
"""Iterations of a loop from which on it is divided among threads, outer ones first: then no thread waits for long."""

_STRIDED = 1.5
"""What an element costs that is gathered lane by lane, in loads of vectors. Only its order of magnitude matters: it
decides which loop has the lanes."""

Body = Callable[[Cursor, int], None]
"""Code for the iterations in the lanes at a cursor, which is told how many lanes there are."""


@dataclass(frozen=True, eq=False)
class LaneLoops:
    """Code of loops around the accesses of `access`; `natural` lanes make a register."""

    access: TensorAccess
    natural: int

    def cost(self, loop: Loop) -> float:
        """What an iteration costs on lanes along this loop, in loads of vectors."""
        lanes = min(self.natural, power_of_two(loop.count))
        used = loop.count / -(-loop.count // lanes)
        total = 0.0
        for k, tensor in enumerate(self.access.tensors):
            if tensor.positions:
                continue
            step = loop.step(k)
            if tensor.gathered is not None and loop.step(tensor.gathered[0]) != 0:
                step = None
            total += 1 / used if step in (0, 1) else _STRIDED
        return total

    def best(self, loops: Sequence[Loop]) -> int:
        """The loop on which lanes cost least; -1 where there is none."""
        return min(range(len(loops)), key=lambda k: (self.cost(loops[k]), -k), default=-1)

    def divided(
        self, loops: list[Loop], lanes_of: int, lanes: int, start: tuple[str, ...], body: Body
    ) -> None:
        """Loops around `body`, one divided among threads; loop `lanes_of` (-1: none) is innermost and has lanes."""
        b = self.access.b
        outer = [loop for k, loop in enumerate(loops) if k != lanes_of]
        vector = loops[lanes_of] if lanes_of >= 0 else None
        counts = [loop.count for loop in outer] + ([vector.count // lanes] if vector is not None else [])
        divided = next((k for k, count in enumerate(counts) if count >= _PARTS), -1)
        if divided < 0 and counts:
            divided = max(range(len(counts)), key=lambda k: counts[k])
            divided = divided if counts[divided] > 1 else -1

        def nested(depth: int, cursor: Cursor) -> None:
            if depth < len(outer):
                split = partition(b, parallel=True) if depth == divided else all_iterations
                with b.loop(*split(outer[depth].count)) as index:
                    nested(depth + 1, self.access.stepped(cursor, outer[depth], index))
                return
            if vector is None:
                body(cursor, 1)
                return
            split = partition(b, parallel=True) if divided == len(outer) else all_iterations
            self.vector_loop(vector, lanes, cursor, split, body, is_divided=divided == len(outer))

        if divided < 0:
            # One thread does it all.
            low, high = partition(b, parallel=True)(1)
            with b.loop(low, high):
                nested(0, Cursor(start))
        else:
            nested(0, Cursor(start))

    def vector_loop(
        self,
        loop: Loop,
        lanes: int,
        cursor: Cursor,
        split: Partition,
        body: Body,
        *,
        is_divided: bool = False,
    ) -> None:
        """A loop with lanes around `body`, which is told how many there are; the last of them are masked."""
        b = self.access.b
        blocks, rest = divmod(loop.count, lanes)
        cursor = self.access.resolved(replace(cursor, steps=loop.steps))
        if blocks:
            with b.loop(*split(blocks)) as index:
                body(self.access.at_lane(cursor, b.mul(index, lanes)), lanes)
        if not rest:
            return
        size = power_of_two(rest)
        last = replace(self.access.at_lane(cursor, blocks * lanes), mask=first_lanes(size, rest))
        if is_divided:
            low, high = partition(b, parallel=True)(1)
            with b.loop(low, high):
                body(last, size)
        else:
            body(last, size)

    def plain_loops(self, loops: Sequence[Loop], cursor: Cursor, body: Callable[[Cursor], None]) -> None:
        """Loops without lanes around `body`, which one thread runs."""
        if not loops:
            body(cursor)
            return
        with self.access.b.loop(0, loops[0].count) as index:
            self.plain_loops(loops[1:], self.access.stepped(cursor, loops[0], index), body)


def power_of_two(count: int) -> int:
    """The power of two from `count` on, 1 at least."""
    return 1 << max(count - 1, 0).bit_length()


def first_lanes(size: int, count: int) -> str:
    """The first `count` of `size` lanes; empty where that is all of them."""
    if size == count:
        return ""
    return f"<{', '.join(f'i1 {str(lane < count).lower()}' for lane in range(size))}>"
