"""Loops whose states are carried in the order in which their bodies use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from layout_ir.frontends.onnx.subgraphs import graphs_of
from layout_ir.passes.onnx.loop_states import with_loops_rearranged
from tests.passes.onnx.optimized import (
    check_optimized,
    count_transposes,
    initializer,
    model_of,
    transpose,
    value,
)

BOOL, INT = onnx.TensorProto.BOOL, onnx.TensorProto.INT64
STATE = (1, 4, 5, 3)
RANDOM = np.random.default_rng(7)
KERNEL = initializer("kernel", RANDOM.standard_normal((1, 1, 3, 3)))
"""In the order of TensorFlow: height, width, channels in, channels out."""
TIMES = initializer("times", np.array(3))
STEP = [
    transpose("s", "nchw", 0, 3, 1, 2),
    oh.make_node("Conv", ["nchw", "weights"], ["conv"]),
    oh.make_node("Tanh", ["conv"], ["tanh"]),
    transpose("tanh", "next", 0, 2, 3, 1),
]


def _loop(*, result: str = "y", kernel: str = "kernel", rows: bool = False) -> onnx.NodeProto:
    """A Loop that carries a state in NHWC through a convolution, whose kernel is a state that never changes."""
    nodes = [oh.make_node("Identity", ["go"], ["on"]), transpose("k", "weights", 3, 2, 0, 1), *STEP]
    outputs = [value("on", dtype=BOOL), value("next", *STATE), value("k", 1, 1, 3, 3)]
    if rows:
        nodes.append(oh.make_node("Identity", ["next"], ["row"]))
        outputs.append(value("row", *STATE))
    body = oh.make_graph(
        nodes, "body",
        [value("i", dtype=INT), value("go", dtype=BOOL), value("s", *STATE), value("k", 1, 1, 3, 3)], outputs,
    )  # fmt: skip
    made = [result, "same", *(["rows"] if rows else [])]
    return oh.make_node("Loop", ["times", "", "x", kernel], made, body=body, name="loop")


def _model(*nodes: onnx.NodeProto, **outputs: Any) -> onnx.ModelProto:
    made = [value(name, *shape) for name, shape in (outputs or {"y": STATE}).items()]
    return model_of([*nodes], [value("x", *STATE)], made, [KERNEL, TIMES])


def _body(model: onnx.ModelProto) -> onnx.GraphProto:
    (body,) = (graph for node in model.graph.node for graph in graphs_of(node))
    return body


@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_a_state_is_turned_once_before_and_once_behind(target: str):
    result = check_optimized(_model(_loop()), target=target)
    assert (result.before.count, result.after.count) == (3, 2)
    assert count_transposes(_body(result.model)) == 0
    assert [node.op_type for node in result.model.graph.node] == ["Transpose", "Loop", "Transpose"]


def test_what_never_changes_is_a_constant_of_the_body():
    body = _body(check_optimized(_model(_loop())).model)
    assert [value.name for value in body.input[:2]] == ["i", "go"] and len(body.input) == 3
    assert [list(tensor.dims) for tensor in body.initializer] == [[3, 3, 1, 1]]


def test_the_final_value_of_what_never_changes_is_the_first():
    kernel = (1, 1, 3, 3)
    check_optimized(_model(_loop(), oh.make_node("Neg", ["same"], ["n"]), y=STATE, same=kernel, n=kernel))


def test_a_state_that_only_the_body_reads_is_turned_before():
    nodes = [_loop(result="last", rows=True), oh.make_node("Neg", ["rows"], ["y"])]
    result = check_optimized(_model(*nodes, y=("n", *STATE)))
    assert (result.before.count, result.after.count) == (3, 2)


def test_a_state_of_a_scan():
    body = oh.make_graph(
        [*STEP, transpose("r", "rt", 0, 2, 3, 1), oh.make_node("Add", ["next", "rt"], ["sum"])], "body",
        [value("s", *STATE), value("r", 1, 3, 4, 5)], [value("sum", *STATE)],
        [initializer("weights", np.eye(3)[..., None, None])],
    )  # fmt: skip
    scan = oh.make_node("Scan", ["x", "sequence"], ["y"], body=body, num_scan_inputs=1)
    model = model_of([scan], [value("x", *STATE), value("sequence", 6, 1, 3, 4, 5)], [value("y", *STATE)])
    result = check_optimized(model)
    assert (result.before.count, result.after.count) == (3, 2)
    assert count_transposes(_body(result.model)) == 0


def test_negative_a_loop_stays_whose_body_uses_the_state_as_it_is():
    nodes = [oh.make_node("Identity", ["go"], ["on"]), oh.make_node("Softmax", ["s"], ["next"])]
    body = oh.make_graph(
        nodes, "body", [value("i", dtype=INT), value("go", dtype=BOOL), value("s", *STATE)],
        [value("on", dtype=BOOL), value("next", *STATE)],
    )  # fmt: skip
    model = _model(oh.make_node("Loop", ["times", "", "x"], ["y"], body=body))
    assert with_loops_rearranged(model) is None


def test_negative_a_loop_stays_where_turning_its_state_leaves_more():
    nodes = [
        oh.make_node("Identity", ["go"], ["on"]),
        transpose("s", "nchw", 0, 3, 1, 2),
        oh.make_node("Conv", ["nchw", "kernel"], ["conv"]),
        oh.make_node("ReduceMax", ["conv"], ["most"]),
        oh.make_node("Add", ["s", "most"], ["a"]),
        oh.make_node("LayerNormalization", ["a", "scale"], ["next"]),
    ]
    body = oh.make_graph(
        nodes, "body", [value("i", dtype=INT), value("go", dtype=BOOL), value("s", *STATE)],
        [value("on", dtype=BOOL), value("next", *STATE)],
    )  # fmt: skip
    weights = [
        initializer("kernel", RANDOM.standard_normal((2, 3, 1, 1))),
        initializer("scale", np.ones(3)),
        TIMES,
    ]
    loop = oh.make_node("Loop", ["times", "", "x"], ["y"], body=body)
    model = model_of([loop], [value("x", *STATE)], [value("y", *STATE)], weights)
    assert with_loops_rearranged(model) is not None
    new = check_optimized(model).model
    assert list(new.graph.node[0].input) == ["times", "", "x"]


def test_negative_a_loop_stays_whose_body_says_no_extents_where_more_transposes_would_be_left():
    """What is moved in the body counts as much as a large tensor, what is moved outside is known to be small."""
    nodes = [
        oh.make_node("Identity", ["go"], ["on"]),
        oh.make_node("Gather", ["x", "i"], ["xi"], axis=0),
        oh.make_node("Add", ["s", "xi"], ["sum"]),
        oh.make_node("Tanh", ["sum"], ["next"]),
        transpose("s", "row", 1, 0),
    ]
    body = oh.make_graph(
        nodes, "body", [value("i", dtype=INT), value("go", dtype=BOOL), value("s", None, None)],
        [value("on", dtype=BOOL), value("next", None, None), value("row", None, None)],
    )  # fmt: skip
    loop = oh.make_node("Loop", ["times", "", "h"], ["y", "rows"], body=body)
    inputs = [value("x", 5, 2, 4), value("h", 2, 4)]
    model = model_of([loop], inputs, [value("y", 2, 4), value("rows", 3, 4, 2)], [TIMES])
    assert with_loops_rearranged(model) is not None
    result = check_optimized(model)
    assert (result.before.count, result.after.count) == (1, 1)


def _without_body(loop: onnx.NodeProto) -> None:
    loop.ClearField("attribute")


def _with_a_state_more(loop: onnx.NodeProto) -> None:
    loop.input.append("x")


def _with_a_result_less(loop: onnx.NodeProto) -> None:
    del loop.attribute[0].g.output[1:]


def _with_no_order(loop: onnx.NodeProto) -> None:
    for node in loop.attribute[0].g.node:
        if node.op_type == "Transpose":
            node.attribute[0].ints[0] = 7


@pytest.mark.parametrize("spoil", [_without_body, _with_a_state_more, _with_a_result_less, _with_no_order])
def test_negative_what_is_no_loop_stays(spoil: Any):
    model = _model(_loop())
    assert with_loops_rearranged(model) is not None
    spoil(model.graph.node[0])
    assert with_loops_rearranged(model) is None
