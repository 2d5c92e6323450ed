"""Forks of a process with threads: a child finds no lock taken and no module half loaded.

Only the thread that forks goes on in the child. What another was about to do stays half done there, and the lock
that it held stays taken for ever. So a process that forks waits until nobody holds one of these locks, and holds
them itself meanwhile.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, ExitStack
from threading import RLock
from typing import Any

loading = RLock()
"""Held while modules are imported on first use: of those that another thread is importing while a process forks,
the child would have half and wait for the rest (Python's own locks of modules are not renewed). Taken before any
other lock of these."""

_locks: list[AbstractContextManager[Any]] = []
_forks: list[ExitStack] = []
"""What is held by forks that are under way: by one, or in a signal handler by one inside the other."""


def fork_safe(lock: AbstractContextManager[Any]) -> None:
    """A process that forks waits for whoever holds `lock`.

    Of locks that are taken one inside the other, the inner one comes here first. They are reentrant: a signal handler
    or a finalizer that comes in between may compile, call and fork as everybody may.
    """
    _locks.append(lock)


def _hold() -> None:
    with ExitStack() as held:
        held.enter_context(loading)
        for lock in reversed(_locks):
            held.enter_context(lock)
        _forks.append(held.pop_all())


def _release() -> None:
    if _forks:  # else an interrupt came while it waited
        _forks.pop().close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)
