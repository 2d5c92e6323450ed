"""Constants of a model as its tensors: those of Constant nodes, those that nobody has read yet, and new ones."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.import_error import quoted
from layout_ir.frontends.onnx.tensor_protos import array_of, stored_bytes
from layout_ir.frontends.onnx.weights_in_file import OpenWeights
from layout_ir.passes.onnx.orders import Order, identity, is_identity

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


class PendingTensor(NamedTuple):
    """A tensor that is stored outside of the model, and the order in which it is wanted: nobody has read it yet."""

    stored: onnx.TensorProto
    order: Order
    weights: OpenWeights | None = None
    """Its bytes, which are in the file of the model, and part of it; None for external data."""

    def elements(self, folder: Path | None) -> NDArray[Any]:
        """Its elements in that order; `folder` is that of the model. Raises OnnxImportError where they are not to be
        had."""
        data = None if self.weights is None else self.weights.read()
        array = array_of(self.stored, folder, f"initializer {quoted(self.stored.name)}", data)
        return array.transpose(self.order)

    @property
    def nbytes(self) -> int:
        """The bytes of `data`. Raises OnnxImportError where no tensor has its shape."""
        if self.weights is not None and is_identity(self.order):
            return self.weights.nbytes
        return stored_bytes(self.stored)

    def data(self, folder: Path | None) -> bytes | memoryview:
        """The bytes of its elements in that order, as a file has them. Raises OnnxImportError as `elements`."""
        if self.weights is not None and is_identity(self.order):
            return self.weights.read()
        return _little_endian(self.elements(folder))

    def written(self, name: str, folder: Path | None) -> onnx.TensorProto:
        """The tensor of this name with these elements in it. Raises OnnxImportError as `elements`."""
        if self.weights is None or not is_identity(self.order):
            return constant_tensor(self.elements(folder), name)
        result = type(self.stored)()
        result.CopyFrom(self.stored)
        result.ClearField("data_location")
        result.name, result.raw_data = name, self.weights.read()
        return result


def pending_of(model: onnx.ModelProto, weights: Mapping[str, OpenWeights]) -> dict[str, PendingTensor]:
    """The initializers of a model whose weights these are, which are not in it."""
    found: dict[str, PendingTensor] = {}
    for tensor in model.graph.initializer if weights else ():
        if tensor.name in weights:
            stored = type(tensor)()
            stored.CopyFrom(tensor)
            found[tensor.name] = PendingTensor(stored, identity(len(tensor.dims)), weights[tensor.name])
    return found


def has_numbers(tensor: onnx.TensorProto) -> bool:
    """Whether the elements of a tensor are numbers; strings are left as they are."""
    return tensor.data_type not in (tensor.UNDEFINED, tensor.STRING)


def node_constants(nodes: Iterable[onnx.NodeProto]) -> dict[str, onnx.TensorProto]:
    """The tensors of numbers that Constant nodes among these give, by name; sparse ones are not told."""
    found: dict[str, onnx.TensorProto] = {}
    for node in nodes:
        if node.op_type == "Constant" and not domain_of(node.domain) and len(node.attribute) == 1:
            tensor = _given_tensor(node.attribute[0])
            if tensor is not None and has_numbers(tensor):
                found[node.output[0]] = tensor
    return found


def _given_tensor(attribute: onnx.AttributeProto) -> onnx.TensorProto | None:
    import onnx

    kinds = onnx.TensorProto
    match attribute.name:
        case "value":
            return attribute.t if attribute.HasField("t") else None
        case "value_int":
            return kinds(data_type=kinds.INT64, int64_data=[attribute.i])
        case "value_ints":
            return kinds(data_type=kinds.INT64, dims=[len(attribute.ints)], int64_data=attribute.ints)
        case "value_float":
            return kinds(data_type=kinds.FLOAT, float_data=[attribute.f])
        case "value_floats":
            return kinds(data_type=kinds.FLOAT, dims=[len(attribute.floats)], float_data=attribute.floats)
        case _:
            return None


def constant_tensor(array: NDArray[Any], name: str) -> onnx.TensorProto:
    """A tensor of these elements."""
    import numpy as np
    import onnx
    import onnx.numpy_helper

    array = np.ascontiguousarray(array)
    if array.dtype == np.float32 and sys.byteorder == "little":
        # What the package does, for most constants of most models, without asking what they are.
        kind = onnx.TensorProto.FLOAT
        return onnx.TensorProto(name=name, data_type=kind, dims=array.shape, raw_data=array.tobytes())
    return onnx.numpy_helper.from_array(array, name)


def _little_endian(array: NDArray[Any]) -> bytes | memoryview:
    """The bytes of an array as a file has them; no copy besides the one that puts them in order."""
    import numpy as np
    import onnx.helper
    import onnx.numpy_helper

    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    if (
        sys.byteorder == "big"
        or stored_bytes(onnx.TensorProto(data_type=element, dims=array.shape)) != array.nbytes
    ):
        return onnx.numpy_helper.from_array(array).raw_data
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
