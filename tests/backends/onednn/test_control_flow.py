"""If, Loop and Scan by plans of their subgraphs, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import layout_ir as li
from layout_ir.backends.onednn.plan_steps import ControlStep
from layout_ir.errors import LayoutError
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library

Arrays = Mapping[str, NDArray[Any]]


def value(
    name: str, array: NDArray[Any] | None = None, element: int = TensorProto.FLOAT
) -> onnx.ValueInfoProto:
    """The type of an array, or a tensor of which only the elements are known."""
    if array is None:
        return helper.make_tensor_value_info(name, element, None)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


TRIP = helper.make_tensor_value_info("trip", TensorProto.INT64, [])
GOING = helper.make_tensor_value_info("going", TensorProto.BOOL, [])


def body(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
) -> onnx.GraphProto:
    return helper.make_graph(nodes, "body", inputs, outputs)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Arrays,
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Arrays | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    values = [value(name, array) for name, array in inputs.items()]
    graph = helper.make_graph(nodes, "graph", values, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def compare(made: onnx.ModelProto, *calls: Arrays, fallbacks: int = 0) -> li.Executable:
    """Runs a model by plans of its subgraphs and by ONNX Runtime, once per call."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(made.SerializeToString())
    executable = li.compile(made, checked=True)
    assert sum(executable.fallbacks.values()) == fallbacks
    for inputs in calls:
        for ours, theirs in zip(executable(inputs), session.run(None, inputs), strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    return executable


X = numbers((2, 8))


# If -------------------------------------------------------------------------------------------------------------------


def branches(then_nodes: Sequence[onnx.NodeProto], else_nodes: Sequence[onnx.NodeProto]) -> onnx.NodeProto:
    graphs = [body(nodes, [], [value(nodes[-1].output[0], X)]) for nodes in (then_nodes, else_nodes)]
    return helper.make_node("If", ["c"], ["y"], then_branch=graphs[0], else_branch=graphs[1])


def test_if_runs_the_branch_of_its_condition():
    then_nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["then_y"]),
    ]
    node = branches(then_nodes, [helper.make_node("Neg", ["x"], ["else_y"])])
    made = model([node], {"c": np.array(True), "x": X}, [value("y", X)], {"w": numbers((8, 8))})
    executable = compare(made, *({"c": np.array(c), "x": X} for c in (True, False)))
    [step] = executable.plan.steps
    assert isinstance(step, ControlStep)


def test_if_hands_on_an_outer_value_and_runs_an_if_within():
    inner = branches([helper.make_node("Exp", ["x"], ["p"])], [helper.make_node("Abs", ["x"], ["q"])])
    inner.input[0], inner.output[0] = "d", "inner_y"
    node = branches([inner], [helper.make_node("Identity", ["x"], ["else_y"])])
    inputs: Arrays = {"c": np.array(True), "d": np.array(True), "x": X}
    made = model([node], inputs, [value("y", X)])
    calls = [{"c": np.array(c), "d": np.array(d), "x": X} for c in (True, False) for d in (True, False)]
    compare(made, *calls)


# Loop -----------------------------------------------------------------------------------------------------------------


def test_a_loop_ends_with_its_trip_count_or_its_condition():
    inner = body(
        [
            helper.make_node("MatMul", ["s", "w"], ["a"]),
            helper.make_node("Tanh", ["a"], ["b"]),
            helper.make_node("Add", ["b", "x"], ["s2"]),
            helper.make_node("ReduceMax", ["s2"], ["most"], keepdims=0),
            helper.make_node("Less", ["most", "limit"], ["c2"]),
        ],
        [TRIP, GOING, value("s", X), value("k", X)],
        [value("c2", np.array(True)), value("s2", X), value("k", X)],
    )
    node = helper.make_node("Loop", ["n", "", "x", "x"], ["y", "kept"], body=inner)
    n, limit = np.array(3), np.array(1, np.float32)
    outputs = [value("y", X), value("kept", X)]
    made = model([node], {"x": X, "n": n, "limit": limit}, outputs, {"w": numbers((8, 8)) / 2})
    calls = [
        {"x": X, "n": np.array(n), "limit": np.array(limit, np.float32)}
        for n, limit in ((0, 9), (1, 9), (7, 9), (100, 1.5), (5, -9))
    ]
    compare(made, *calls)


def test_a_loop_swaps_what_it_carries_and_stacks_rows():
    inner = body(
        [
            helper.make_node("Cast", ["trip"], ["number"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["a", "number"], ["row"]),
            helper.make_node("Neg", ["trip"], ["number_down"]),
            helper.make_node("Identity", ["going"], ["c2"]),
        ],
        [TRIP, GOING, value("a", X), value("b", X)],
        [
            value("c2", np.array(True)),
            value("b", X),
            value("row", X),
            value("row", X),
            value("number_down", np.array(0)),
        ],
    )
    node = helper.make_node("Loop", ["n", "c", "x", "z"], ["y", "w", "rows", "trips"], body=inner)
    constants = {"n": np.array(5), "c": np.array(True)}
    rows = np.zeros((5, *X.shape), np.float32)
    outputs = [value("y", X), value("w", X), value("rows", rows), value("trips", np.zeros(5, np.int64))]
    made = model([node], {"x": X, "z": 2 * X}, outputs, constants)
    compare(made, {"x": X, "z": 2 * X})


def test_a_loop_within_a_loop():
    carried = [TRIP, GOING, value("s", X)]
    inner = body(
        [helper.make_node("Mul", ["s", "x"], ["s2"]), helper.make_node("Identity", ["going"], ["c2"])],
        carried,
        [value("c2", np.array(True)), value("s2", X)],
    )
    outer = body(
        [
            helper.make_node("Loop", ["trip_outer", "", "t"], ["t1"], body=inner),
            helper.make_node("Add", ["t1", "x"], ["t2"]),
            helper.make_node("Identity", ["going_outer"], ["c3"]),
        ],
        [
            helper.make_tensor_value_info("trip_outer", TensorProto.INT64, []),
            helper.make_tensor_value_info("going_outer", TensorProto.BOOL, []),
            value("t", X),
        ],
        [value("c3", np.array(True)), value("t2", X)],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], body=outer)
    made = model([node], {"x": X, "n": np.array(3)}, [value("y", X)])
    compare(made, *({"x": X, "n": np.array(n)} for n in (0, 1, 4)))


