"""The tools as processes: closed standard streams and broken pipes."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, NoReturn


class _Closed(io.TextIOBase):
    """Stands for a standard stream that was closed before the tool started: only its use is an error."""

    def __init__(self, name: str):
        self._name = name

    def _refuse(self, *_: Any) -> NoReturn:
        raise OSError(errno.EBADF, "it is closed", self._name)

    read = readline = write = writelines = fileno = _refuse

    def flush(self) -> None:
        """Nothing was written."""

    @property
    def buffer(self) -> io.TextIOBase:
        return self


@contextmanager
def standard_streams() -> Generator[None]:
    """All three standard streams for the body, where Python has None for those that are closed.

    Their file descriptors are opened to the null device, so that no file which the body opens gets one of them and
    receives messages of other code.
    """
    with ExitStack() as stack:
        if None in (sys.stdin, sys.stdout, sys.stderr):
            _fill_closed_numbers()
        if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
            sys.stdin = _Closed("<stdin>")  # pyright: ignore[reportAttributeAccessIssue]
            stack.callback(setattr, sys, "stdin", None)
        if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
            stack.enter_context(redirect_stdout(_Closed("<stdout>")))
        if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
            # `print(file=None)` would write to standard output.
            stack.enter_context(redirect_stderr(stack.enter_context(open(os.devnull, "w"))))
        yield


def _fill_closed_numbers() -> None:
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


@contextmanager
def quiet_broken_pipe() -> Generator[None]:
    """Ends the body silently where the reader of standard output has closed it (`... | head`)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Buffered text would raise again at interpreter exit.
        with open(os.devnull, "w") as nowhere, suppress(OSError, ValueError):
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
