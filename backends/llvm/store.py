"""Machine code on disk, so that the next process does not compile again.

A file is named by the hash of everything its code depends on: the LLVM IR, the CPU and its features, the version of
LLVM. It holds a header with the hash of its content; a file that is cut short, damaged or foreign is not used and is
written anew. Writers finish in a file of their own and rename it, so a reader never sees half of one. Whatever the
file system refuses is no error: then there is no cache.

The folder is $LAYOUT_IR_CACHE, or layout-ir in the user's cache folder; LAYOUT_IR_CACHE=off turns it off.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

_MAGIC = b"layout-ir object 1\n"
_MOST_FILES = 4096


def folder() -> Path | None:
    """Where objects are kept; None if nowhere."""
    chosen = os.environ.get("LAYOUT_IR_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen not in ("", "off") else None
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "layout-ir"
    try:
        return Path.home() / ".cache" / "layout-ir"
    except RuntimeError:  # no home
        return None


def key(*parts: object) -> str:
    """A name for what depends on `parts` and nothing else."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def read(name: str) -> bytes | None:
    """The object of that name, if there is a sound one."""
    where = folder()
    if where is None:
        return None
    try:
        data = (where / name).read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + 32
    content = data[start:]
    sound = data.startswith(_MAGIC) and data[len(_MAGIC) : start] == hashlib.sha256(content).digest()
    return content if sound else None


def write(name: str, content: bytes) -> None:
    """Keeps `content` under that name, where possible."""
    where = folder()
    if where is None:
        return
    with suppress(OSError):
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, path = tempfile.mkstemp(dir=where, prefix=".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(content).digest() + content)
            os.replace(path, where / name)
        except OSError:
            os.unlink(path)
            return
        _prune(where)


def _prune(where: Path) -> None:
    """Drops the older half when there are too many."""
    files = [entry for entry in os.scandir(where) if entry.is_file()]
    if len(files) > _MOST_FILES:
        files.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in files[: len(files) // 2]:
            with suppress(OSError):
                os.unlink(entry.path)
