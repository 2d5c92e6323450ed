"""The files that tools and passes write, whole or not at all, and how much of a file is read at most.

`write_result` is the one way to write a file. A file is replaced in one step, so that a reader never sees half of it
and an error keeps what was there; a link is followed; a device or a pipe is written to and never replaced. Where one
command writes several files, `all_or_none` holds them back until all are complete:

    with all_or_none("kernel.o", "kernel.h"):   # both can be written, and are not one file: or nothing begins
        write_result(code, "kernel.o")
        write_result(header, "kernel.h")        # an error here leaves neither
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import BinaryIO

from layout_ir.errors import LayoutError

Result = str | bytes | Iterable[bytes | memoryview]
"""What a file is to hold: text, bytes, or bytes in parts, each asked for when those before it are written."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file, and what differs where it was written or replaced."""

    path: os.PathLike[str]
    stamp: tuple[int, ...]
    """Empty where there was none."""

    @staticmethod
    def of(path: os.PathLike[str]) -> FileState:
        """The file as it is now, links followed."""
        try:
            return FileState(path, stamp_of(os.stat(path)))
        except (OSError, ValueError):
            return FileState(path, ())

    def check_unchanged(self, advice: str) -> None:
        """Raises LayoutError, which ends with `advice`, where the file is another than it was, or gone."""
        now = FileState.of(self.path).stamp
        if now != self.stamp:
            raise LayoutError(f"'{self.path}' {'has changed' if now else 'is gone'}; {advice}")


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    """What differs where a file was written or replaced."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def write_result(result: Result, path: str | None) -> None:
    """Writes `result` (text as UTF-8) to the file `path`, or to standard output for None and "-".

    Inside `all_or_none` it is written when that ends. Raises OSError with `path` or "<stdout>" as its file name, and
    LayoutError for a second result of one `all_or_none` for the same file.
    """
    results = _pending.get()
    if results is not None:
        results.add(result, path)
        return
    with all_or_none():
        write_result(result, path)


@contextmanager
def all_or_none(*paths: str | None) -> Generator[Results]:
    """Let what the body writes with `write_result` appear together at its end, or, after an error, not at all.

    `paths` are files that the body is going to write, None being no file. Raises LayoutError where two of them are one
    file, and OSError for one that cannot be written, before the body runs. Inside another `all_or_none` the body's
    results wait for the end of that one.
    """
    outer = _pending.get()
    results = Results() if outer is None else outer
    named = [path for path in paths if path is not None]
    for k, path in enumerate(named):
        _check_writable(path)
        for other in named[:k]:
            _check_distinct(other, path)
    if outer is not None:
        yield results
        return
    token = _pending.set(results)
    try:
        yield results
        results.commit()
    finally:
        _pending.reset(token)
        results.discard()


class Results:
    """Results that wait to be seen: files complete under a temporary name beside their own, and what goes to streams.

    A temporary name is not derived from the file's own, which may be as long as names can be.
    """

    def __init__(self) -> None:
        self._files: list[_File] = []
        self._streams: list[tuple[Result, str | None]] = []

    def add(self, result: Result, path: str | None) -> None:
        """Takes `result` for `path`. Raises OSError and LayoutError as `write_result` does."""
        if path is None or path == "-" or _is_standard_output(path):
            self._streams.append((result, None))
            return
        _check_writable(path)
        if os.path.exists(path) and not os.path.isfile(path):
            self._streams.append((result, path))
            return
        for other in self._files:
            _check_distinct(other.name, path)
        file = _File(path)
        self._files.append(file)
        file.write(_parts(result))

    def commit(self) -> None:
        """Let all results be seen. After an error the files are what they were; streams may have been written to."""
        streams, self._streams = self._streams, []
        for result, path in streams:
            _write_stream(result, path)
        try:
            for file in self._files:
                file.replace(keep=len(self._files) > 1)
        except BaseException:
            for file in reversed(self._files):
                file.restore()
            raise
        finally:
            self.discard()

    def discard(self) -> None:
        """Forget what is not yet seen."""
        files, self._files, self._streams = self._files, [], []
        for file in files:
            file.clean()


class _File:
    """The regular file `name`, existing or not, its new content in `part` and its old one, while needed, in `old`."""

    def __init__(self, name: str):
        self.name = name
        self.target = os.path.realpath(name)
        self.part = _beside(self.target)
        self.old: str | None = None
        self.is_replaced = False

    def write(self, parts: Iterable[bytes | memoryview]) -> None:
        """Writes the new content under the temporary name."""
        with _named(self.name):
            handle = os.open(
                self.part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
            )
            with open(handle, "wb") as stream:
                for part in parts:
                    stream.write(part)
            with suppress(FileNotFoundError):
                os.chmod(self.part, stat.S_IMODE(os.stat(self.target).st_mode) & 0o777)

    def replace(self, keep: bool) -> None:
        """Let the new content be seen; with `keep` the old one can be brought back."""
        with _named(self.name):
            if keep and os.path.exists(self.target):
                old = _beside(self.target)
                try:
                    os.link(self.target, old)
                except OSError:  # a file system without links, or another user's file
                    shutil.copy2(self.target, old)
                self.old = old
            os.replace(self.part, self.target)
            self.is_replaced = True

    def restore(self) -> None:
        """Bring back what was there before `replace`, if that was reached."""
        if self.is_replaced:
            with suppress(OSError):
                if self.old is None:
                    os.unlink(self.target)
                else:
                    os.replace(self.old, self.target)

    def clean(self) -> None:
        """Remove the temporary names that are left."""
        for path in (self.part, self.old):
            if path is not None:
                with suppress(OSError):
                    os.unlink(path)


_pending: ContextVar[Results | None] = ContextVar("pending", default=None)


def _beside(path: str) -> str:
    """A name that is not in use, in the folder of `path`."""
    return os.path.join(os.path.dirname(path), f".layout-ir-{os.urandom(8).hex()}.part")


def _parts(result: Result) -> Iterable[bytes | memoryview]:
    if isinstance(result, str):
        return [result.encode("utf-8")]
    return [result] if isinstance(result, bytes) else result


def _write_stream(result: Result, path: str | None) -> None:
    """Writes to standard output, or to the device or pipe `path`."""
    if path is not None:
        with _named(path), open(os.open(path, os.O_WRONLY), "wb") as stream:
            stream.writelines(_parts(result))
        return
    # Python has no stream at all for an output that is closed.
    out: object = sys.stdout
    if out is None:
        raise OSError(errno.EBADF, "standard output is closed")
    with _named("<stdout>"):
        if isinstance(result, str):
            sys.stdout.write(result)
        else:
            sys.stdout.flush()
            sys.stdout.buffer.writelines(_parts(result))
        sys.stdout.flush()


def _is_standard_output(path: str) -> bool:
    """Whether `path` is where standard output goes, as /dev/stdout is: then the two share one position."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):  # no such file; no stream behind standard output
        return False


