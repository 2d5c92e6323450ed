"""Models in files, read without their large weights, which are read one by one when they are asked for.

To read a file, parse it and copy weights out of the message takes their memory three times, and that of the message is
given back late. So of a file the message is read alone: what `raw_data` an initializer has, of `_LEAST` bytes or more,
stays where it is, in the file, which is kept open (`OpenModel`).

A message of protobuf is a row of fields: the number of the field with the kind of its value, both in one integer, and
the value, of which kind 2 has its length in front. Integers are written by seven bits, the lowest first.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from layout_ir.files import stamp_of
from layout_ir.frontends.onnx.import_error import OnnxImportError

if TYPE_CHECKING:
    import onnx

_LEAST = 1 << 16
"""Bytes of weights from which on they stay in the file: to find them and open it anew takes 50 us, as long as to copy
200 kB does, and smaller ones are few bytes together."""

LARGE = 1 << 23
"""Bytes of a file from which on it is quicker not to read them: to go over the fields of 1,000 nodes takes 2 ms, less
than to read and parse so much."""

_GRAPH = 7  # of a model
_INITIALIZER = 5  # of a graph
_RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 9, 13, 14  # of a tensor
_EXTERNAL = 1
"""That the elements of a tensor are not in the message."""

_INTEGER, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
"""Kinds of values."""

_MOST_BYTES = 1 << 31
"""The most bytes of a message that protobuf reads."""

_MOST_FIELDS = 1 << 18
"""The most fields of a model, its graph and large tensors together, which take half a second: the largest networks have
fewer nodes."""

_WINDOW = 1 << 12
"""Bytes of a file that are looked at together."""

_LONGEST_TAG = 20
"""Bytes of two integers, the longest beginning of a field."""


class _OtherFile(Exception):
    """The file is none that is read in this way."""


class OpenModel:
    """The file of a model, open as long as this object is there: it may be renamed, replaced or removed meanwhile, but
    not written to."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.path = path
        self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)
        self._stamp = stamp_of(os.fstat(self._descriptor))

    def read(self, start: int, size: int) -> bytes:
        """So many bytes from `start` on. Raises OnnxImportError where the file was written to, or cannot be read."""
        parts: list[bytes] = []
        left = size
        try:
            while left and (part := os.pread(self._descriptor, left, start + size - left)):
                parts.append(part)
                left -= len(part)
            status = os.fstat(self._descriptor)
        except OSError as error:
            raise OnnxImportError(f"cannot read '{self.path}': {error.strerror or error}") from error
        if left or stamp_of(status) != self._stamp:
            raise OnnxImportError(
                f"'{self.path}' was written to while its weights were still to be read from it: write another file, or "
                f"give the bytes of the model"
            )
        return parts[0] if len(parts) == 1 else b"".join(parts)


class OpenWeights(NamedTuple):
    """Weights in an open file: where they begin, and their bytes."""

    file: OpenModel
    start: int
    nbytes: int

    def read(self) -> bytes:
        """Reads the bytes. Raises OnnxImportError as `OpenModel.read`."""
        return self.file.read(self.start, self.nbytes)


def open_model(
    path: Path, least: int = _LEAST
) -> tuple[onnx.ModelProto, dict[str, OpenWeights]] | tuple[None, None]:
    """The model in a file of `least` bytes or more without its large weights, which are in neither message nor external
    data, and these, by name of the initializer; None for a file that is to be read as a whole: one of fewer bytes, none
    that can be read anywhere, or one that holds no model. Raises OSError."""
    import onnx
    from google.protobuf.message import DecodeError

    if not hasattr(os, "pread"):
        return None, None
    if not S_ISREG(os.stat(path).st_mode):  # not opened: a pipe gives its bytes to the first who does
        return None, None
    model = onnx.ModelProto()
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not least <= status.st_size < _MOST_BYTES:
                return None, None
            opened = OpenModel(file, path)
            rewriting = _Rewriting(file)
            model.ParseFromString(b"".join(rewriting.model(status.st_size)))
    except (_OtherFile, DecodeError):
        return None, None
    initializers = model.graph.initializer
    return model, {initializers[k].name: OpenWeights(opened, *place) for k, place in rewriting.places.items()}


