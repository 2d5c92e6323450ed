"""Transposes that ONNX Runtime would take through a Cast into a MatMul: where they stand, and that models load."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.passes.onnx import order_search
from layout_ir.passes.onnx.cast_transposes import BARRIERS, move_behind_casts
from layout_ir.passes.onnx.consumers import consumer_named
from layout_ir.passes.onnx.order_plan import Plan
from tests.exits.onnx.models import check, onnx, onnxruntime
from tests.passes.onnx.optimized import op_types
from tests.processes import run_python

helper, F32, F16 = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16


def _model(perm: list[int], *, uses: int = 1, dtype: int = F16) -> Any:
    """A Transpose of [2, 3, 4, 5] or less of it, a Cast to f32, and as many products with a matrix of ones."""
    shape = [2, 3, 4, 5][: len(perm)]
    wide = shape[perm[-1]]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], name="Transpose", perm=perm),
        helper.make_node("Cast", ["t"], ["c"], name="Cast", to=F32),
        helper.make_node("MatMul", ["c", "w"], ["y"], name="MatMul"),
    ]
    outputs = [helper.make_tensor_value_info("y", F32, [*(shape[d] for d in perm[:-1]), 6])]
    if uses > 1:
        nodes.append(helper.make_node("Abs", ["t"], ["z"], name="Abs"))
        outputs.append(helper.make_tensor_value_info("z", dtype, [shape[d] for d in perm]))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", dtype, shape)], outputs,
        [onnx.numpy_helper.from_array(np.ones((wide, 6), np.float32), "w")],
        value_info=[helper.make_tensor_value_info("t", dtype, [shape[d] for d in perm])],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _results(model: Any) -> list[Any]:
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.arange(np.prod(shape)).reshape(shape).astype(np.float16)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, {"x": x}))


@pytest.mark.parametrize("uses", [1, 2])
@pytest.mark.parametrize("perm", [[1, 0, 2], [1, 2, 0], [1, 2, 0, 3], [1, 2, 3, 0]])
def test_a_transpose_that_onnx_runtime_cannot_take_through_a_cast_moves_behind_it(perm: list[int], uses: int):
    model = _model(perm, uses=uses)
    move_behind_casts(model)
    check(model)
    moved = ["Cast", "Transpose", "MatMul"]
    assert op_types(model) == (moved if uses == 1 else ["Transpose", *moved, "Abs"])
    shape = [2, 3, 4, 5][: len(perm)]
    x = np.arange(np.prod(shape)).reshape(shape).astype(np.float32)
    np.testing.assert_array_equal(_results(model)[0], x.transpose(perm) @ np.ones((shape[perm[-1]], 6)))
    again = onnx.ModelProto.FromString(model.SerializeToString())
    move_behind_casts(again)
    assert again == model


def test_a_transpose_in_front_of_a_product_with_flags_moves_too():
    model = _model([1, 0, 2])
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.graph.node[2].op_type, model.graph.node[2].domain = "FusedMatMul", "com.microsoft"
    move_behind_casts(model)
    assert op_types(model) == ["Cast", "Transpose", "FusedMatMul"]
    x = np.arange(24).reshape(2, 3, 4).astype(np.float32)
    np.testing.assert_array_equal(_results(model)[0], x.transpose(1, 0, 2) @ np.ones((4, 6)))


@pytest.mark.parametrize("perm", [[0, 2, 1], [2, 0, 1], [2, 1, 0], [1, 0], [0, 2, 1, 3], [1, 0, 2, 3]])
def test_negative_other_transposes_stay(perm: list[int]):
    model = _model(perm)
    before = model.SerializeToString()
    move_behind_casts(model)
    assert model.SerializeToString() == before and _results(model)


def test_negative_a_cast_that_no_product_takes_stays_behind_its_transpose():
    model = _model([1, 0, 2])
    model.graph.node[2].op_type = "Sub"
    before = model.SerializeToString()
    move_behind_casts(model)
    assert model.SerializeToString() == before


def test_what_is_written_can_be_loaded_and_comes_out_the_same_a_second_time():
    """Without the exchange, the Transpose of f16 is the cheaper one."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], name="first", perm=[2, 1, 0]),
        helper.make_node("Transpose", ["t"], ["u"], name="Transpose", perm=[1, 2, 0]),
        helper.make_node("Cast", ["u"], ["c"], name="Cast", to=F32),
        helper.make_node("MatMul", ["c", "w"], ["y"], name="MatMul"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", F16, [2, 3, 4])],
        [helper.make_tensor_value_info("y", F32, [3, 2, 6])],
        [onnx.numpy_helper.from_array(np.ones((4, 6), np.float32), "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for target in ("onnx", "ort-cpu"):
        result = li.optimize_onnx(model, target)
        better = result.model
        assert any(
            "behind a Cast to f32, and move more than is counted here: 1;" in note for note in result.notes
        )
        assert op_types(better) == ["Cast", "Transpose", "MatMul"]
        x = np.arange(24).reshape(2, 3, 4).astype(np.float32)
        np.testing.assert_array_equal(_results(better)[0], x.transpose(1, 0, 2) @ np.ones((4, 6)))
        again = li.optimize_onnx(better, target).model
        assert again.SerializeToString() == better.SerializeToString()


@pytest.mark.deep
def test_onnx_runtime_ends_itself_where_the_transpose_stays():
    """That this is still so: where it is not, nothing has to move."""
    assert _status(_model([1, 0, 2])) < 0


_ONES = {"g": (16,), "c": (5,), "square": (16, 16), "outer": (6, 5, 1), "inner": (5, 6, 1)}
_BEHIND: dict[str, tuple[list[str], dict[str, Any]]] = {
    "Attention": (["t", "t", "t"], {"q_num_heads": 2, "kv_num_heads": 2}),
    "BatchNormalization": (["t", "c", "c", "c", "c"], {}),
    "Conv": (["t", "outer"], {}),
    "ConvTranspose": (["t", "inner"], {}),
    "Einsum": (["t", "square"], {"equation": "abc,cd->abd"}),
    "GRU": (["t", "gates3", "gates3"], {"hidden_size": 16}),
    "Gather": (["t", "rows"], {"axis": 1}),
    "GatherElements": (["t", "places"], {"axis": 1}),
    "GatherND": (["t", "indices"], {}),
    "GroupNormalization": (["t", "c", "c"], {"num_groups": 5}),
    "InstanceNormalization": (["t", "c", "c"], {}),
    "LSTM": (["t", "gates4", "gates4"], {"hidden_size": 16}),
    "LayerNormalization": (["t", "g"], {}),
    "RMSNormalization": (["t", "g"], {}),
    "RNN": (["t", "gates1", "gates1"], {"hidden_size": 16}),
    "SimplifiedLayerNormalization": (["t", "g"], {}),
    "SkipLayerNormalization": (["t", "t", "g"], {"domain": "com.microsoft"}),
    "SkipSimplifiedLayerNormalization": (["t", "t", "g"], {"domain": "com.microsoft"}),
    "TopK": (["t", "two"], {"axis": 1}),
}
"""Inputs and attributes of operators behind a Transpose; what they make goes into a product."""


def _status(model: Any) -> int:
    """The exit status of a process that has ONNX Runtime make a session of a model; below 0 where that ends it."""
    code = (
        "import onnxruntime, sys\n"
        "onnxruntime.InferenceSession(bytes.fromhex(sys.stdin.read()), providers=['CPUExecutionProvider'])"
    )
    return run_python("-c", code, stdin=model.SerializeToString().hex(), check=False).returncode


def _through(operator: str, inputs: list[str], attributes: dict[str, Any]) -> Any:
    constants = {name: np.ones(shape, np.float16) for name, shape in _ONES.items()}
    constants |= {f"gates{k}": np.ones((1, 16 * k, 16), np.float16) for k in (1, 3, 4)}
    constants |= {"rows": np.array([0, 2, 1]), "places": np.zeros((7, 2, 16), np.int64), "two": np.array([2])}
    constants |= {"indices": np.array([[0], [2]]), "axes": np.array([1]), "w": np.ones((16, 8), np.float16)}
    is_recurrent = operator in ("GRU", "LSTM", "RNN")
    made = ["u", "places_of_u"][: 1 + (operator == "TopK")]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        helper.make_node(operator, inputs, ["r"] if is_recurrent else made, **attributes),
        *([helper.make_node("Squeeze", ["r", "axes"], ["u"])] if is_recurrent else []),
        helper.make_node("MatMul", ["u", "w"], ["y"]),
    ]
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", F16, [5, 7, 16])],
        [helper.make_tensor_value_info("y", F16, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items() if name in used],
    )  # fmt: skip
    newest = 23 if operator in ("Attention", "GroupNormalization", "RMSNormalization") else 17
    opsets = [helper.make_opsetid("", newest), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.deep
@pytest.mark.parametrize("operator", _BEHIND)
def test_onnx_runtime_takes_no_transpose_through(operator: str):
    assert _status(_through(operator, *_BEHIND[operator])) == 0


@pytest.mark.deep
def test_negative_onnx_runtime_takes_one_through_what_moves_nothing_by_itself():
    assert _status(_through("Identity", ["t"], {})) < 0


def test_all_through_which_it_takes_none_have_been_tried():
    assert BARRIERS - {"FusedMatMul", "MatMul"} == _BEHIND.keys()


_CONVERTS_HALVES = pytest.mark.skipif(
    not consumer_named("ort-cpu").converts_halves, reason="products of f16 are computed as they are"
)


def _products(dtype: int, first: str = "LayerNormalization") -> Any:
    """Three products of one value, what operator `first` makes of the input, each transposed behind it: one Transpose
    in front moves less."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    takes_two = first in ("LayerNormalization", "Mul")
    nodes = [helper.make_node(first, ["x", "g"] if takes_two else ["x"], ["n"])] if first else []
    for k in "abc":
        nodes.append(helper.make_node("MatMul", ["n" if first else "x", f"w{k}"], [f"p{k}"]))
        nodes.append(helper.make_node("Transpose", [f"p{k}"], [f"y{k}"], perm=[1, 0, 2]))
    constants = {"g": np.ones(16, kind), **{f"w{k}": np.eye(16, 24, dtype=kind) for k in "abc"}}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", dtype, [2, 3, 16])],
        [helper.make_tensor_value_info(f"y{k}", dtype, [3, 2, 24]) for k in "abc"],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@_CONVERTS_HALVES
def test_no_transpose_is_written_that_onnx_runtime_cannot_take_to_a_product_of_halves():
    model = _products(F16)
    result = li.optimize_onnx(model, "ort-cpu")
    assert op_types(result.model) == ["Transpose", "LayerNormalization", "MatMul", "MatMul", "MatMul"]
    assert result.solution.is_optimal and not any("products of f16" in note for note in result.notes)
    for found, expected in zip(_results(result.model), _results(model), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert li.optimize_onnx(result.model, "ort-cpu").model == result.model


@_CONVERTS_HALVES
def test_one_product_of_halves_that_keeps_its_transposes_keeps_no_others():
    model = _products(F16, first="")
    more = [
        helper.make_node("Transpose", ["z"], ["z1"], perm=[0, 2, 1]),
        helper.make_node("Relu", ["z1"], ["z2"]),
        helper.make_node("Transpose", ["z2"], ["z3"], perm=[0, 2, 1]),
    ]
    model.graph.node.extend(more)
    model.graph.input.append(helper.make_tensor_value_info("z", F32, [2, 8, 9]))
    model.graph.output.append(helper.make_tensor_value_info("z3", F32, [2, 8, 9]))
    result = li.optimize_onnx(model, "ort-cpu")
    assert (result.before.count, result.after.count) == (5, 3)
    assert Counter(op_types(result.model)) == {"MatMul": 3, "Transpose": 3, "Relu": 1}
    assert not result.solution.is_optimal and any("products of f16" in note for note in result.notes)
    onnxruntime.InferenceSession(result.model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert li.optimize_onnx(result.model, "ort-cpu").model == result.model


@_CONVERTS_HALVES
@pytest.mark.parametrize("first", ["", "Identity", "Mul", "Relu"])
def test_negative_products_of_halves_keep_transposes_that_onnx_runtime_would_take_to_them(first: str):
    model = _products(F16, first)
    result = li.optimize_onnx(model, "ort-cpu")
    assert op_types(result.model) == op_types(model) and result.after == result.before
    assert any("products of f16" in note for note in result.notes)
    onnxruntime.InferenceSession(result.model.SerializeToString(), providers=["CPUExecutionProvider"])


@_CONVERTS_HALVES
def test_a_model_that_stays_keeps_transposes_that_are_there_twice(monkeypatch: pytest.MonkeyPatch):
    def always(plan: Plan) -> bool:
        return True

    monkeypatch.setattr(order_search, "takes_turned_halves", always)
    model = _products(F16)
    for name in "de":
        model.graph.node.append(helper.make_node("Transpose", ["x"], [f"t{name}"], perm=[2, 1, 0]))
        model.graph.node.append(helper.make_node("TopK", [f"t{name}", "k"], [f"y{name}", f"i{name}"], axis=0))
        model.graph.output.append(helper.make_tensor_value_info(f"y{name}", F16, [2, 3, 2]))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2]), "k"))
    result = li.optimize_onnx(model, "ort-cpu")
    onnx.checker.check_model(result.model)
    assert op_types(result.model) == op_types(model) and result.after == result.before


@pytest.mark.parametrize(("dtype", "target"), [(F32, "ort-cpu"), (F16, "onnx")])
def test_negative_it_is_for_other_types_and_runtimes(dtype: int, target: str):
    result = li.optimize_onnx(_products(dtype), target)
    assert op_types(result.model) == ["LayerNormalization", "Transpose", "MatMul", "MatMul", "MatMul"]
    assert not any("products of f16" in note for note in result.notes)
