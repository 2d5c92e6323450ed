"""What ONNX itself says the shape of a result is: an oracle for `infer`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper, shape_inference

NEWEST = onnx.defs.onnx_opset_version()


def onnx_shape(
    op_type: str,
    shapes: Sequence[Sequence[int]],
    constants: Sequence[tuple[int, Sequence[float]]] = (),
    result: int = TensorProto.FLOAT,
    **attributes: Any,
) -> tuple[int, ...] | None:
    """The result's shape for float inputs of `shapes`; None if ONNX refuses the node.

    `constants` are further inputs with known contents: an element type and the elements of a vector.
    `result` is the element type of the result.
    """
    inputs = [f"x{number}" for number in range(len(shapes))]
    initializers = [
        helper.make_tensor(f"c{number}", kind, [len(values)], list(values))
        for number, (kind, values) in enumerate(constants)
    ]
    node = helper.make_node(
        op_type, [*inputs, *(tensor.name for tensor in initializers)], ["y"], **attributes
    )
    graph = helper.make_graph(
        [node],
        "graph",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in zip(inputs, shapes, strict=True)
        ],
        [helper.make_tensor_value_info("y", result, None)],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", NEWEST)])
    try:
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError:
        return None
    dims = inferred.graph.output[0].type.tensor_type.shape.dim
    return tuple(dim.dim_value for dim in dims)
