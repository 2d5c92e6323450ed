"""What was found out once, on disk: machine code, and which plan was fastest.

A file is named by its kind, the version of the format and the hash of everything its content depends on (for code:
the plan, the compiler's own sources, the CPU and its features, the version of LLVM). It holds a header with the hash
of its content; a file that is cut short, damaged, of another version or another user's is not used and is written
anew. Writers finish in a file of their own and rename it, so a reader never sees half of one, and of two writers the
last one wins. Whatever the file system refuses is no error: then nothing is kept.

The folder is $LAYOUT_IR_CACHE, or layout-ir in the user's cache folder; LAYOUT_IR_CACHE=off turns it off. There may be
other files in it; they are left alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

VERSION = 2
"""Of the files, and of whatever makes code that does not show in its LLVM IR."""

_MAGIC = f"layout-ir {VERSION}\n".encode()
_MOST_FILES = 4096
_OURS = re.compile(r"(code|choice)-\d+-[0-9a-f]{64}|\.layout-ir-.*")


def folder() -> Path | None:
    """Where files are kept; None if nowhere."""
    chosen = os.environ.get("LAYOUT_IR_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen not in ("", "off") else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # it counts only then
        return Path(base) / "layout-ir"
    try:
        return Path.home() / ".cache" / "layout-ir"
    except RuntimeError:  # no home
        return None


def name(kind: str, *parts: object) -> str:
    """The file, of kind "code" or "choice", for what depends on `parts` and nothing else."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
    return f"{kind}-{VERSION}-{digest}"


def read(name: str) -> bytes | None:
    """The content of that file, if there is a sound one."""
    where = folder()
    if where is None:
        return None
    try:
        with open(where / name, "rb") as file:
            data = file.read() if _trusted(os.fstat(file.fileno())) else b""
    except OSError:
        return None
    start = len(_MAGIC) + 32
    content = data[start:]
    sound = data.startswith(_MAGIC) and data[len(_MAGIC) : start] == hashlib.sha256(content).digest()
    return content if sound else None


def _trusted(status: os.stat_result) -> bool:
    """Code of other users is not run."""
    return not hasattr(os, "geteuid") or status.st_uid in (0, os.geteuid())


def write(name: str, content: bytes) -> None:
    """Keeps `content` under that name, where possible."""
    where = folder()
    if where is None:
        return
    with suppress(OSError):
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, path = tempfile.mkstemp(dir=where, prefix=".layout-ir-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(content).digest() + content)
            os.replace(path, where / name)
        except BaseException:
            os.unlink(path)
            raise
        if name.endswith("0"):  # looking at every file takes a millisecond: one write in sixteen does
            _prune(where)


def _prune(where: Path) -> None:
    """Drops the older half of our files when there are too many."""
    files = [entry for entry in os.scandir(where) if _OURS.fullmatch(entry.name) and entry.is_file()]
    if len(files) > _MOST_FILES:
        files.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in files[: len(files) // 2]:
            with suppress(OSError):
                os.unlink(entry.path)
