"""Leaving the garbage collector alone while a large program is worked on."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Generator[None]:
    """Garbage is not looked for meanwhile.

    The collector visits all objects whenever there are a quarter more of them; a program of 10^5 ops has some
    millions, and what is made here stays: nothing is found, for a third of the time. What is dropped meanwhile and
    is part of a cycle (erased ops are) waits for the next collection.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
