"""Small ONNX models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from layout_ir.frontends.onnx import from_onnx

NEWEST = onnx.defs.onnx_opset_version()
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NETWORKS = sorted(path.stem.removeprefix("light_") for path in LIGHT.glob("light_*.onnx"))

Shape = Sequence[int | str | None]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Shape],
    outputs: Sequence[str] = ("y",),
    constants: Mapping[str, NDArray[Any]] | None = None,
    *,
    opset: int = NEWEST,
    element: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """A model; the shapes of its outputs are not said."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, element, list(shape)) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def node(op_type: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """A node with inputs and outputs separated by spaces; "-" is an optional one that is left out."""

    def split(names: str) -> list[str]:
        return ["" if name == "-" else name for name in names.split()]

    return helper.make_node(op_type, split(inputs), split(outputs), **attributes)


def main_of(module: ModuleOp) -> FuncOp:
    (function,) = module.body.block.ops
    assert isinstance(function, FuncOp)
    assert function.sym_name.data == "main"
    return function


def ops_of(source: onnx.ModelProto, **options: Any) -> list[Operation]:
    """The ops of the imported function, without constants and the end."""
    module = from_onnx(source, **options)
    module.verify()
    left_out = ("nn.constant", "layout.reorder", "func.return")
    return [op for op in main_of(module).body.block.ops if op.name not in left_out]


def only(source: onnx.ModelProto, **options: Any) -> Any:
    """The one op of the imported function."""
    (op,) = ops_of(source, **options)
    return op


def shape_of(op: Operation) -> tuple[int, ...]:
    type: Attribute = op.results[0].type
    assert isinstance(type, TensorType)
    return type.get_shape()
