"""Standard output whose reader may go."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress


@contextmanager
def quiet_broken_pipe() -> Generator[None]:
    """Let the body end early and silently when whoever reads standard output has gone (`... | head`)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered would raise again at interpreter exit.
        with open(os.devnull, "w") as nowhere, suppress(OSError, ValueError):
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
