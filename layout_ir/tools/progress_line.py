"""A line on the terminal that says what a command is at, from its second second on."""

from __future__ import annotations

import sys
import threading
from time import monotonic
from types import TracebackType
from typing import Self

FIRST_SECONDS = 1.0
"""What takes no longer says nothing."""


class ProgressLine:
    """While the body runs, `what` and the seconds so far, on standard error where that is a terminal, else nothing.

    The line goes when the body is over, so that what is printed then stands alone.
    """

    def __init__(self, what: str):
        self.what = what
        self._counted = ""
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._draw, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def count(self, done: int, of: int) -> None:
        """Says how many steps are done, and how many there are."""
        self._counted = f" {done}/{of}"

    def percent(self, done: int, of: int) -> None:
        """Says which share is done of what may be large, as bytes are."""
        self._counted = f" {100 * done // of} %" if of else ""

    def _draw(self) -> None:
        begin = monotonic()
        drawn = False
        while not self._over.wait(FIRST_SECONDS):
            drawn = True
            text = f"\r\033[K{self.what}{self._counted}, {monotonic() - begin:.0f} s"
            print(text, end="", file=sys.stderr, flush=True)
        if drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