def test_a_value_that_grows_is_compiled_for_each_shape():
    """ONNX Runtime knows the shape at the end only when it is there, and so does the model that says it."""
    inner = body(
        [
            helper.make_node("Concat", ["s", "x"], ["s2"], axis=0),
            helper.make_node("Identity", ["going"], ["c2"]),
        ],
        [TRIP, GOING, value("s")],
        [value("c2", np.array(True)), value("s2")],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], body=inner)
    made = model([node], {"x": X, "n": np.array(3)}, [value("y", np.zeros((8, 8), np.float32))])
    executable = compare(made, {"x": X, "n": np.array(3)}, {"x": X + 1, "n": np.array(3)})
    [step] = executable.plan.steps
    assert isinstance(step, ControlStep) and len(step.flow.plans) == 3


def test_negative_a_loop_of_another_number_of_trips_than_the_types_say_is_an_error():
    inner = body(
        [helper.make_node("Identity", ["going"], ["c2"]), helper.make_node("Neg", ["s"], ["s2"])],
        [TRIP, GOING, value("s", X)],
        [value("c2", np.array(True)), value("s2", X), value("s2", X)],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y", "rows"], body=inner)
    rows = value("rows", np.zeros((3, *X.shape), np.float32))
    executable = li.compile(model([node], {"x": X, "n": np.array(3)}, [value("y", X), rows]))
    executable({"x": X, "n": np.array(3)})
    with pytest.raises(li.LayoutError, match=r"Loop runs 4 times or more, and .* has 3 rows"):
        executable({"x": X, "n": np.array(4)})
    with pytest.raises(li.LayoutError, match="has 2 rows at the end"):
        executable({"x": X, "n": np.array(2)})


def test_negative_a_body_that_cannot_be_compiled_runs_by_the_reference():
    inner = body(
        [
            helper.make_node("NonZero", ["s"], ["places"]),
            helper.make_node("Shape", ["places"], ["count"]),
            helper.make_node("Cast", ["count"], ["number"], to=TensorProto.FLOAT),
            helper.make_node("Slice", ["number", "one", "two"], ["last"]),
            helper.make_node("Add", ["s", "last"], ["s2"]),
            helper.make_node("Identity", ["going"], ["c2"]),
        ],
        [TRIP, GOING, value("s", X)],
        [value("c2", np.array(True)), value("s2", X)],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], body=inner)
    constants = {"one": np.array([1]), "two": np.array([2])}
    made = model([node], {"x": X, "n": np.array(3)}, [value("y", X)], constants)
    compare(made, {"x": X, "n": np.array(2)}, fallbacks=1)


# Scan -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_goes_over_any_axis_in_both_directions(axis: int, backwards: int):
    row = numbers((3, 4))
    inner = body(
        [
            helper.make_node("Mul", ["row", "k"], ["scaled"]),
            helper.make_node("Add", ["s", "scaled"], ["s2"]),
            helper.make_node("Relu", ["s2"], ["out"]),
        ],
        [value("s", row), value("row", row)],
        [value("s2", row), value("out", row)],
    )
    scanned = np.moveaxis(numbers((5, 3, 4)), 0, axis)
    node = helper.make_node(
        "Scan", ["s0", "x"], ["y", "rows"], body=inner, num_scan_inputs=1,
        scan_input_axes=[axis], scan_output_axes=[-1 if axis else 0],
        scan_input_directions=[backwards], scan_output_directions=[1 - backwards],
    )  # fmt: skip
    rows = np.moveaxis(np.zeros((5, 3, 4), np.float32), 0, -1 if axis else 0)
    inputs = {"s0": row, "x": np.ascontiguousarray(scanned), "k": np.array(0.5, np.float32)}
    compare(model([node], inputs, [value("y", row), value("rows", rows)]), inputs)


def test_negative_a_scan_in_a_direction_that_is_none_is_refused():
    row = numbers((4,))
    inner = body([helper.make_node("Neg", ["row"], ["out"])], [value("row", row)], [value("out", row)])
    node = helper.make_node("Scan", ["x"], ["y"], body=inner, num_scan_inputs=1, scan_input_directions=[5])
    x = numbers((3, 4))
    with pytest.raises(LayoutError, match="input_direction"):
        li.compile(model([node], {"x": x}, [value("y", x)]))({"x": x})


def test_negative_an_executable_with_subgraphs_is_not_saved(tmp_path: Any):
    node = branches([helper.make_node("Abs", ["x"], ["p"])], [helper.make_node("Neg", ["x"], ["q"])])
    executable = li.compile(model([node], {"c": np.array(True), "x": X}, [value("y", X)]))
    with pytest.raises(li.LayoutError, match="subgraphs of If, Loop or Scan"):
        executable.save(str(tmp_path / "network.exe"))
