"""How often a Loop runs, by its trip count and by conditions that count, and what ONNX Runtime says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

import layout_ir as li
from layout_ir.frontends.onnx.import_error import OnnxImportError
from layout_ir.frontends.onnx.loop_counts import iterations, passed_on, source_of
from tests.frontends.onnx.models import node
from tests.frontends.onnx.onnxruntime_oracle import session_results

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def _body(condition: list[onnx.NodeProto]) -> onnx.GraphProto:
    """Carries a counter, a bound and a value that doubles, and gives each value as a row; `condition` makes `on`."""
    nodes = [
        node("Add", "counter one", "next"),
        node("Add", "x x", "x2"),
        node("Identity", "x", "row"),
        *condition,
    ]
    names = {"i": TensorProto.INT64, "going": TensorProto.BOOL, "counter": TensorProto.INT32}
    names |= {"bound": TensorProto.INT32, "x": TensorProto.FLOAT}
    shapes = {"x": (2, 3), "x2": (2, 3), "row": (2, 3)}
    outputs = {"on": TensorProto.BOOL, "next": TensorProto.INT32, "bound": TensorProto.INT32}
    outputs |= {"x2": TensorProto.FLOAT, "row": TensorProto.FLOAT}
    return helper.make_graph(
        nodes,
        "body",
        [helper.make_tensor_value_info(name, kind, shapes.get(name, ())) for name, kind in names.items()],
        [helper.make_tensor_value_info(name, kind, shapes.get(name, ())) for name, kind in outputs.items()],
        [helper.make_tensor("one", TensorProto.INT32, (), [1])],
    )


def _model(
    condition: list[onnx.NodeProto], *, trips: int | None = None, bound: int | None = 5, going: bool = True
) -> onnx.ModelProto:
    """A model of the one Loop; where `bound` is None, callers give it."""
    constants = {"start": (TensorProto.INT32, 0), "going": (TensorProto.BOOL, going)}
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3))]
    if trips is not None:
        constants["trips"] = (TensorProto.INT64, trips)
    if bound is None:
        inputs.append(helper.make_tensor_value_info("bound", TensorProto.INT32, ()))
    else:
        constants["bound"] = (TensorProto.INT32, bound)
    loop = helper.make_node(
        "Loop",
        ["" if trips is None else "trips", "going", "start", "bound", "x"],
        ["count", "same", "y", "rows"],
        body=_body(condition),
    )
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3))]
    outputs.append(helper.make_tensor_value_info("rows", TensorProto.FLOAT, ("n", 2, 3)))
    weights = [helper.make_tensor(name, kind, (), [value]) for name, (kind, value) in constants.items()]
    graph = helper.make_graph([loop], "loop", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _count(model: onnx.ModelProto) -> int | None:
    return iterations(model, model.graph.node[0].attribute[0].g)


COUNTER = [node("Less", "next bound", "on")]
"""True as long as the counter is less than the bound, as TensorFlow writes it."""
BOTH = [
    node("Cast", "next", "float", to=TensorProto.FLOAT),
    node("Cast", "bound", "most", to=TensorProto.FLOAT),
    node("Less", "float most", "less"),
    node("Less", "i one_less", "inner"),
    node("And", "less inner", "on"),
]


@pytest.mark.parametrize(
    ("trips", "bound", "count"), [(None, 5, 5), (9, 5, 5), (3, 5, 3), (0, 5, 0), (None, -2, 1)]
)
def test_a_condition_that_counts_says_how_often(trips: int | None, bound: int, count: int):
    model = _model(COUNTER, trips=trips, bound=bound)
    assert _count(model) == count
    if count:
        wanted = session_results(model, {"x": X})
        assert wanted[1].shape == (count, 2, 3)
        executable = li.compile(model)
        for ours, theirs in zip(executable({"x": X}), wanted, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert not executable.fallbacks and not executable.is_in_parts


def test_the_number_of_the_iteration_counts_as_well():
    model = _model(BOTH, bound=8)
    body = model.graph.node[0].attribute[0].g
    body.initializer.append(helper.make_tensor("one_less", TensorProto.INT64, (), [3]))
    assert _count(model) == session_results(model, {"x": X})[1].shape[0] == 4


def test_a_condition_that_is_passed_on_says_nothing():
    assert _count(_model([node("Identity", "going", "on")], trips=7)) == 7
    assert _count(_model([node("Identity", "going", "on")], trips=7, going=False)) == 0
    assert _count(_model([node("Identity", "going", "on")])) is None


@pytest.mark.parametrize(
    "condition",
    [
        [node("ReduceSum", "x", "sum", keepdims=0), node("Cast", "sum", "on", to=TensorProto.BOOL)],
        [node("RandomUniform", "", "u", shape=[1]), node("Cast", "u", "on", to=TensorProto.BOOL)],
        [node("Custom", "next", "on", domain="my")],
    ],
    ids=["the data", "chance", "another domain"],
)
def test_negative_a_condition_that_follows_from_more_says_nothing(condition: list[onnx.NodeProto]):
    assert _count(_model(condition, trips=7)) is None


def test_negative_a_bound_that_callers_give_says_nothing():
    assert _count(_model(COUNTER, bound=None)) is None


def test_negative_a_loop_that_runs_too_often_is_not_counted():
    assert _count(_model(COUNTER, bound=1 << 30)) is None


@pytest.mark.parametrize(("inputs", "outputs"), [(4, 4), (5, 3), (1, 4), (0, 4), (5, 0)])
def test_negative_a_body_that_fits_no_loop_says_nothing(inputs: int, outputs: int):
    model = _model(COUNTER)
    body = model.graph.node[0].attribute[0].g
    del body.input[inputs:]
    del body.output[outputs:]
    assert _count(model) is None


def test_negative_copies_in_a_circle_and_without_operands_are_no_source():
    body = _body(
        [node("Identity", "there", "on"), node("Identity", "on", "there"), node("Identity", "", "n")]
    )
    body.node.add(op_type="Identity")
    assert source_of("on", passed_on(body)) in ("on", "there")
    assert source_of("row", passed_on(body)) == "x"


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        (
            "trips",
            np.array([2, 3]),
            r"trip count 'trips' is int64 of shape \[2\], expected int64 of one element",
        ),
        ("trips", np.array(2.5, np.float32), r"trip count 'trips' is float32 of shape \[\], expected int64"),
        (
            "going",
            np.zeros(0, bool),
            r"condition 'going' is bool of shape \[0\], expected bool of one element",
        ),
    ],
)
def test_negative_a_trip_count_and_a_condition_are_single_numbers(
    name: str, array: NDArray[Any], message: str
):
    model = _model([node("Identity", "going", "on")], trips=7)
    [weight] = [tensor for tensor in model.graph.initializer if tensor.name == name]
    weight.CopyFrom(onnx.numpy_helper.from_array(array, name))
    with pytest.raises(OnnxImportError, match=message):
        li.from_onnx(model)
