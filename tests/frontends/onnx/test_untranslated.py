"""Nodes without a translation: kept whole, executed by onnx's reference, written again as they came."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from xdsl.dialects.builtin import ModuleOp

import layout_ir as li
from layout_ir.api.program_text import parse_program
from layout_ir.dialects.nn import OpaqueOp
from layout_ir.dialects.nn.protos import node_of
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from layout_ir.frontends.onnx.subgraphs import captured_names
from layout_ir.printing import print_module
from tests.frontends.onnx.models import ints, main_of, model, node

Array = NDArray[Any]
X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)


def opaque_of(module: ModuleOp) -> list[OpaqueOp]:
    return [op for op in main_of(module).body.block.ops if isinstance(op, OpaqueOp)]


def expected(source: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array]:
    runtime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(
        source.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


def branches(**more: Any) -> onnx.NodeProto:
    """An If whose branches use the outer values x and k."""

    def branch(op: str) -> onnx.GraphProto:
        nodes = [node(op, "x k", "inner"), node("Relu", "inner", "u")]
        return helper.make_graph(nodes, op, [], [helper.make_tensor_value_info("u", TensorProto.FLOAT, None)])

    return node("If", "c", then_branch=branch("Add"), else_branch=branch("Sub"), **more)


def with_condition() -> onnx.ModelProto:
    source = model([branches()], {"x": (2, 3, 4)}, constants={"k": X[:1, :1]}, opset=17)
    source.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, ()))
    return source


CASES = {
    "one result": (model([node("Atan", "x")], {"x": (2, 3, 4)}, opset=17), {"x": X}),
    "several results": (
        model([node("TopK", "x k", "y i", axis=1)], {"x": (2, 3, 4)}, ["y", "i"], {"k": ints(2)}, opset=17),
        {"x": X},
    ),
    "inputs and an output left out": (
        model(
            [node("GRU", "x w r - - h", "- y", hidden_size=2)],
            {"x": (2, 3, 4), "h": (1, 3, 2)},
            constants={"w": X.reshape(1, 6, 4), "r": X.reshape(-1)[:12].reshape(1, 6, 2)},
            opset=17,
        ),
        {"x": X, "h": X.reshape(-1)[:6].reshape(1, 3, 2)},
    ),
    "a subgraph": (with_condition(), {"x": X, "c": np.array(False)}),
    "between a convolution and its activation": (
        model(
            [node("Conv", "x w", "a"), node("Tan", "a", "b"), node("Relu", "b")],
            {"x": (1, 2, 3, 4)},
            constants={"w": X.reshape(-1)[:16].reshape(8, 2, 1, 1)},
            opset=17,
        ),
        {"x": X.reshape(1, 2, 3, 4)},
    ),
}
for _op in ("Conv", "ConvTranspose"):
    CASES[f"{_op} over four spatial dims"] = (
        model(
            [node(_op, "x w")],
            {"x": (1, 2, 1, 3, 4, 1)},
            constants={"w": X.reshape(-1)[:8].reshape(2, 2, 1, 1, 2, 1)},
            opset=17,
        ),
        {"x": X.reshape(1, 2, 1, 3, 4, 1)},
    )
for _source, _ in CASES.values():
    for _output in _source.graph.output:
        if _output.name == "i":
            _output.type.tensor_type.elem_type = TensorProto.INT64


@pytest.mark.parametrize(("source", "inputs"), CASES.values(), ids=CASES)
def test_results_are_those_of_onnx_runtime_before_and_after_optimization(
    source: onnx.ModelProto, inputs: dict[str, Array]
):
    want = expected(source, inputs)
    module = from_onnx(source)
    assert opaque_of(module)
    for optimized in (False, True):
        if optimized:
            li.optimize(module, target="blocked8")
        for got, wanted in zip(li.run(module, inputs), want, strict=True):
            assert got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_negative_windows_over_three_spatial_dims_are_translated(op: str):
    weights = {"w": X.reshape(-1)[:8].reshape(2, 2, 1, 2, 1)}
    assert not opaque_of(from_onnx(model([node(op, "x w")], {"x": (1, 2, 3, 4, 1)}, constants=weights)))


@pytest.mark.parametrize("source", [source for source, _ in CASES.values()], ids=CASES)
def test_a_node_comes_out_of_the_printed_program_as_it_went_in(source: onnx.ModelProto):
    module = from_onnx(source)
    text = print_module(module)
    again = parse_program(text, "again.mlir")
    assert print_module(again) == text
    (op,) = opaque_of(again)
    (came,) = [n for n in source.graph.node if n.op_type == op.op_type.data]
    went = node_of(op, [name for name in came.input if name], [name for name in came.output if name])
    assert went == came


def test_every_kind_of_attribute_survives():
    values: dict[str, Any] = {
        "i": -5, "f": 0.1, "s": "a\"b\\\n", "b": b"\xff\x00", "ii": [1, -2], "ff": [0.1, float("inf")], "ss": ["", "x"],
        "t": helper.make_tensor("t", TensorProto.FLOAT, [2], X.reshape(-1)[:2].tobytes(), raw=True),
        "g": helper.make_graph([], "g", [], []), "e": float("nan"),
    }  # fmt: skip
    came = helper.make_node("Sharpen", ["x"], ["y"], domain="org.example", **values)
    source = model([came], {"x": (2, 3)})
    source.graph.output[0].type.CopyFrom(source.graph.input[0].type)
    source.opset_import.append(helper.make_opsetid("org.example", 3))
    text = print_module(from_onnx(source))
    (op,) = opaque_of(parse_program(text, "again.mlir"))
    assert node_of(op, ["x"], ["y"]).SerializeToString() == came.SerializeToString()
    assert op.versions == {"org.example": 3}


def test_a_type_that_the_model_states_is_taken_where_inference_knows_none():
    source = model(
        [helper.make_node("Sharpen", ["x"], ["z"], domain="org.example"), node("Relu", "z")], {"x": (2, 3)}
    )
    source.opset_import.append(helper.make_opsetid("org.example", 1))
    with pytest.raises(
        OnnxImportError, match="output 0 'z' has no static type: ONNX's shape inference gives no type"
    ):
        from_onnx(source)
    source.graph.value_info.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, (2, 3)))
    module = from_onnx(source)
    with pytest.raises(li.LayoutError, match=r"has no reference for org\.example::Sharpen"):
        li.run(module, {"x": X[0, :2, :3]})
    # The shapes in the model are of the shapes that it has itself.
    with pytest.raises(OnnxImportError, match="output 0 'z' has no static type"):
        from_onnx(source, shapes={"x": (4, 3)})


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [node("NonZero", "x")],
            r"output 0 'y' has no static type: its shape \(3, \?\) is only known at run time",
        ),
        ([node("Atan", "x x")], "not valid|more inputs|input size"),
        ([node("Atan", "x", "y", speed=3)], "speed"),
        ([node("TopK", "x", "y i")], "TopK"),
    ],
    ids=["data-dependent", "inputs", "attribute", "missing input"],
)
def test_negative_what_cannot_be_kept(nodes: list[onnx.NodeProto], message: str):
    with pytest.raises(OnnxImportError, match=rf"^node 0 'y' .*cannot be kept as it is: .*(?:{message})"):
        from_onnx(model(nodes, {"x": (2, 3, 4)}))


def test_negative_all_obstacles_are_told_at_once():
    nodes = [node("NonZero", "x", f"z{k}") for k in range(3)]
    nodes += [node("Cast", "z0", "f", to=TensorProto.FLOAT), node("Unique", "x", "u"), node("Add", "f u")]
    with pytest.raises(OnnxImportError) as caught:
        from_onnx(model(nodes, {"x": (2, 3)}, ["z1", "z2", "y"]))
    said = str(caught.value)
    assert said.startswith("4 nodes cannot be imported: 3 x NonZero, the first is node 0 'z0'")
    assert "; 1 x Unique, the first is node 4 'u'" in said and "Add" not in said


def test_captured_names_are_those_of_outer_values():
    assert captured_names(branches()) == ["x", "k"]


def test_subgraphs_of_functions_use_the_values_of_the_call():
    """The names inside, t and k, are also outer ones."""
    body = [branches()]
    body[0].domain = ""
    function = helper.make_function(
        "mine", "Choose", ["c", "x", "k"], ["y"], body, [helper.make_opsetid("", 17)]
    )
    source = with_condition()
    source.graph.input[0].name, source.graph.input[1].name = "t", "k"
    source.graph.initializer[0].name = "u"
    source.graph.node[0].CopyFrom(helper.make_node("Choose", ["k", "t", "u"], ["y"], domain="mine"))
    source.opset_import.append(helper.make_opsetid("mine", 1))
    source.functions.append(function)
    inputs = {"t": X, "k": np.array(True)}
    (got,) = li.run(from_onnx(source), inputs)
    np.testing.assert_allclose(got, expected(source, inputs)[0], rtol=1e-6)


@pytest.mark.parametrize("taken", [True, False])
def test_an_if_whose_condition_is_known_becomes_the_branch_that_it_takes(taken: bool):
    source = with_condition()
    del source.graph.input[1]
    source.graph.initializer.append(helper.make_tensor("c", TensorProto.BOOL, (), [taken]))
    source.graph.node.insert(0, node("Exp", "x", "t"))
    source.graph.node.append(node("Add", "y t", "z"))
    source.graph.output[0].name = "z"
    module = from_onnx(source)
    assert not opaque_of(module)
    np.testing.assert_allclose(li.run(module, [X])[0], expected(source, {"x": X})[0], rtol=1e-6)


@pytest.mark.parametrize(("extent", "windows"), [(6, 2), (7, 3)])
def test_a_pool_has_no_last_window_that_starts_in_the_padding(extent: int, windows: int):
    attributes = {"kernel_shape": [3], "strides": [3], "pads": [0, 1], "ceil_mode": 1}
    source = model([node("MaxPool", "x", "y i", **attributes)], {"x": (2, 4, extent)}, ["y", "i"], opset=21)
    source.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
    x = np.random.default_rng(0).standard_normal((2, 4, extent)).astype(np.float32)
    module = from_onnx(source)
    [op] = opaque_of(module)
    assert [shape_of(result) for result in op.results] == [(2, 4, windows)] * 2
    for ours, theirs in zip(li.run(module, [x]), expected(source, {"x": x}), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_negative_a_flag_that_is_neither_0_nor_1():
    """ONNX Runtime takes 4 for false here, onnx's reference for true."""

    def largest(flag: int) -> onnx.ModelProto:
        top = helper.make_node("TopK", ["x", "k"], ["y", "places"], largest=flag)
        return model([top], {"x": (2, 3, 4)}, constants={"k": ints(2)}, opset=17)

    for flag in (0, 1):
        (found,) = li.run(from_onnx(largest(flag)), [X])
        np.testing.assert_array_equal(found, expected(largest(flag), {"x": X})[0])
    with pytest.raises(OnnxImportError, match=r"TopK.*attribute largest = 4, expected 0 or 1"):
        from_onnx(largest(4))


