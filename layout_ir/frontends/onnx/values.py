"""Values during import: constants, which stay NumPy arrays until an op uses them, and SSA values.

A splat, a constant that is one element everywhere, is a broadcast view of that element (all strides 0): it takes no
memory, and ops on it are evaluated on the one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from layout_ir.dialects.layout import attribute_of
from layout_ir.dialects.nn.tensor_types import ELEMENTS
from layout_ir.elements.element_types import element_type
from layout_ir.frontends.onnx.import_error import UnknownTypeError
from layout_ir.frontends.onnx.tensor_protos import check_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ELEMENTS = {element_type(name).array_name: attribute_of(name) for name in ELEMENTS}


@dataclass(eq=False)
class Constant:
    """A value known at import, its name in the model, and the result of its nn.constant, None before its first use."""

    array: NDArray[Any]
    name: str
    result: SSAValue | None = None


Value = Constant | SSAValue


def is_known(dtype: np.dtype[Any]) -> bool:
    """Whether there is an element type in the IR for a NumPy type."""
    return dtype.name in _ELEMENTS


def element_of(dtype: np.dtype[Any], title: str) -> Attribute:
    """The element type in the IR for a NumPy type. Raises OnnxImportError, naming `title`, where there is none."""
    if not is_known(dtype):
        raise UnknownTypeError(f"{title} has element type {dtype.name}; supported are {', '.join(_ELEMENTS)}")
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
    """The extents of a value, all static."""
    return value.array.shape if isinstance(value, Constant) else tensor_type(value).get_shape()


def tensor_type(value: SSAValue) -> TensorType[Attribute]:
    """The type of `value`: import makes tensors only."""
    return cast("TensorType[Attribute]", value.type)


def splat(element: Any, shape: Sequence[int]) -> NDArray[Any]:
    """A splat of `shape` from `element`, an array of one element. Raises OnnxImportError for an impossible shape."""
    array = np.asarray(element).reshape(())
    return np.broadcast_to(array, check_shape(shape, array.dtype, "the result"))


def is_splat(array: NDArray[Any]) -> bool:
    """Whether `array` is a broadcast view of one element; False for equal elements that each take memory."""
    return array.size > 0 and all(
        stride == 0 or extent == 1 for stride, extent in zip(array.strides, array.shape, strict=True)
    )


def collapsed(array: NDArray[Any]) -> NDArray[Any]:
    """The one element of a splat as a scalar; any other array unchanged."""
    return array[(0,) * array.ndim] if is_splat(array) else array


def array_bytes(array: NDArray[Any]) -> bytes:
    """The elements as little-endian bytes in row-major order; one element for a splat."""
    array = np.asarray(collapsed(array))
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    whole: Any = array
    while isinstance(whole, np.ndarray):
        whole = whole.base
    if isinstance(whole, bytes) and array.flags.c_contiguous and array.nbytes == len(whole):
        return whole  # of a weight as the file has it, which needs no second copy
    return array.tobytes()
