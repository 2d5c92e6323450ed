"""TensorProtos of a model as NumPy arrays: element types, shapes, and elements in the file or beside it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from layout_ir.errors import shape_text
from layout_ir.frontends.onnx.external import read_external
from layout_ir.frontends.onnx.import_error import OnnxImportError, UnknownTypeError, quoted
from layout_ir.frontends.onnx.subgraphs import graphs_within

if TYPE_CHECKING:
    from pathlib import Path

    import onnx
    from numpy.typing import NDArray

MOST_DIMS = 64
"""The largest rank of a NumPy array."""


def numpy_type(number: int, title: str) -> np.dtype[Any]:
    """The NumPy type of an ONNX element type. Raises OnnxImportError, naming `title`, where there is none."""
    try:
        return _numpy_type(number)
    except OnnxImportError as error:
        raise type(error)(f"{title} has element type {error}") from None


@cache
def _numpy_type(number: int) -> np.dtype[Any]:
    """The NumPy type of an ONNX element type. Raises OnnxImportError, which says what the type is instead."""
    import onnx
    import onnx.helper

    if number not in onnx.TensorProto.DataType.values():
        raise OnnxImportError(f"{number}, which onnx {onnx.__version__} does not know")
    word = onnx.TensorProto.DataType.Name(cast(Any, number)).lower()
    if number in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
        raise UnknownTypeError(f"{word}; only numbers are supported")
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))


def check_shape(shape: Sequence[int], dtype: np.dtype[Any], title: str) -> tuple[int, ...]:
    """`shape` as a tuple. Raises OnnxImportError, naming `title`, where no tensor can have it.

    No extent may be negative, and the size in bytes must be below 2^63, where dims of extent 0 count as 1.
    """
    shape = tuple(shape[:])
    if len(shape) > MOST_DIMS:
        raise OnnxImportError(f"{title} has {len(shape)} dims, at most {MOST_DIMS} are supported")
    if min(shape, default=0) < 0:
        raise OnnxImportError(f"{title} has shape {list(shape)}: an extent is negative")
    size = prod([extent for extent in shape if extent]) * dtype.itemsize
    if size >= 2**63:
        raise OnnxImportError(
            f"{title} has shape {shape_text(shape)}: {size} bytes are more than can be addressed, 2^63 - 1"
        )
    return shape


def array_of(
    tensor: onnx.TensorProto, folder: Path | None, title: str, data: bytes | None = None
) -> NDArray[Any]:
    """The elements of a tensor in its shape, read from a file in `folder` where they are stored externally; `data` are
    its bytes where somebody has read them already.

    Raises OnnxImportError, naming `title`, where type, shape and stored bytes do not fit each other.
    """
    import onnx
    import onnx.numpy_helper

    dtype = numpy_type(tensor.data_type, title)
    shape = check_shape(tensor.dims, dtype, title)
    if tensor.HasField("segment"):
        raise OnnxImportError(f"{title} is a segment of a tensor, only whole ones are supported")
    count, bits = prod(shape), _bits(tensor.data_type, dtype)
    size = -(-count * bits // 8)
    external = tensor.data_location == onnx.TensorProto.EXTERNAL
    if data is None:
        if not external and not tensor.HasField("raw_data"):
            return _listed(tensor, dtype, shape, title)
        data = read_external(tensor, folder, size, title) if external else tensor.raw_data
    if len(data) != size:
        raise OnnxImportError(
            f"{title} has shape {shape_text(shape)}, which its {len(data)} bytes do not fill: {size} are needed"
        )
    if bits < 8:
        packed = onnx.TensorProto(data_type=tensor.data_type, dims=shape, raw_data=data)
        return onnx.numpy_helper.to_array(packed)
    if dtype == np.bool_:
        return (np.frombuffer(data, np.uint8) != 0).reshape(shape)
    stored = _stored_type(dtype)
    array = np.frombuffer(data, stored).reshape(shape)
    return array if stored == dtype else array.astype(dtype)


def bring_inside(graph: onnx.GraphProto, folder: Path | None) -> None:
    """Reads, in place, the external tensors of a graph and of those within, for whoever does not know the folder.

    Raises OnnxImportError where they cannot be read.
    """
    import onnx

    for inner in graphs_within(graph):
        given = [a for node in inner.node for a in node.attribute]
        values = [tensor for attribute in given for tensor in (attribute.t, *attribute.tensors)]
        for tensor in (*inner.initializer, *values):
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                title = f"tensor {quoted(tensor.name)}"
                tensor.raw_data = read_external(tensor, folder, stored_bytes(tensor, title), title)
                tensor.ClearField("data_location")
                del tensor.external_data[:]


@cache
def _stored_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of elements as a file has them, which is little-endian."""
    return dtype.newbyteorder("<") if dtype.kind in "iufc" else dtype


def stored_bytes(tensor: onnx.TensorProto, title: str = "") -> int:
    """The bytes that the elements of a tensor take in a file. Raises OnnxImportError, naming `title`, where no tensor
    has its shape."""
    title = title or f"initializer {quoted(tensor.name)}"
    dtype = numpy_type(tensor.data_type, title)
    return -(-prod(check_shape(tensor.dims, dtype, title)) * _bits(tensor.data_type, dtype) // 8)


def _listed(
    tensor: onnx.TensorProto, dtype: np.dtype[Any], shape: tuple[int, ...], title: str
) -> NDArray[Any]:
    """The elements of a tensor that is stored as a list of numbers (`float_data`, ...), not as raw bytes."""
    import onnx
    import onnx.helper
    import onnx.numpy_helper

    field = onnx.helper.tensor_dtype_to_field(tensor.data_type)
    values = getattr(tensor, field)
    there = len(values)
    per_element = 2 if dtype.kind == "c" else 1
    wanted = -(-prod(shape) * per_element * min(_bits(tensor.data_type, dtype), 8) // 8)
    if there != wanted:
        raise OnnxImportError(
            f"{title} has shape {shape_text(shape)}, which its {there} values do not fill: {wanted} are needed"
        )
    if dtype == _FIELDS.get(field):
        return np.array(values[:], dtype).reshape(shape)  # what the package does takes four times as long
    return onnx.numpy_helper.to_array(tensor)


_FIELDS = {
    "float_data": np.dtype(np.float32),
    "int64_data": np.dtype(np.int64),
    "double_data": np.dtype(np.float64),
}
"""The fields that list numbers of one type as they are."""


@cache
def _bits(number: int, dtype: np.dtype[Any]) -> int:
    """Bits of a stored element; NumPy takes a byte for those below 8."""
    import onnx

    word = onnx.TensorProto.DataType.Name(cast(Any, number))
    for suffix, bits in (("INT4", 4), ("FLOAT4E2M1", 4), ("INT2", 2)):
        if word.endswith(suffix):
            return bits
    return dtype.itemsize * 8
