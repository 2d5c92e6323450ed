"""The tools as processes: standard streams that are closed or full, broken pipes, and exit statuses."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Generator
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


def exit_status(run: Callable[[], int]) -> int:
    """The exit status of a tool: what `run` returns once all that it printed is where standard output goes, 130 after
    Ctrl-C, and 1 where that output takes no more.

    An output that is full or closed is one line of error, unless `run` ended with an error of its own; nothing is said
    where the reader has gone (`... | head`). SystemExit, which argparse raises behind `--help`, is raised again.
    """
    status: int | str | None = 0
    try:
        try:
            status = run()
        except KeyboardInterrupt:
            status = 130
        except SystemExit as end:
            status = end.code
            sys.stdout.flush()
            raise
        sys.stdout.flush()
        return status
    except OSError as error:
        if not status and not isinstance(error, BrokenPipeError):
            with suppress(OSError):
                print(f"{error.filename or '<stdout>'}: error: {error.strerror or error}", file=sys.stderr)
        # Buffered text would raise again at interpreter exit.
        with open(os.devnull, "w") as nowhere, suppress(OSError, ValueError):
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return status if isinstance(status, int) and status else 1


def print_usage(message: str, file: Any = None) -> None:
    """Prints what argparse would, which says nothing of an output that takes no more. Raises OSError."""
    if message:
        (file or sys.stderr).write(message)
