"""Forks of a process with threads: a child finds no lock taken and no module half loaded.

Only the thread that forks goes on in the child. What another was about to do stays half done there, and the lock
that it held stays taken for ever. So a process that forks waits until nobody holds one of these locks, and holds
them itself meanwhile.
"""

from __future__ import annotations

import os
from functools import wraps
from threading import RLock
from weakref import ref

TYPE_CHECKING = False  # that of `typing`, which takes longer to import than all else here
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any, TypeVar

    Lock = AbstractContextManager[Any]
    T = TypeVar("T")

loading = RLock()
"""Held while modules are imported on first use: of those that another thread is importing while a process forks,
the child would have half and wait for the rest (Python's own locks of modules are not renewed). Taken before any
other lock of these."""


loading_late = RLock()
"""The same where other locks of these may be held: taken after them, and while no other is taken."""


def made_once(make: Callable[[], T]) -> Callable[[], T]:
    """A function that gives what `make` makes at its first call, also to threads that come meanwhile: `functools.cache`
    would have each of them make one."""
    made: list[T] = []

    @wraps(make)
    def get() -> T:
        if not made:
            with loading:
                if not made:
                    made.append(make())
        return made[0]

    return get


_locks: list[Callable[[], Lock | None]] = [lambda: loading_late]
_forks: list[list[Lock]] = []
"""What is held by forks that are under way: by one, or in a signal handler by one inside the other."""


def fork_safe(lock: Lock) -> None:
    """A process that forks waits for whoever holds `lock`, as long as there is this lock.

    Of locks that are taken one inside the other, the inner one comes here first. They are reentrant: a signal handler
    or a finalizer that comes in between may compile, call and fork as everybody may.
    """
    _locks.append(ref(lock, _locks.remove))


def fork_safe_when_there(find: Callable[[], Lock | None]) -> None:
    """The same for the lock that `find` gives, None before there is one, as before its module is imported. What makes
    it holds `loading_late` until `find` gives it, and takes no other lock of these."""
    _locks.append(find)


def _hold() -> None:
    while True:
        held: list[Lock] = []
        try:
            _take(loading, held)
            references = list(reversed(_locks))  # only now: who held `loading` may have added one
            locks = [_take(reference(), held) for reference in references]
            came = any(
                lock is None and reference() is not None
                for reference, lock in zip(references, locks, strict=True)
            )
        except BaseException:
            _give_back(held)
            raise
        if not came:
            break
        # One came about while this waited for `loading_late`, before which it is to be taken.
        _give_back(held)
    _forks.append(held)


def _take(lock: Lock | None, held: list[Lock]) -> Lock | None:
    if lock is not None:  # else it is gone
        lock.__enter__()
        held.append(lock)
    return lock


def _release() -> None:
    if _forks:  # else an interrupt came while it waited
        _give_back(_forks.pop())


def _give_back(held: list[Lock]) -> None:
    for lock in reversed(held):
        lock.__exit__(None, None, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)
