"""Loops and branches within the body of a loop by machine code, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layout_ir as li
from layout_ir.backends.onednn.plan_steps import ControlStep
from layout_ir.errors import LayoutError
from tests.backends.onednn.small_programs import needs_library
from tests.backends.onednn.test_control_flow import GOING, TRIP, Arrays, body, compare, model, value
from tests.backends.onednn.test_repeated_plan import X, drawn, random_loop, random_scan
from tests.seeds import seeds

pytestmark = needs_library

TRUE = numpy_helper.from_array(np.array(True))


def repeated(
    nodes: Sequence[onnx.NodeProto],
    following: str,
    scans: Mapping[str, onnx.ValueInfoProto],
    inputs: Arrays,
    constants: Arrays,
    trips: int = 3,
) -> onnx.ModelProto:
    """A Loop over `nodes`: `x` is `following` in the next trip, and `scans` are stacked."""
    outer = body(
        [
            *nodes,
            helper.make_node("Tanh", [following], ["next"]),
            helper.make_node("Constant", [], ["c3"], value=TRUE),
        ],
        [
            helper.make_tensor_value_info("trip_outer", TensorProto.INT64, []),
            helper.make_tensor_value_info("going_outer", TensorProto.BOOL, []),
            value("x", X),
        ],
        [value("c3", np.array(True)), value("next", X), *scans.values()],
    )
    node = helper.make_node(
        "Loop", ["outer_trips", "", "x_first"], ["x_end", *(f"all_{name}" for name in scans)], body=outer
    )
    given = {"x_first" if name == "x" else name: array for name, array in inputs.items()}
    stacked: list[onnx.ValueInfoProto] = []
    for name, row in scans.items():
        stacked.append(whole := onnx.ValueInfoProto())
        whole.CopyFrom(row)
        whole.name = f"all_{name}"
        whole.type.tensor_type.shape.dim.insert(0, onnx.TensorShapeProto.Dimension(dim_value=trips))
    results = [value("x_end", X), *stacked]
    return model([node], given, results, {"outer_trips": np.array(trips), **constants})


def is_native(executable: li.Executable) -> bool:
    """Whether what is within the only loop is a record of its body."""
    [step] = [step for step in executable.plan.steps if isinstance(step, ControlStep)]
    [plan] = step.flow.plans
    [within] = [inner for inner in plan.steps if isinstance(inner, ControlStep)]
    flow: Any = step.flow
    assert flow._repeated.is_possible == within.flow.is_native
    return within.flow.is_native


@pytest.mark.parametrize("seed", seeds(4, 100))
@pytest.mark.parametrize("make", [random_loop, random_scan])
def test_random_loops_within_a_loop_give_what_onnx_runtime_gives(make: Any, seed: int):
    made: onnx.ModelProto = make(Random(seed))
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    inputs = drawn(made)
    scans = {result.name: result for result in made.graph.output}
    wrapped = repeated(list(made.graph.node), "end_s", scans, inputs, constants)
    given = {"x_first" if name == "x" else name: array for name, array in inputs.items()}
    assert is_native(compare(wrapped, given, {**given, "x_first": -given["x_first"]}))


def counting(trips: str, condition: str, stack: bool = False) -> Sequence[onnx.NodeProto]:
    """A Loop that adds the number of each trip to `x`, and the sum of that as a truth value."""
    inner = body(
        [
            helper.make_node("Cast", ["trip"], ["number"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["s", "number"], ["s2"]),
            helper.make_node("Identity", ["going"], ["c2"]),
        ],
        [TRIP, GOING, value("s", X)],
        [value("c2", np.array(True)), value("s2", X), *([value("s2", X)] if stack else [])],
    )
    outputs = ["end_s", *(["rows"] if stack else [])]
    return [helper.make_node("Loop", [trips, condition, "x"], outputs, body=inner)]


def test_a_loop_whose_trips_the_outer_one_counts_and_whose_condition_it_computes():
    nodes = [
        helper.make_node("Less", ["trip_outer", "two"], ["few"]),
        *counting("trip_outer", "few"),
    ]
    made = repeated(nodes, "end_s", {}, {"x": X}, {"two": np.array(2)}, trips=4)
    assert is_native(compare(made, {"x_first": X}))


def test_a_branch_within_a_loop():
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["p"])], "then", [], [value("p", X)])
    other = helper.make_graph(list(counting("three", "")), "else", [], [value("end_s", X)])
    nodes = [
        helper.make_node("Less", ["trip_outer", "two"], ["few"]),
        helper.make_node("If", ["few"], ["y"], then_branch=then, else_branch=other),
    ]
    constants = {"two": np.array(2), "three": np.array(3)}
    assert is_native(
        compare(repeated(nodes, "y", {"y": value("y", X)}, {"x": X}, constants, trips=4), {"x_first": X})
    )


def test_negative_a_loop_that_nothing_but_a_condition_ends_is_left_to_python():
    nodes = counting("most", "")
    made = repeated(nodes, "end_s", {}, {"x": X}, {"most": np.array(2**62)})
    assert not is_native(li.compile(made))
    made = repeated(counting("n", "", stack=True), "end_s", {}, {"x": X, "n": np.array(2)}, {})
    made.graph.node[0].attribute[0].g.value_info.append(value("rows", np.zeros((2, *X.shape), np.float32)))
    executable = compare(made, {"x_first": X, "n": np.array(2)})
    assert not is_native(executable)


def test_negative_an_index_outside_of_its_dim_in_a_loop_within_a_loop_is_an_error():
    inner = body(
        [
            helper.make_node("Gather", ["table", "trip"], ["row"]),
            helper.make_node("Add", ["s", "row"], ["s2"]),
            helper.make_node("Identity", ["going"], ["c2"]),
        ],
        [TRIP, GOING, value("s", X)],
        [value("c2", np.array(True)), value("s2", X)],
    )
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["end_s"], body=inner)]
    table = np.ones((4, *X.shape), np.float32)
    made = repeated(nodes, "end_s", {}, {"x": X, "n": np.array(2)}, {"table": table})
    executable = compare(made, {"x_first": X, "n": np.array(4)})
    assert is_native(executable)
    with pytest.raises(LayoutError, match="index"):
        executable({"x_first": X, "n": np.array(5)})


def test_negative_a_loop_within_a_loop_that_stops_before_its_rows_are_full_is_an_error():
    inner = body(
        [
            helper.make_node("Less", ["trip", "limit"], ["c2"]),
            helper.make_node("Neg", ["s"], ["s2"]),
        ],
        [TRIP, GOING, value("s", X)],
        [value("c2", np.array(True)), value("s2", X), value("s2", X)],
    )
    nodes = [helper.make_node("Loop", ["three", "", "x"], ["end_s", "rows"], body=inner)]
    rows = value("rows", np.zeros((3, *X.shape), np.float32))
    made = repeated(nodes, "end_s", {"rows": rows}, {"x": X, "limit": np.array(2)}, {"three": np.array(3)})
    executable = compare(made, {"x_first": X, "limit": np.array(2)})
    assert is_native(executable)
    with pytest.raises(LayoutError, match="Loop within a subgraph failed, or ran another number of times"):
        executable({"x_first": X, "limit": np.array(1)})
