"""Names of constants with which ONNX Runtime cannot load what it would fuse: they get other ones."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from tests.exits.onnx.models import onnxruntime
from tests.passes.onnx.optimized import check_optimized, initializer, model_of, op_types, transpose, value


def _model(name: str) -> onnx.ModelProto:
    """A product and a sum between Transposes, and a Reshape to a shape of this name."""
    nodes = [
        transpose("x", "t", 0, 2, 1),
        oh.make_node("Relu", ["t"], ["u"]),
        transpose("u", "v", 0, 2, 1),
        oh.make_node("MatMul", ["v", "w"], ["p"]),
        oh.make_node("Add", ["p", "b"], ["q"]),
        oh.make_node("Reshape", ["q", name], ["y"]),
    ]
    constants = [
        initializer("w", np.eye(4, 5, dtype=np.float32)),
        initializer("b", np.arange(5, dtype=np.float32)),
        initializer(name, np.array([6, 5])),
    ]
    return model_of(nodes, [value("x", 2, 3, 4)], [value("y", 6, 5)], constants)


def _loads(model: onnx.ModelProto) -> bool:
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        return False
    return True


@pytest.mark.parametrize("name", ["gemm_input_shape", "gemm_output_shape", "gemm_input_shape_token_6"])
def test_a_shape_that_onnx_runtime_would_call_so_gets_another_name(name: str):
    result = check_optimized(_model(name)).model
    assert op_types(result) == ["Relu", "MatMul", "Add", "Reshape"]
    assert [tensor.name for tensor in result.graph.initializer] == ["w", "b", f"{name}_given"]
    assert _loads(result)


def _reshapes(node: str, shape: str) -> onnx.ModelProto:
    """Transposes that meet, a Reshape to a shape of this name, and two Reshapes side by side, the first one `node`."""
    nodes = [
        transpose("x", "t", 0, 2, 1),
        oh.make_node("Relu", ["t"], ["u"]),
        transpose("u", "v", 0, 2, 1),
        oh.make_node("Reshape", ["v", shape], ["p"], name="first"),
        oh.make_node("Neg", ["p"], ["q"]),
        oh.make_node("Reshape", ["q", "flat"], ["r"], name=node),
        oh.make_node("Reshape", ["r", "last"], ["y"], name="second"),
    ]
    shapes = ((shape, [6, 4]), ("flat", [24]), ("last", [4, 6]))
    constants = [initializer(name, np.array(extents)) for name, extents in shapes]
    return model_of(nodes, [value("x", 2, 3, 4)], [value("y", 4, 6)], constants)


@pytest.mark.parametrize("node", ["", "joined"])
def test_a_shape_that_reshapes_would_have_once_they_are_one_gets_another_name(node: str):
    name = f"{node}_new_shape"
    assert not _loads(_reshapes(node, name))
    result = check_optimized(_reshapes(node, name)).model
    assert f"{name}_given" in [tensor.name for tensor in result.graph.initializer]
    assert _loads(result)


def test_negative_a_shape_of_another_name_stays():
    result = check_optimized(_reshapes("joined", "other_new_shape")).model
    assert "other_new_shape" in [tensor.name for tensor in result.graph.initializer] and _loads(result)


@pytest.mark.parametrize("name", ["gemm_input_shapes", "my_gemm_input_shape", "gemm_input_shape_given"])
def test_negative_other_names_stay(name: str):
    result = check_optimized(_model(name)).model
    assert result.graph.initializer[-1].name == name and _loads(result)


def test_negative_an_input_keeps_its_name():
    name = "gemm_input_shape"
    model = _model(name)
    model.graph.input.append(value(name, 2, dtype=onnx.TensorProto.INT64))
    feeds = {"x": np.ones((2, 3, 4), np.float32), name: np.array([6, 5])}
    assert check_optimized(model, feeds).model.graph.node[-1].input[1] == name


@pytest.mark.deep
def test_onnx_runtime_does_not_load_it_as_it_was():
    """That this is still so: where it is not, nothing has to be renamed."""
    model = check_optimized(_model("shape")).model
    model.graph.initializer[-1].name = model.graph.node[-1].input[1] = "gemm_input_shape"
    assert not _loads(model)
