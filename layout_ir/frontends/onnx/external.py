"""Reading of tensors that a model keeps in files beside it (external data).

A model is not trusted, so a location may name only a regular file in the folder of the model or below. The path is
opened component by component without following links, so that no component can be exchanged between the check and the
read. A file with several names (hard links) is refused too: one of them may be outside the folder.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.import_error import OnnxImportError, quoted

if TYPE_CHECKING:
    import onnx


def read_external(tensor: onnx.TensorProto, folder: Path | None, size: int, title: str) -> bytes:
    """The `size` bytes of a tensor that is stored in a file beside the model, in `folder` or below.

    Raises OnnxImportError, naming `title`, where the file may not be read or does not hold exactly these bytes.
    """
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        key, value = _text(entry.key, title), _text(entry.value, title)
        if key in entries:
            raise OnnxImportError(f"{title} says the {quoted(key)} of its external data twice")
        entries[key] = value
    where = entries.get("location", "")
    if folder is None:
        raise OnnxImportError(
            f"{title} is stored in the external file {quoted(where)}; "
            f"give the path of the model, not its contents"
        )
    place = f"{title} is stored in the external file {quoted(where)}"
    failed = f"{place}, which cannot be read from '{folder}'"
    offset = _count(entries.get("offset", "0"), "offset", place)
    length = _count(entries["length"], "length", place) if "length" in entries else None
    if length not in (None, size):
        raise OnnxImportError(
            f"{place} with length {length}, but its shape and element type need {size} bytes"
        )
    try:
        descriptor = _open(folder, _components(where, failed))
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OnnxImportError(f"{failed}: it is no regular file")
            if status.st_nlink != 1:
                raise OnnxImportError(
                    f"{failed}: it has {status.st_nlink} names (hard links), of which one may be outside; copy it"
                )
            there = max(status.st_size - offset, 0)
            if there < size or (length is None and there != size):
                raise OnnxImportError(
                    f"{place}, which has {there} bytes from offset {offset} on, "
                    f"but its shape and element type need {size}"
                )
            with open(descriptor, "rb", closefd=False) as file:
                file.seek(offset)
                data = file.read(size)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OnnxImportError(f"{failed}: {_reason(error)}") from error
    if len(data) != size:
        raise OnnxImportError(f"{failed}: it became shorter while it was read, {len(data)} != {size} bytes")
    return data


def _text(found: str | bytes, title: str) -> str:
    """`found`, which protobuf returns as bytes where it is not UTF-8."""
    if isinstance(found, bytes):
        raise OnnxImportError(f"{title} says {quoted(found)} of its external data, which is not UTF-8")
    return found


def _count(text: str, key: str, place: str) -> int:
    if not re.fullmatch("[0-9]{1,19}", text):
        raise OnnxImportError(f"{place} with {key} {quoted(text)}, which is no number of bytes")
    return int(text)


def _components(location: str, failed: str) -> tuple[str, ...]:
    parts = PurePosixPath(location).parts
    if not parts or "\0" in location:
        raise OnnxImportError(f"{failed}: that is no name of a file")
    if PurePosixPath(location).anchor or PureWindowsPath(location).anchor or ".." in parts:
        raise OnnxImportError(f"{failed}: the location must be a path inside the folder of the model")
    return parts


def _open(folder: Path, parts: tuple[str, ...]) -> int:
    """A descriptor of the file that the path names, in which no component is a link."""
    # O_NONBLOCK: to open a fifo without a writer would block for ever. Flags that a system does not have count as 0.
    flags = os.O_RDONLY
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
        flags |= getattr(os, name, 0)
    if os.open not in os.supports_dir_fd:
        for end in range(1, len(parts) + 1):
            if folder.joinpath(*parts[:end]).is_symlink():
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return os.open(folder.joinpath(*parts), flags)
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, flags | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = inner
        return os.open(parts[-1], flags, dir_fd=at)
    finally:
        os.close(at)


def _reason(error: OSError) -> str:
    # Of a folder that is a link, O_DIRECTORY says that it is no folder.
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "it is, or is behind, a link, or what should be a folder is none; links are not followed, copy the file"
    return error.strerror or str(error)
