"""An ONNX model written to a file, and what it keeps outside of that to another one beside it.

A message of protobuf holds two gibibytes at most, and models refer to files for more (external data). All of these
become one file, copied tensor by tensor, so that the model that is written does not depend on the one it came from.
Weights that are still in the file of a model that came in go from that file into the one that is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from layout_ir.errors import LayoutError
from layout_ir.files import all_or_none, write_result
from layout_ir.frontends.onnx.external import read_external
from layout_ir.frontends.onnx.import_error import quoted
from layout_ir.frontends.onnx.subgraphs import bodies_of
from layout_ir.frontends.onnx.tensor_protos import stored_bytes
from layout_ir.passes.onnx.model_constants import PendingTensor

if TYPE_CHECKING:
    import onnx

MOST_BYTES = (1 << 31) - 1
"""Bytes of a message of protobuf."""

ALIGNMENT = 4096
"""Tensors begin at multiples of this in the file of external data, so that they can be mapped into memory."""

Pending = Mapping[str, PendingTensor]
"""Initializers that nobody has read yet, by name."""


def write_model(model: onnx.ModelProto, folder: Path | None, path: str, pending: Pending) -> None:
    """Writes `model` to `path`; its external data, read from `folder`, to `path` with `.data`.

    Both appear at once, or neither. Raises OSError, OnnxImportError where external data are not there, and LayoutError
    where a model without external data is too large for one file.
    """
    within = {name: each for name, each in pending.items() if each.weights is not None}

    def is_outside(tensor: onnx.TensorProto) -> bool:
        return tensor.data_location == tensor.EXTERNAL and not (is_pending(tensor) and tensor.name in within)

    tensors = [t for t in tensors_within(model) if is_outside(t)]
    if not tensors:
        write_result(_parts_of_file(model, path, within), path)
        return
    data = f"{path}.data"
    written = type(model)()
    written.CopyFrom(model)
    offset = 0
    sizes: list[int] = []
    for tensor in (t for t in tensors_within(written) if is_outside(t)):
        size = stored_bytes(tensor)
        offset = -(-offset // ALIGNMENT) * ALIGNMENT
        del tensor.external_data[:]
        for key, value in (("location", os.path.basename(data)), ("offset", offset), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        offset += size
        sizes.append(size)

    def parts() -> Iterator[bytes | memoryview]:
        for source, size in zip(tensors, sizes, strict=True):
            if is_pending(source) and source.name in pending:
                yield pending[source.name].data(folder)
            else:
                yield read_external(source, folder, size, f"initializer {quoted(source.name)}")
            yield b"\0" * (-size % ALIGNMENT)

    with all_or_none(path, data):
        write_result(parts(), data)
        write_result(_parts_of_file(written, path, within), path)


def _parts_of_file(model: onnx.ModelProto, path: str, within: Pending) -> Iterator[bytes | memoryview]:
    """The file of a model, piece by piece: no more than one initializer is there twice at any time.

    Of those `within`, which are still in the file of a model that came in, no more than one is there at all.

    Raises LayoutError where it would be larger than a file of ONNX may be; `path` is its name in that message.

    In a message of protobuf the elements of a repeated field are apart, each with its tag and its length, and all
    fields may come in any order: the initializers are written behind all others of the graph, the graph behind those of
    the model.
    """
    graph = type(model.graph)()
    for field, value in model.graph.ListFields():
        if field.name != "initializer":
            _copy_field(graph, field.name, value)
    shell = type(model)()
    for field, value in model.ListFields():
        if field.name != "graph":
            _copy_field(shell, field.name, value)
    around, rest = shell.SerializeToString(), graph.SerializeToString()
    tensors = [_Initializer.of(tensor, within) for tensor in model.graph.initializer]
    sizes = [each.size for each in tensors]
    heads = [_head(graph, "initializer", size) for size in sizes]
    size = len(rest) + sum(sizes) + sum(map(len, heads))
    if len(around) + size > MOST_BYTES:
        raise LayoutError(
            f"{path}: the model has {len(around) + size} bytes, a file of ONNX holds at most {MOST_BYTES}: "
            f"store its weights as external data (onnx.save_model(..., save_as_external_data=True))"
        )
    yield around
    yield _head(model, "graph", size) + rest
    for head, tensor in zip(heads, tensors, strict=True):
        yield head
        yield from tensor.parts()


class _Initializer(NamedTuple):
    """An initializer as it is written: a message, and what the bytes of its elements are read from if they are in it
    not yet."""

    message: onnx.TensorProto
    pending: PendingTensor | None = None
    head: bytes = b""
    """What stands in front of those."""
    nbytes: int = 0
    """How many those are."""

    @property
    def size(self) -> int:
        """The bytes of all."""
        return self.message.ByteSize() + len(self.head) + self.nbytes

    @staticmethod
    def of(tensor: onnx.TensorProto, within: Pending) -> _Initializer:
        pending = within.get(tensor.name) if is_pending(tensor) else None
        if pending is None:
            return _Initializer(tensor)
        message = type(tensor)()
        message.CopyFrom(tensor)
        message.ClearField("data_location")
        nbytes = pending.nbytes
        return _Initializer(message, pending, _head(message, "raw_data", nbytes), nbytes)

    def parts(self) -> Iterator[bytes | memoryview]:
        yield self.message.SerializeToString()
        if self.pending is not None:
            yield self.head
            data = self.pending.data(None)
            assert len(data) == self.nbytes
            yield data


def _copy_field(message: Any, name: str, value: Any) -> None:
    field = getattr(message, name)
    if hasattr(field, "MergeFrom"):
        field.MergeFrom(value)
    else:
        setattr(message, name, value)


def _head(message: Any, field: str, size: int) -> bytes:
    """What stands in front of an element of `size` bytes: its field and kind, and that size, seven bits per byte."""
    length_delimited = 2
    head = bytearray()
    for number in (message.DESCRIPTOR.fields_by_name[field].number << 3 | length_delimited, size):
        while number > 127:
            head.append(number & 127 | 128)
            number >>= 7
        head.append(number)
    return bytes(head)


def is_pending(tensor: onnx.TensorProto) -> bool:
    """Whether the elements of a tensor are neither in the model nor in a file that it names."""
    return tensor.data_location == tensor.EXTERNAL and not tensor.external_data


def tensors_within(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All tensors of a model, of its functions and of all subgraphs, both of a sparse one among them."""
    import onnx

    sparse: list[onnx.SparseTensorProto] = []
    for body in bodies_of(model):
        if isinstance(body, onnx.GraphProto):
            yield from body.initializer
            sparse += body.sparse_initializer
        for attribute in (attribute for node in body.node for attribute in node.attribute):
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("sparse_tensor"):
                sparse.append(attribute.sparse_tensor)
    for tensor in sparse:
        yield from (tensor.values, tensor.indices)