_Field = tuple[int, int, int, int, int, int]
"""A field of a message in a file: its number, the kind of its value, that where it is an integer and else its bytes;
where it begins, where its value does, and where it ends."""


class _Rewriting:
    """Reads a model from a file and gives the message without weights, piece by piece."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = _MOST_FIELDS
        self._initializers = 0
        self._window, self._window_start = b"", 0
        """A piece of the file, in which fields are looked for, and where it begins."""
        self.places: dict[int, tuple[int, int]] = {}
        """Where in the file the weights of an initializer begin, and their bytes, by its number."""

    def model(self, end: int) -> Iterator[bytes]:
        given = 0  # up to where the message was given
        for number, kind, _, begin, value, after in self._fields(0, end):
            if (number, kind) == (_GRAPH, _BYTES):
                yield self._bytes(given, begin)
                yield _field(_GRAPH, b"".join(self._graph(value, after)))
                given = after
        yield self._bytes(given, end)

    def _graph(self, start: int, end: int) -> Iterator[bytes]:
        given = start
        for number, kind, size, begin, value, after in self._fields(start, end):
            if number == _INITIALIZER and kind == _BYTES:
                if size >= _LEAST:
                    yield self._bytes(given, begin)
                    yield _field(_INITIALIZER, b"".join(self._tensor(value, after)))
                    given = after
                self._initializers += 1
        yield self._bytes(given, end)

    def _tensor(self, start: int, end: int) -> Iterator[bytes]:
        """A tensor. Raises _OtherFile for one that has weights twice, or is external data already."""
        given = start
        is_moved = False
        for number, kind, integer, begin, value, after in self._fields(start, end):
            if number == _EXTERNAL_DATA or (number == _RAW_DATA and is_moved):
                raise _OtherFile
            if (number, kind) == (_DATA_LOCATION, _INTEGER):
                if integer:
                    raise _OtherFile
                # Left out: to say that it is in the message is to say nothing.
                yield self._bytes(given, begin)
                given = after
            elif number == _RAW_DATA and kind == _BYTES and integer >= _LEAST:
                is_moved = True
                self.places[self._initializers] = value, integer
                yield self._bytes(given, begin)
                yield _tag(_DATA_LOCATION, _INTEGER) + _integer(_EXTERNAL)
                given = after
        yield self._bytes(given, end)

    def _fields(self, start: int, end: int) -> Iterator[_Field]:
        """The fields between two places. Raises _OtherFile where there are no fields, or too many."""
        at = start
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise _OtherFile
            if not 0 <= at - self._window_start <= len(self._window) - _LONGEST_TAG:
                self._file.seek(at)
                self._window, self._window_start = self._file.read(_WINDOW), at
            tag, place = self._read_integer(at - self._window_start)
            number, kind = tag >> 3, tag & 7
            integer = 8 if kind == _EIGHT_BYTES else 4
            if kind in (_INTEGER, _BYTES):
                integer, place = self._read_integer(place)
            elif kind not in (_EIGHT_BYTES, _FOUR_BYTES):
                raise _OtherFile
            value = self._window_start + place
            after = value if kind == _INTEGER else value + integer
            if after > end:
                raise _OtherFile
            yield number, kind, integer, at, value, after
            at = after

    def _bytes(self, start: int, end: int) -> bytes:
        """What the file has between two places."""
        self._file.seek(start)
        data = self._file.read(end - start)
        if len(data) != end - start:
            raise _OtherFile
        return data

    def _read_integer(self, place: int) -> tuple[int, int]:
        """The integer at a place of the window, and the place behind it."""
        window = self._window
        found = shift = 0
        for at in range(place, min(place + 10, len(window))):
            byte = window[at]
            if byte < 0x80:
                return found | byte << shift, at + 1
            found |= (byte & 0x7F) << shift
            shift += 7
        raise _OtherFile


def _field(number: int, data: bytes) -> bytes:
    return _tag(number, _BYTES) + _integer(len(data)) + data


def _tag(number: int, kind: int) -> bytes:
    return _integer(number << 3 | kind)


def _integer(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    digits = bytearray()
    while number >= 0x80:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)
