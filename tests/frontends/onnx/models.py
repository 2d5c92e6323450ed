"""Small ONNX models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from layout_ir.dialects.nn import ConstantOp
from layout_ir.frontends.onnx import from_onnx

NEWEST = onnx.defs.onnx_opset_version()
NETWORK_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
"""Where the package onnx keeps its networks, whose weights are not in the files."""
NETWORKS = sorted(path.stem.removeprefix("light_") for path in NETWORK_FOLDER.glob("light_*.onnx"))

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


def result_type(op: Operation) -> TensorType[Attribute]:
    """The type of the op's result."""
    type = op.results[0].type
    assert isinstance(type, TensorType)
    return cast("TensorType[Attribute]", type)


def constants_of(module: ModuleOp) -> list[ConstantOp]:
    """The constants of the imported function, in order."""
    return [op for op in main_of(module).body.block.ops if isinstance(op, ConstantOp)]


def literal_of(op: ConstantOp) -> NDArray[Any]:
    """The elements of a constant."""
    element = {"f32": np.float32, "i64": np.int64, "f16": np.float16, "i1": np.bool_}[str(op.infer_element())]
    array = np.frombuffer(op.literal.data.data, element)
    return np.full(op.infer(), array[0]) if op.is_splat else array.reshape(op.infer())


def ints(*values: int) -> NDArray[np.int64]:
    """A vector, as shapes and axes are given."""
    return np.array(values, np.int64)


def load(name: str) -> onnx.ModelProto:
    """One of the NETWORKS."""
    return onnx.ModelProto.FromString((NETWORK_FOLDER / f"light_{name}.onnx").read_bytes())


def shape_of(op: Operation) -> tuple[int, ...]:
    """The shape of the op's result."""
    return result_type(op).get_shape()
