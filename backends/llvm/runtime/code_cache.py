"""What was found out once, on disk: machine code, which plan was fastest, and what memory is like.

A file is named by its kind, the version of the format and the hash of everything its content depends on (for code:
the plan, the compiler's own sources, the CPU and its features, the versions of LLVM and its binding). It holds a header
with the hash of its name and content; a file that is cut short, damaged, of another version or renamed is not used and
is written anew. Writers finish in a file of their own and rename it, so a reader never sees half of one, and of two
writers the last one wins. Whatever the file system refuses is no error: then nothing is kept.

Code that is read is run, so nobody else may have a hand in it. The folder is ours and only ours to write, and so is
the way to it from the home directory (from the root, where the folder is elsewhere): every folder and every link on it
belongs to us or to root and is not writable to others, or sticky. Files are opened in that folder, not by a path that
could change; one that is a link or has another name, that is no regular file, not ours or writable to others, or too
large, is not used. Where the folder fails nothing is kept, and a warning says so once.

The folder is $LAYOUT_IR_CACHE, or layout-ir in the user's cache folder; LAYOUT_IR_CACHE=off turns it off. A relative
path, which would be another folder wherever a program starts, does not count. There may be other files in the folder;
they are left alone.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from layout_ir.version import __version__

VERSION = 3
"""The version of the files, and of whatever makes code that does not show in its LLVM IR."""

_MAGIC = f"layout-ir {VERSION}\n".encode()
_MOST_FILES = 4096
_MOST_BYTES = 1 << 24
"""The most bytes of one file, written or read: kernels take 2 to 200 KiB, and what is larger is compiled anew. All the
files that are kept are of this size at most, so that one that is not cannot fill the memory."""
_DROPPED = re.compile(r"(code|choice)-\d+-[0-9a-f]{64}|\.layout-ir-.*")
"""Our files that are dropped when there are too many. Profiles are few, old, and what all plans depend on: without one
the machine would be measured again, and code made anew for other plans. So is what LLVM says of the processor."""

_FOR_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40
"""How many links on the way to the folder are followed, as many as Linux follows."""


def folder() -> Path | None:
    """Where files are kept; None if nowhere."""
    chosen = os.environ.get("LAYOUT_IR_CACHE")
    if chosen is not None and (chosen == "" or chosen.lower() == "off"):
        return None
    if chosen is not None and os.path.isabs(chosen):  # it counts only then, as does the other
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "layout-ir"
    try:
        return Path.home() / ".cache" / "layout-ir"
    except RuntimeError:  # no home
        return None


def name(kind: str, *parts: object) -> str:
    """The file for what depends on `parts` and our version alone; of kind "code", "choice", "host", "profile" or
    "attempts"."""
    digest = hashlib.sha256("\0".join(map(str, (__version__, *parts))).encode()).hexdigest()
    return f"{kind}-{VERSION}-{digest}"


def read(name: str) -> bytes | None:
    """The content of that file, if there is a sound one."""
    try:
        with _opened(create=False) as where:
            data = b"" if where is None else _read(name, where)
    except OSError:
        return None
    start = len(_MAGIC) + 32
    content = data[start:]
    sound = data.startswith(_MAGIC) and data[len(_MAGIC) : start] == _digest(name, content)
    return content if sound else None


def keeps() -> bool:
    """Whether files can be kept: nobody else may write in the folder, and this process may; it is made if missing."""
    try:
        with _opened(create=True) as where:
            return where is not None and os.access(".", os.W_OK | os.X_OK, dir_fd=where)
    except OSError:
        return False


def is_there(name: str) -> bool:
    """Whether there is a file of that name, sound or not."""
    try:
        with _opened(create=False) as where:
            return where is not None and name in os.listdir(where)
    except OSError:
        return False


def write(name: str, content: bytes) -> None:
    """Keeps `content` under that name, where possible."""
    if len(content) > _MOST_BYTES - len(_MAGIC) - 32:
        return
    with suppress(OSError), _opened(create=True) as where:
        if where is None:
            return
        part = f".layout-ir-{os.urandom(8).hex()}"
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=where)
        try:
            with open(file, "wb") as stream:
                stream.write(_MAGIC + _digest(name, content) + content)
            os.replace(part, name, src_dir_fd=where, dst_dir_fd=where)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=where)
            raise
        if name.endswith("0"):  # looking at every file takes a millisecond: one write in sixteen does
            _prune(where)


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


def _read(name: str, where: int) -> bytes:
    """What the file holds; nothing, if it is not one that we wrote."""
    # Without waiting: a pipe has no writer.
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=where)
    with open(file, "rb") as stream:
        status = os.fstat(file)
        ours = stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid == os.geteuid()
        if not ours or status.st_mode & _FOR_OTHERS or status.st_size > _MOST_BYTES:
            return b""
        return stream.read(_MOST_BYTES)


def _prune(where: int) -> None:
    """Drops the older half of our files, but no profile, when there are too many."""
    with os.scandir(where) as entries:
        files = [
            (entry.stat(follow_symlinks=False).st_mtime, entry.name)
            for entry in entries
            if _DROPPED.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        ]
    if len(files) > _MOST_FILES:
        for _, name in sorted(files)[: len(files) // 2]:
            with suppress(OSError):
                os.unlink(name, dir_fd=where)


# The folder ----------------------------------------------------------------------------------------------------------


class _Untrusted(Exception):
    """Someone else may change what is in the folder; the message says why."""


@contextmanager
def _opened(*, create: bool) -> Generator[int | None]:
    """The folder as a file descriptor, made where it is missing and `create` says so; None if nothing is kept.

    Raises OSError, FileNotFoundError where it is missing.
    """
    where = folder()
    # Without owners of files, as on Windows, nobody can tell whose code it is.
    if where is None or not hasattr(os, "geteuid"):
        yield None
        return
    try:
        path = _followed(os.path.abspath(where), create=create)
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except _Untrusted as error:
        _warn(str(where), str(error))
        yield None
        return
    try:
        yield opened
    finally:
        os.close(opened)


def _followed(path: str, *, create: bool) -> str:
    """The absolute `path` without links. Raises `_Untrusted` where others could lead it elsewhere, and OSError."""
    home = os.path.realpath(os.path.expanduser("~"))
    names = _parts(path)
    here, links = os.sep, 0
    _check_folder(here, home, last=not names)
    while names:
        name = names.pop()
        if name == os.pardir:
            here = os.path.dirname(here)
            continue
        step = os.path.join(here, name)
        try:
            status = os.lstat(step)
        except FileNotFoundError:
            if not create:
                raise
            with suppress(FileExistsError):  # another process makes it just now
                os.mkdir(step, 0o700)
            status = os.lstat(step)
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            _check_owner(step, status)
            target = os.readlink(step)
            names += _parts(target)
            here = os.sep if os.path.isabs(target) else here
            continue
        here = step
        _check_folder(here, home, last=not names)
    return here


def _parts(path: str) -> list[str]:
    """The names that `path` consists of, the last one first."""
    return [part for part in reversed(path.split(os.sep)) if part not in ("", os.curdir)]


def _check_folder(path: str, home: str, *, last: bool) -> None:
    """Raises `_Untrusted` if others may change what is in the folder `path`; the `last` one is the cache itself.

    What is above the home directory is the system's business: all of the user's files depend on it.
    """
    if not last and home != path and home.startswith(os.path.join(path, "")):
        return
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if last and status.st_uid != os.geteuid():
        raise _Untrusted(f"{path} belongs to user {status.st_uid}, not to user {os.geteuid()}")
    _check_owner(path, status)
    if status.st_mode & _FOR_OTHERS and (last or not status.st_mode & stat.S_ISVTX):
        raise _Untrusted(f"{path} has mode {stat.S_IMODE(status.st_mode):o}: others may write to it")


def _check_owner(path: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise _Untrusted(f"{path} belongs to user {status.st_uid}, not to user {os.geteuid()} or root")


_warned: set[str] = set()


def _warn(where: str, reason: str) -> None:
    """Says, once for a folder, that nothing is kept there."""
    if where in _warned:
        return
    _warned.add(where)
    warnings.warn(
        f"no code is kept in {where}: {reason}. Make it safe (chmod go-w), or set LAYOUT_IR_CACHE to another folder "
        "or to off",
        RuntimeWarning,
        stacklevel=2,
    )
