"""Copies of plain bytes, whose rate is the copy bandwidth: the baseline that reorders are compared with."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.llvm.runtime.compiled_plan import Reorder, load
from layout_ir.dialects.kernel.plan import Copy, Loop, Plan, Step

_BLOCK = 1 << 12


@cache
def plain_copy(size: int, threads: int = 1) -> Callable[[Any, Any], None]:
    """A kernel that copies `size` bytes through the caches, on up to `threads` threads."""
    return _copy(size, threads, streaming=False)


@cache
def streaming_copy(size: int, threads: int = 1) -> Callable[[Any, Any], None]:
    """A kernel that copies `size` bytes with stores that bypass the caches; its destination is aligned to 64 bytes."""
    return _copy(size, threads, streaming=True)


def _copy(size: int, threads: int, *, streaming: bool) -> Reorder:
    blocks, rest = divmod(size, _BLOCK)
    steps = [Step((), 0, 0, Copy(_BLOCK, Loop(blocks, _BLOCK, _BLOCK), streaming))] if blocks else []
    if rest:
        steps.append(Step((), size - rest, size - rest, Copy(rest)))
    return load(Plan(1, size, size, tuple(steps)), host(), thread_pool.available(threads))
