"""The shuffle network that transposes K x K elements in every 16-byte lane of K registers, with in-lane unpacks alone.

Every level interleaves register i with register i + K/2: a perfect shuffle of K*K elements, which rotates the bits of
their position by one. After log2 K levels rows and columns have changed places.
"""

from __future__ import annotations

from layout_ir.backends.llvm.emission.llvm_builder import Builder, fenced, shuffle


def transposed(b: Builder, element: str, registers: list[str], lanes: int) -> list[str]:
    """The K x K matrix in every lane of K registers, transposed; "poison" stays where both of a pair are."""
    per_lane = len(registers)
    size, half = lanes * per_lane, per_lane // 2
    low = [at + k // 2 + (size if k % 2 else 0) for at in range(0, size, per_lane) for k in range(per_lane)]
    high = [k + half for k in low]
    for level in range(per_lane.bit_length() - 1):
        registers = fenced(b, element, registers, size) if level else registers
        following: list[str] = []
        for pair in zip(registers[:half], registers[half:], strict=True):
            if pair == ("poison", "poison"):
                following += pair
                continue
            following += [shuffle(b, element, *pair, size, mask) for mask in (low, high)]
        registers = following
    return registers


def joined(b: Builder, element: str, low: str, high: str, size: int) -> str:
    """Two registers of `size` elements one behind the other, "poison" where both are."""
    if (low, high) == ("poison", "poison"):
        return "poison"
    mask: list[int | None] = [
        None if part == "poison" else k for k, part in enumerate([low] * size + [high] * size)
    ]
    return shuffle(b, element, low, high, size, mask)
