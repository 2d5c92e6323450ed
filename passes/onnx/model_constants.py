"""Constants of a model as its tensors: those of Constant nodes, those that nobody has read yet, and new ones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from layout_ir.passes.onnx.orders import Order

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


class PendingTensor(NamedTuple):
    """A tensor that is stored outside of the model, and the order in which it is wanted: nobody has read it yet."""

    stored: onnx.TensorProto
    order: Order


def has_numbers(tensor: onnx.TensorProto) -> bool:
    """Whether the elements of a tensor are numbers; strings are left as they are."""
    return tensor.data_type not in (tensor.UNDEFINED, tensor.STRING)


def constant_of(attribute: onnx.AttributeProto) -> onnx.TensorProto | None:
    """The tensor that a Constant node gives; None for strings and sparse tensors."""
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
