"""Results that are whole or not there at all."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress


def write_result(result: str | bytes, path: str | None) -> None:
    """Write `result` (text as UTF-8) to the file `path`, or to standard output for None and "-".

    A file is replaced in one step, so that a reader never sees half of it and an error keeps what was there.
    Raises OSError.
    """
    if path is None or path == "-":
        if isinstance(result, bytes):
            sys.stdout.flush()
            sys.stdout.buffer.write(result)
        else:
            sys.stdout.write(result)
        sys.stdout.flush()
        return
    data = result if isinstance(result, bytes) else result.encode("utf-8")
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        # A device or pipe (or a directory, which is refused here) cannot be replaced, only written to.
        with open(path, "wb") as stream:
            stream.write(data)
        return
    folder, name = os.path.split(path)
    part = os.path.join(folder, f".{name}.{os.getpid()}.part")
    try:
        with open(part, "xb") as stream:
            stream.write(data)
        if os.path.exists(path):
            shutil.copymode(path, part)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


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
