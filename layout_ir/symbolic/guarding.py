"""What becomes of a comparison of symbolic sizes that holds for some shapes only: the guarding policy.

    guarding         the hint decides, and the answer becomes a guard
    size-oblivious   large extents decide, without a guard, as if every symbol were large; where that does not tell, the
                     hint, with a guard. For code that is right for all extents, whatever it assumes: a loop is not left
                     out because it has one iteration. (`torch.fx.experimental.symbolic_shapes.guard_size_oblivious`)
    unguarded        the same, but the hint decides without a guard. For code that only chooses: orders of loops, which
                     of them threads share.

Guarding is the rule, functions are marked as one of the others. The policy is ambient, as a decimal context is: the
functions that it matters for (`bind`, `refine`, `sorted`) are written for ints, and compare without knowing of a
`ShapeEnv` that could be told. A `ContextVar` keeps it, so that threads which plan at the same time do not share it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Literal, ParamSpec, TypeVar

Policy = Literal["guarding", "size-oblivious", "unguarded"]

_policy: ContextVar[Policy] = ContextVar("guarding policy", default="guarding")

P = ParamSpec("P")
R = TypeVar("R")


def policy() -> Policy:
    """The policy at this point of the program."""
    return _policy.get()


@contextmanager
def under(policy: Policy) -> Generator[None]:
    """Comparisons inside of the context are decided under `policy`."""
    token = _policy.set(policy)
    try:
        yield
    finally:
        _policy.reset(token)


def size_oblivious(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, whose results are right for all extents whatever its comparisons are decided to be."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with under("size-oblivious"):
            return function(*args, **kwargs)

    return inside


def unguarded(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which only chooses among results that are right for all extents."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with under("unguarded"):
            return function(*args, **kwargs)

    return inside
