"""Leaving the garbage collector alone while a large program is worked on."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Generator[None]:
    """The garbage collector is off in the body, and on again behind it if it was.

    The collector visits all objects whenever there are a quarter more of them. A program of 10^5 ops has some millions,
    and what selection makes stays: collections take a third of the time and find nothing. Garbage in cycles, as erased
    ops are, waits for the next collection.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
