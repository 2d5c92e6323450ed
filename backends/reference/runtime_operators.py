"""Operators of ONNX Runtime for the reference of the onnx package: what their functions compute."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.function_body import TensorType
from layout_ir.frontends.onnx.runtime_functions import FUNCTIONS, OPSET, function_nodes


@cache
def runtime_operators(others: Callable[[], list[Any]]) -> list[Any]:
    """A class of the onnx package, which is imported here, for each operator that has a function; `others` gives those
    for standard operators. What no function is for is left to the package, where it has the operator."""
    from onnx.defs import get_schema
    from onnx.reference.op_run import OpRun
    from onnx.reference.ops.aionnxml import _op_list

    package: Any = _op_list

    class FunctionRun(OpRun):
        op_schema = None  # instead of that of a standard operator of the same name

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.known: dict[tuple[TensorType | None, ...], Any] = {}

        def _run(self, *inputs: Array | None, **attributes: Any) -> tuple[Array | None, ...]:
            key = tuple(None if array is None else _type_of(array) for array in inputs)
            if key not in self.known:
                self.known = {key: _evaluator(self.onnx_node, key, others())}
            evaluator = self.known[key]
            if evaluator is None:
                return self._without_function(*inputs, **attributes)
            names = self.onnx_node.input
            feeds = {name: array for name, array in zip(names, inputs, strict=False) if array is not None}
            found = dict(zip(evaluator.output_names, evaluator.run(None, feeds), strict=True))
            return tuple(found.get(name) for name in self.onnx_node.output)

        def _without_function(self, *inputs: Array | None, **attributes: Any) -> tuple[Array | None, ...]:
            node = self.onnx_node
            if isinstance(self, package.OpRunAiOnnxMl):
                own: Any = super()
                return own._run(*inputs, **attributes)
            raise LayoutError(
                f"{node.domain}::{node.op_type} with these inputs and attributes has no reference"
            )

    def operator(domain: str, op_type: str) -> Any:
        base: Any = FunctionRun
        if domain != "ai.onnx.ml":
            return type(op_type, (base,), {"op_domain": domain})
        own: Any = getattr(package, op_type)
        return type(
            op_type, (base, own), {"op_domain": domain, "op_schema": get_schema(op_type, domain=domain)}
        )

    names = [key.rpartition(".") for key in FUNCTIONS]
    return [operator(domain, op_type) for domain, _, op_type in names]


def _type_of(array: Array) -> TensorType:
    import onnx.helper

    return TensorType(onnx.helper.np_dtype_to_tensor_dtype(array.dtype), np.shape(array))


def _evaluator(node: Any, types: tuple[TensorType | None, ...], operators: list[Any]) -> Any:
    """An evaluator of the function of `node` for inputs of these types, by these classes of `operators`; None where
    there is no function."""
    import onnx
    import onnx.helper
    from onnx.reference import ReferenceEvaluator

    known = {name: type for name, type in zip(node.input, types, strict=False) if type is not None}
    nodes = function_nodes(node, known.__getitem__)
    if nodes is None:
        return None
    graph = onnx.GraphProto(name="function", node=nodes)
    graph.input.extend(
        onnx.helper.make_tensor_value_info(name, type.element, type.extents) for name, type in known.items()
    )
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)])
    return ReferenceEvaluator(model, new_ops=operators)