def _check_writable(path: str) -> None:
    """Raises OSError where it can be seen that `path` cannot be written. Touches nothing."""
    if path == "-" or _is_standard_output(path):
        return
    try:
        target = os.path.realpath(path)
        folder = os.path.dirname(target)
        if os.path.islink(target):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if os.path.exists(path):
            if os.path.isdir(path):
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            # To replace a file its folder would do; who took the permission to write it away meant it to stay.
            if not os.access(path, os.W_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
            if not os.path.isfile(path):
                return
        elif not path or not os.path.exists(folder):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        elif path.endswith(("/", os.sep)):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not os.path.isdir(folder):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
    except ValueError as error:  # a NUL
        raise OSError(errno.EINVAL, str(error), path) from error


def check_kept(read: str | None, *written: str | None) -> None:
    """Raises LayoutError where one of the files `written` is the one that is `read`: a report would replace it."""
    for path in written:
        if read is not None and path is not None and "\0" not in read + path and _is_one_file(read, path):
            same = "" if path == read else f", the same file as '{path}',"
            raise LayoutError(
                f"'{read}'{same} is read, and a result would be written over it: name another file"
            )


def _check_distinct(one: str, other: str) -> None:
    """Raises LayoutError where two names stand for one file, or both for standard output."""
    if one == other == "-":
        raise LayoutError("two results would go to standard output: name a file for one of them")
    if _is_one_file(one, other):
        which = f"both to '{one}'" if one == other else f"to '{one}' and '{other}', which are one file"
        raise LayoutError(f"two results would be written {which}: name two files")


def _is_one_file(one: str, other: str) -> bool:
    """Whether two names stand for one file. Devices and pipes take what comes."""
    if "-" in (one, other) or (os.path.exists(one) and not os.path.isfile(one)):
        return False
    same = os.path.realpath(one) == os.path.realpath(other)
    return same or (os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other))


@contextmanager
def _named(path: str) -> Generator[None]:
    """Let errors of the body name `path`, whatever other name the body used."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, path) from error


MOST_WITHOUT_SIZE = 1 << 31
"""Bytes that are read of a device or a pipe, which has no size: as many as a message of protobuf may have."""


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """The content of the file `path`, whatever its size; of a device or a pipe, `MOST_WITHOUT_SIZE` bytes at most.

    Raises OSError, and LayoutError for one that goes on, as /dev/zero does; the error does not name it.
    """
    with open(path, "rb") as stream:
        if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return stream.read()
        return read_stream(stream, MOST_WITHOUT_SIZE)


def check_can_be_read_again(path: str) -> None:
    """Raises LayoutError for a pipe or a device, which gives what it has to the first who reads it."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise LayoutError(f"{path} is no file, and is read more than once: write what it gives to one")


def read_stream(stream: BinaryIO, limit: int) -> bytes:
    """All that comes from `stream`. Raises LayoutError where that is more than `limit` bytes.

    It is read in parts: at once, it would take memory for `limit` bytes, however few come.
    """
    parts: list[bytes] = []
    left = limit
    while part := stream.read(min(left + 1, _PART)):
        parts.append(part)
        left -= len(part)
        if left < 0:
            raise LayoutError(f"larger than {limit} bytes, the most that is read of such a file")
    return b"".join(parts)


_PART = 1 << 22


def read_bounded(path: str, limit: int) -> bytes:
    """The content of the file `path`, of at most `limit` bytes. Raises OSError, and LayoutError where it has more.

    What has no size, a device or a pipe, is read up to the limit, so that /dev/zero ends. The error does not name the
    file: whoever reads it knows what it is.
    """
    with open(path, "rb") as stream:
        if os.fstat(stream.fileno()).st_size > limit:
            raise LayoutError(f"larger than {limit} bytes, the most that is read of such a file")
        return read_stream(stream, limit)
