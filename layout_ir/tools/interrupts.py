"""Ctrl-C while a tool starts. Imported before anything else, so it imports next to nothing itself."""

from __future__ import annotations

import os
import signal


def _end(number: int, frame: object) -> None:
    os._exit(128 + number)


class SilentInterrupts:
    """Ends the process with status 130 at Ctrl-C in the body, which imports modules and has nothing to clean up.

    Python would print a traceback, or an import would take the interrupt for a module that is not there. Nothing is
    done where the tool was called as a function (not `is_process`), in another thread, or where interrupts are ignored.
    """

    def __init__(self, is_process: bool):
        self._is_ours = is_process and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def __enter__(self) -> None:
        if self._is_ours:
            try:
                signal.signal(signal.SIGINT, _end)
            except ValueError:  # not the main thread, which alone is interrupted
                self._is_ours = False

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
