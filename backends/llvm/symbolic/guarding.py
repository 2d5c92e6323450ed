"""What becomes of a comparison of open numbers that holds for some shapes only.

    strict      the example decides, and the answer is a condition of what follows
    generic     large extents decide, without a condition: for code that is right for all extents, whatever it assumes
    free        the same, and the example where it depends on which are large: for code that only chooses

Strict is the rule; functions are marked as one of the others. See `symint` for what this is good for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Literal, ParamSpec, TypeVar

Mode = Literal["strict", "generic", "free"]

_mode: ContextVar[Mode] = ContextVar("mode", default="strict")

P = ParamSpec("P")
R = TypeVar("R")


def mode() -> Mode:
    """Who decides now."""
    return _mode.get()


@contextmanager
def deciding(mode: Mode) -> Generator[None]:
    """Inside, `mode` decides."""
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)


def size_oblivious(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, told how large extents compare: whatever it assumes of them, its results are right for all."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with deciding("generic"):
            return function(*args, **kwargs)

    return inside


def unguarded(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, told how large extents or the example compare: whatever it chooses is right for all extents."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with deciding("free"):
            return function(*args, **kwargs)

    return inside
