"""Which kind of file it is, by its content, and its graph."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

from layout_ir.errors import LayoutError, printable
from layout_ir.execution_graphs.execution_graph import ExecutionGraph
from layout_ir.execution_graphs.onednn_log import MARKER, read_onednn
from layout_ir.files import check_can_be_read_again, read_bounded

EXPECTED = "an ONNX model, TensorRT layer information (JSON), a oneDNN verbose log or an OpenVINO execution graph (XML)"

MOST_JSON = 1 << 29
"""Bytes of layer information that are read: JSON is read whole."""

_LOOKED_AT = 1 << 20
"""Bytes at the beginning by which a file is recognized; a log may begin with what other parts of a program print."""

_LONGEST_LINE = 1 << 20


def read_graph(
    path: str,
    *,
    profile: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ExecutionGraph:
    """The graph in the file `path`, whose kind its content says.

    `profile` names a TensorRT profile beside layer information, `shapes` gives the shapes of inputs of an ONNX model,
    and `progress` is told the bytes of a log that are read, and all of them. Raises LayoutError where the file is of
    none of these kinds or is not valid, or where an option is for another kind; OSError where it cannot be read.
    """
    kind, head = _recognized(path)
    if profile is not None and kind != "tensorrt":
        raise LayoutError(f"{path} is {_NAMES[kind]}: a profile goes with TensorRT layer information")
    if shapes and kind != "onnx":
        raise LayoutError(f"{path} is {_NAMES[kind]}: shapes of inputs are for ONNX models")
    try:
        match kind:
            case "log":
                return _read_log(path, progress)
            case "xml":
                from layout_ir.execution_graphs.openvino_graph import read_openvino

                with open(path, "rb") as stream:
                    return read_openvino(stream)
            case "tensorrt":
                from layout_ir.execution_graphs.tensorrt_engine import read_tensorrt

                return read_tensorrt(_json(path), None if profile is None else _json(profile))
            case "onnx":
                from layout_ir.execution_graphs.onnx_model import read_onnx

                return read_onnx(path, shapes or {})
            case _:
                begin = printable(head[:40].decode("utf-8", "replace"))
                what = f"begins with '{begin}'" if head else "is empty"
                raise LayoutError(f"the file {what}: expected {EXPECTED}")
    except LayoutError as error:
        error.args = (f"{path}: {error}",)
        raise


_NAMES = {
    "log": "a oneDNN log", "xml": "XML", "tensorrt": "JSON", "onnx": "no text, and so read as an ONNX model",
    "text": "text of an unknown kind",
}  # fmt: skip


def is_onnx(path: str) -> bool:
    """Whether `read_graph` reads the file as an ONNX model. Raises OSError where it cannot be read."""
    return _recognized(path)[0] == "onnx"


def _recognized(path: str) -> tuple[str, bytes]:
    """The kind of a file, and its beginning. Raises LayoutError for a pipe or a device, and OSError."""
    check_can_be_read_again(path)
    with open(path, "rb") as stream:
        head = stream.read(_LOOKED_AT)
    return _kind(head), head


def _kind(head: bytes) -> str:
    if MARKER.search(head):
        return "log"
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start == b"<":
        return "xml"
    if start in (b"{", b"["):
        return "tensorrt"
    if not head:
        return "text"
    # A model begins with small numbers, the tags of its fields.
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head[:4096])
    return "onnx" if controls else "text"


def _json(path: str) -> object:
    """The document in a JSON file. Raises LayoutError with the place where it is none."""
    try:
        return json.loads(read_bounded(path, MOST_JSON))
    except RecursionError:
        raise LayoutError("the JSON is nested too deeply for layer information") from None
    except json.JSONDecodeError as error:
        raise LayoutError(
            f"line {error.lineno}, column {error.colno}: not valid JSON, or truncated: {error.msg}"
        ) from None
    except ValueError as error:  # not UTF-8, or a number of thousands of digits
        raise LayoutError(f"not valid JSON: {printable(str(error))[:120]}") from None


def _read_log(path: str, progress: Callable[[int, int], None] | None) -> ExecutionGraph:
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if progress is None:
            return read_onednn(_lines(stream))
        return read_onednn(_lines(stream), lambda done: progress(done, size))


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Lines of at most a megabyte: what is longer comes in parts."""
    while line := stream.readline(_LONGEST_LINE):
        yield line
