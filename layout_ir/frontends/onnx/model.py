"""Reading of ONNX files: the model, its opset, its tensors wherever they are stored, and the shapes of its inputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.frontends.onnx.errors import OnnxImportError

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

OLDEST_OPSET = 9
"""Opset 9 made BatchNormalization and the constant ops what they are today; converters exist for older files."""


@dataclass(frozen=True)
class Model:
    """A checked model: a graph without local functions, under one version of the default operator set."""

    graph: onnx.GraphProto
    opset: int
    opsets: Mapping[str, int]
    folder: Path | None
    """Where external data lies; None if the model did not come from a file."""


@dataclass(frozen=True)
class Input:
    """A graph input that is no constant."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def load(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> Model:
    """Read and check a model. Raises OnnxImportError."""
    try:
        import onnx
    except ImportError as error:
        raise OnnxImportError(
            f"ONNX import needs the onnx package: pip install 'layout-ir[onnx]' ({error})"
        ) from error

    folder = None
    if isinstance(source, onnx.ModelProto):
        model, title = source, "the ModelProto"
    elif isinstance(source, bytes):
        model, title = _parse(source, "the model"), "the model"
    else:
        path, title = Path(source), f"'{os.fspath(source)}'"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise OnnxImportError(f"cannot read {title}: {error.strerror or error}") from error
        model, folder = _parse(data, title), path.parent
    _check(model, title)
    if model.functions:
        import onnx.inliner

        model = onnx.inliner.inline_local_functions(model)
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    opset = opsets.get("", opsets.get("ai.onnx"))
    if opset is None:
        raise OnnxImportError(f"{title} does not say which version of the ONNX operators it uses")
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        todo = "convert it with onnx.version_converter" if opset < OLDEST_OPSET else "update the onnx package"
        raise OnnxImportError(f"{title} uses opset {opset}, supported are {OLDEST_OPSET} to {newest}; {todo}")
    return Model(model.graph, opset, opsets, folder)


def _parse(data: bytes, title: str) -> onnx.ModelProto:
    import onnx
    from google.protobuf.message import DecodeError

    if not data:
        raise OnnxImportError(f"{title} is empty: 0 bytes are no ONNX model")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise OnnxImportError(f"{title} is not an ONNX model, or is truncated ({len(data)} bytes)") from error
    return model


def _check(model: onnx.ModelProto, title: str) -> None:
    # Text, or a file cut at a lucky place, can pass for a message with most fields missing.
    if not model.ir_version or not model.opset_import or not model.HasField("graph"):
        missing = [
            name
            for name, there in (
                ("IR version", model.ir_version),
                ("operator set", model.opset_import),
                ("graph", model.HasField("graph")),
            )
            if not there
        ]
        raise OnnxImportError(
            f"{title} is not an ONNX model, or is truncated: it has no {' and no '.join(missing)}"
        )
    if not model.graph.output:
        raise OnnxImportError(f"{title} has a graph without outputs, or is truncated")
    if model.graph.sparse_initializer:
        name = model.graph.sparse_initializer[0].values.name
        raise OnnxImportError(f"initializer '{name}' is sparse; only dense ones are supported")


def array_of(tensor: onnx.TensorProto, folder: Path | None, title: str) -> NDArray[Any]:
    """The elements of a tensor, from external data where they are stored there. Raises OnnxImportError."""
    import onnx
    import onnx.external_data_helper
    import onnx.numpy_helper

    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        where = {entry.key: entry.value for entry in tensor.external_data}.get("location", "")
        if folder is None:
            raise OnnxImportError(
                f"{title} is stored in the external file '{where}'; give the path of the model, not its contents"
            )
        copy = onnx.TensorProto()
        copy.CopyFrom(tensor)
        tensor = copy
        try:
            onnx.external_data_helper.load_external_data_for_tensor(tensor, str(folder))
        except Exception as error:
            raise OnnxImportError(
                f"{title} is stored in the external file '{where}', which cannot be read from '{folder}': {error}"
            ) from error
    if tensor.data_type == onnx.TensorProto.STRING:
        raise OnnxImportError(f"{title} is a tensor of strings, only numbers are supported")
    try:
        return onnx.numpy_helper.to_array(tensor)
    except Exception as error:
        size = "x".join(map(str, tensor.dims)) or "scalar"
        raise OnnxImportError(
            f"{title} has shape {size}, which its {len(tensor.raw_data)} bytes do not fill: {error}"
        ) from error


def graph_inputs(graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int]]) -> list[Input]:
    """Inputs that are no initializers, in order, with the shapes they say or are given. Raises OnnxImportError."""
    constants = {tensor.name for tensor in graph.initializer}
    values = [value for value in graph.input if value.name not in constants]
    for name in shapes:
        if name not in {value.name for value in values}:
            known = ", ".join(f"'{value.name}'" for value in values) or "none"
            raise OnnxImportError(
                f"shapes names '{name}', which is no input of the model; its inputs: {known}"
            )
    return [_input(value, shapes.get(value.name)) for value in values]


def _input(value: onnx.ValueInfoProto, given: Sequence[int] | None) -> Input:
    import onnx
    import onnx.helper

    name, kind = value.name, value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise OnnxImportError(
            f"input '{name}' is no tensor but {kind or 'of no type'}; only tensors are supported"
        )
    type = value.type.tensor_type
    if type.elem_type in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
        word = onnx.TensorProto.DataType.Name(type.elem_type).lower()
        raise OnnxImportError(f"input '{name}' has element type {word}; only numbers are supported")
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(type.elem_type))
    if given is not None:
        shape = tuple(map(int, given))
        if type.HasField("shape") and len(type.shape.dim) != len(shape):
            raise OnnxImportError(
                f"rank mismatch between shapes['{name}'] = {shape} and input '{name}': "
                f"{len(shape)} != {len(type.shape.dim)}"
            )
        if any(extent < 0 for extent in shape):
            raise OnnxImportError(f"shapes['{name}'] = {shape} has a negative extent")
        return Input(name, shape, dtype)
    if not type.HasField("shape"):
        raise OnnxImportError(f"input '{name}' has no shape; give one: shapes={{'{name}': (...)}}")
    extents: list[int] = []
    for number, dim in enumerate(type.shape.dim):
        if not dim.HasField("dim_value") or dim.dim_value < 0:
            text = f" '{dim.dim_param}'" if dim.dim_param else ""
            example = ", ".join(
                str(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else "1"
                for d in type.shape.dim
            )
            comma = "," if len(type.shape.dim) == 1 else ""
            raise OnnxImportError(
                f"dim {number}{text} of input '{name}' is dynamic; give the shape: "
                f"shapes={{'{name}': ({example}{comma})}}"
            )
        extents.append(dim.dim_value)
    return Input(name, tuple(extents), dtype)
