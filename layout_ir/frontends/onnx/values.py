"""Values during import: constants, and SSA values of tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from layout_ir.dialects.layout import attribute_of
from layout_ir.dialects.nn.tensor_types import ELEMENTS
from layout_ir.elements.element_types import element_type
from layout_ir.frontends.onnx.constants import Constant
from layout_ir.frontends.onnx.import_error import UnknownTypeError

_ELEMENTS = {element_type(name).array_name: attribute_of(name) for name in ELEMENTS}

Value = Constant | SSAValue


def is_known(dtype: np.dtype[Any]) -> bool:
    """Whether there is an element type in the IR for a NumPy type."""
    return dtype.name in _ELEMENTS


def has_known_types(values: Iterable[Value | None]) -> bool:
    """Whether the constants among `values` are of element types that a program has: those of 4 bits are not."""
    return all(is_known(value.array.dtype) for value in values if isinstance(value, Constant))


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
