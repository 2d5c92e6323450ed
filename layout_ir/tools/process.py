"""What the tools are as processes: standard streams that may be closed or whose reader may go, and tracebacks for
those who asked for them."""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, NoReturn

from layout_ir.errors import UnforeseenError, wants_traceback


class _Closed(io.TextIOBase):
    """A standard stream that whoever started the tool has closed: using it is an error, having it is none."""

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
    """Gives the body all three standard streams, where Python has None for those that are closed.

    Their numbers are taken by the null device, so that no file of the body becomes what others write messages to.
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
            # There is nobody to tell; `print(file=None)` would write to standard output.
            stack.enter_context(redirect_stderr(stack.enter_context(open(os.devnull, "w"))))
        yield


def _fill_closed_numbers() -> None:
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


def show_traceback(error: BaseException) -> None:
    """Prints the traceback of what nobody foresaw to standard error, for users who asked for it."""
    if isinstance(error, UnforeseenError) and wants_traceback():
        traceback.print_exception(error)


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