_AXES = {
    "GatherElements": ("float[2,3,4] x, int64[2,3,4] i", "(x, i)", "float[2,3,4]"),
    "ScatterElements": ("float[2,3,4] x, int64[2,3,4] i, float[2,3,4] u", "(x, i, u)", "float[2,3,4]"),
    "LpNormalization": ("float[2,3,4] x", "(x)", "float[2,3,4]"),
    "DequantizeLinear": ("uint8[2,4,4] x, float[4] s", "(x, s)", "float[2,4,4]"),
    "QuantizeLinear": ("float[2,4,4] x, float[4] s", "(x, s)", "uint8[2,4,4]"),
}


def _with_axis(op: str, attributes: str) -> onnx.ModelProto:
    given, inputs, result = _AXES.get(op, ("float[2,3,4] x, int64[3] i", "(x, i)", "float[2,3,4]"))
    graph = f"g ({given}) => ({result} y) {{ y = {op} <{attributes}> {inputs} }}"
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {graph}')


@pytest.mark.parametrize("op", _AXES)
@pytest.mark.parametrize("axis", [-2, 2])
def test_an_axis_may_count_from_the_end(op: str, axis: int):
    assert opaque_of(from_onnx(_with_axis(op, f"axis = {axis}")))


@pytest.mark.parametrize("op", _AXES)
@pytest.mark.parametrize("axis", [-9, -4, 3, 7])
def test_negative_an_axis_that_names_no_dim(op: str, axis: int):
    with pytest.raises(OnnxImportError, match=rf"axis {axis} .*-3\.\.2"):
        from_onnx(_with_axis(op, f"axis = {axis}"))


@pytest.mark.parametrize(("batch", "time"), [(1, 2), (1, 1), (-1, 0)])
def test_negative_a_sequence_is_reversed_along_one_of_two_dims(batch: int, time: int):
    with pytest.raises(OnnxImportError, match=f"time_axis = {time}"):
        from_onnx(_with_axis("ReverseSequence", f"batch_axis = {batch}, time_axis = {time}"))
