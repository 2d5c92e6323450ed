"""Whether stored elements are one element everywhere, a splat, of which programs keep and print a single one."""

from __future__ import annotations


def is_splat(data: bytes, size: int) -> bool:
    """Whether all elements, of `size` bytes each, have the same bits; False where there are none."""
    if not data:
        return False
    # Most constants differ early. The others are compared piece by piece, since a large one has no room for a copy.
    if data[size : 64 * size] != data[: 63 * size][: len(data) - size]:
        return False
    step = max((1 << 20) // size, 1) * size
    pattern = data[:size] * (min(step, len(data)) // size)
    return all(pattern.startswith(data[k : k + step]) for k in range(0, len(data), step))
