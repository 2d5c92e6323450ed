"""An ONNX model as nodes over named values: what it declares, its constants, and what a call is given and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.api.call_inputs import Inputs, in_order
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError, printable
from layout_ir.forking import loading

if TYPE_CHECKING:
    import onnx

    from layout_ir.frontends.onnx.model import Model

_STRING = 8
"""How ONNX numbers texts among element types."""


class ModelNodes:
    """The nodes of a model, functions of it inlined, in order."""

    def __init__(self, model: Model) -> None:
        """Raises LayoutError where a node of a function of the model, which is loaded, is another operator in the
        versions of operators of the model itself."""
        with loading:
            from layout_ir.frontends.onnx.functions import domain_of, take_versions

        graph = model.graph
        self.versions = {domain_of(entry.domain): entry.version for entry in model.proto.opset_import}
        """Of the operators, by domain."""
        for call in model.calls:
            take_versions(call, self.versions, "the model, whose shapes depend on numbers")
        self.nodes: Sequence[onnx.NodeProto] = [call.proto for call in model.calls]
        self.stated = {value.name: value for value in (*graph.value_info, *graph.output)}
        """What the model says of the types of values, by name."""
        self.constants: Mapping[str, Any] = {
            tensor.name: _texts(tensor)
            if tensor.data_type == _STRING
            else model.array_of(tensor, f"initializer '{tensor.name}'")
            for tensor in graph.initializer
        }
        self._declared = {value.name: value for value in graph.input if value.name not in self.constants}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        """Those that inputs were found to have: looking again would wait for whoever imports or compiles."""
        self.input_names = list(self._declared)
        self.result_names = [value.name for value in graph.output]

    def inputs(self, given: Inputs, shapes: Mapping[str, Sequence[int]] | None = None) -> dict[str, Any]:
        """The inputs of a call, by name, as the model declares them. Raises LayoutError where one is another, or not
        of its shape in `shapes`."""
        values = in_order(self.input_names, "the model", given)
        return {
            name: self._input(name, value, shapes or {})
            for name, value in zip(self.input_names, values, strict=True)
        }

    def _input(self, name: str, value: Any, shapes: Mapping[str, Sequence[int]]) -> Any:
        dtype = self._dtypes.get(name)
        if dtype is None:
            type = self._declared[name].type
            if type.WhichOneof("value") != "tensor_type":
                return value
            if type.tensor_type.elem_type == _STRING:
                return np.asarray(value).astype(object)
            with loading:
                from layout_ir.frontends.onnx.tensor_protos import numpy_type

            dtype = self._dtypes[name] = numpy_type(type.tensor_type.elem_type, f"input '{name}'")
        array = np.asarray(value)
        if dtype.name == "bfloat16" and array.dtype == np.uint16:
            array = array.view(dtype)
        wanted = tuple(shapes.get(name, array.shape))
        if array.dtype != dtype or array.shape != wanted:
            raise LayoutError(
                f"input '{name}' is {dtype} of shape {wanted}, the array given is {array.dtype} of {array.shape}"
            )
        return array

    def results(self, known: Mapping[str, Any]) -> list[Any]:
        """The outputs among the values that are known, or what the reference makes of other values."""
        constants = self.constants
        return [_stored_form(known[name] if name in known else constants[name]) for name in self.result_names]


def _texts(tensor: onnx.TensorProto) -> Array:
    """The texts of a tensor. Raises LayoutError where they do not fill its shape."""
    import onnx.numpy_helper

    try:
        return onnx.numpy_helper.to_array(tensor)
    except ValueError as error:
        raise LayoutError(
            f"initializer '{printable(tensor.name)}' has {len(tensor.string_data)} texts, which its shape "
            f"{list(tensor.dims)} does not take"
        ) from error


@cache
def bf16() -> np.dtype[Any]:
    """The element type of arrays of bf16."""
    import onnx
    import onnx.helper

    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16))


def _stored_form(value: Any) -> Any:
    """An output as executables give it: bf16 as its bits."""
    tensor: Any = value
    is_bf16: bool = isinstance(value, np.ndarray) and tensor.dtype == bf16()
    return tensor.view(np.uint16) if is_bf16 else tensor
