"""Values during import: constants, which stay NumPy arrays until an op needs them, and SSA values.

A constant that is one element everywhere is a broadcast view of that element (all strides 0), so that it costs
nothing, and operations on it are done on the one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from layout_ir.dialects.layout import attribute_of
from layout_ir.dialects.nn.tensors import ELEMENTS
from layout_ir.elements.element_types import element_type
from layout_ir.frontends.onnx.errors import OnnxImportError
from layout_ir.frontends.onnx.tensors import check_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ELEMENTS = {element_type(name).array_name: attribute_of(name) for name in ELEMENTS}


@dataclass(eq=False)
class Constant:
    """A value known at import, its name in the model, and the result of its nn.constant once there is one."""

    array: NDArray[Any]
    name: str
    result: SSAValue | None = None


Value = Constant | SSAValue


def element_of(dtype: np.dtype[Any], title: str) -> Attribute:
    """The IR's element type. Raises OnnxImportError, naming what has it, if there is none."""
    if dtype.name not in _ELEMENTS:
        raise OnnxImportError(f"{title} has element type {dtype.name}; supported are {', '.join(_ELEMENTS)}")
    return _ELEMENTS[dtype.name]


def dtype_of(value: Value) -> np.dtype[Any]:
    """The NumPy element type of a value."""
    if isinstance(value, Constant):
        return value.array.dtype
    element = tensor_type(value).element_type
    name = next(name for name, known in _ELEMENTS.items() if known == element)
    if name == "bfloat16":
        import onnx
        import onnx.helper

        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16))
    return np.dtype(name)


def shape_of(value: Value) -> tuple[int, ...]:
    return value.array.shape if isinstance(value, Constant) else tensor_type(value).get_shape()


def tensor_type(value: SSAValue) -> TensorType[Attribute]:
    return cast("TensorType[Attribute]", value.type)


def splat(element: Any, shape: Sequence[int]) -> NDArray[Any]:
    """`element`, an array of one element, everywhere in `shape`, without memory.

    Raises OnnxImportError if no tensor can have that shape.
    """
    array = np.asarray(element).reshape(())
    return np.broadcast_to(array, check_shape(shape, array.dtype, "the result"))


def is_splat(array: NDArray[Any]) -> bool:
    """Whether `array` is a view of one element; false for an array that has many equal ones."""
    return array.size > 0 and all(
        stride == 0 or extent == 1 for stride, extent in zip(array.strides, array.shape, strict=True)
    )


def collapsed(array: NDArray[Any]) -> NDArray[Any]:
    """A splat as a scalar, other arrays as they are."""
    return array[(0,) * array.ndim] if is_splat(array) else array


def array_bytes(array: NDArray[Any]) -> bytes:
    """Little-endian row-major elements, one for a splat."""
    array = np.asarray(collapsed(array))
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return array.tobytes()
