"""Memory of large results: that of earlier ones, where nobody has these any more.

What a large array leaves goes back to the system, which clears its pages when it gives them out again: 4 caches of
12 MB, as two layers of a decoder give them at each step, make a call of 10 ms 5 ms longer (Zen 3). So memory of results
is remembered, and given out again once no array is over it; NumPy, PyTorch and whoever else looks at a result keep a
reference to it. Remembered is that of the last two calls, since the results of one are often the inputs of the next.
Before memory is asked for, what is remembered of about that size and free is forgotten.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from layout_ir.elements.aligned_arrays import at_line
from layout_ir.elements.cache_line import LINE
from layout_ir.elements.numpy_types import Array

LARGE = 1 << 20
"""Bytes from which on results are remembered: the C library keeps the memory of smaller arrays itself."""

_SLACK = 8
"""Memory is larger than was asked for by this part of it, for a cache that grows. Pages that nobody writes take no
memory."""

Kind = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and elements of an array."""


def new_results(kinds: Sequence[Kind]) -> list[Array]:
    """Arrays for the results of a call, in order, whose elements are arbitrary. Any number of threads may ask."""
    try:
        known = _remembered.pop()
    except IndexError:  # another thread has it
        return [np.empty(*kind) for kind in kinds]
    try:
        made = [_new(kind, known) for kind in kinds]
        count = 2 * sum(array.base is not None for array in made)
        while len(known) > count > 0:
            known.popleft()
        return made
    finally:
        _remembered.append(known)


def _new(kind: Kind, known: deque[Array]) -> Array:
    shape, dtype = kind
    nbytes = dtype.itemsize
    for extent in shape:
        nbytes *= extent
    if nbytes < LARGE or not _counts_references():
        return np.empty(shape, dtype)
    memory = _free(nbytes + LINE, known)
    if memory is None:
        memory = np.empty(nbytes + LINE + nbytes // _SLACK, np.uint8)
    known.append(memory)
    return at_line(memory, nbytes).view(dtype).reshape(shape)


def _free(nbytes: int, known: deque[Array]) -> Array | None:
    """Memory that fits and that no array is over, taken out of what is known; None where there is none, and what is
    free and of about that size is forgotten."""
    for _ in range(len(known)):
        size = known[0].nbytes
        is_near = nbytes // 2 <= size <= 2 * nbytes and _references(known) == _ALONE
        memory = known.popleft()
        if is_near and nbytes <= size <= nbytes + 2 * (nbytes // _SLACK):
            return memory
        if not is_near:
            known.append(memory)
    return None


def _references(arrays: deque[Array]) -> int:
    """How many references the first array has, that of the sequence and those of this call among them."""
    return sys.getrefcount(arrays[0])


_ALONE = _references(deque([np.empty(0)]))

_counts_references: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
"""Whether references are all counted at once: not where threads run without a lock over all."""

_remembered: deque[deque[Array]] = deque([deque()])
"""What is known, while no thread has it: the oldest first."""
