"""LSTM, GRU and RNN nodes, beside ONNX Runtime."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from onnx import helper

import layout_ir as li
from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library

STEPS, WIDTH, HIDDEN = 7, 5, 6


def network(
    op: str,
    direction: str,
    *,
    batch: int = 1,
    bias: bool = True,
    states: str = "",
    more: tuple[str, ...] = (),
    **attributes: Any,
) -> tuple[Any, dict[str, Any]]:
    count, gates = (2 if direction == "bidirectional" else 1), {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    inputs: dict[str, Any] = {"x": numbers((STEPS, batch, WIDTH))}
    given = {
        "w": numbers((count, gates * HIDDEN, WIDTH), 1, -0.5, 0.5),
        "r": numbers((count, gates * HIDDEN, HIDDEN), 2, -0.5, 0.5),
        "b": numbers((count, 2 * gates * HIDDEN), 3, -0.5, 0.5),
        "peepholes": numbers((count, 3 * HIDDEN), 5, -0.5, 0.5),
    }
    for name in states:
        (inputs if name == "h" else given)[name] = numbers((count, batch, HIDDEN), 4, -0.5, 0.5)
    names = ("x", "w", "r", "b" if bias else "", *(more or ("",)), *states)
    nodes = [
        node(op, names, "z", hidden_size=HIDDEN, direction=direction, **attributes),
        node("Neg", ("z",), "y"),
    ]
    return model(nodes, inputs, given, "y"), inputs


@pytest.mark.parametrize(
    ("op", "states", "attributes"),
    [
        ("LSTM", "", {}),
        ("LSTM", "h", {}),
        ("LSTM", "hc", {}),
        ("GRU", "", {}),
        ("GRU", "h", {"linear_before_reset": 1}),
        ("GRU", "", {"linear_before_reset": 1}),
        ("RNN", "h", {}),
    ],
)
@pytest.mark.parametrize(
    ("direction", "batch"), [("forward", 1), ("forward", 3), ("reverse", 2), ("bidirectional", 1)]
)
@pytest.mark.parametrize("bias", [False, True])
def test_a_recurrent_network(
    op: str, states: str, attributes: dict[str, Any], direction: str, batch: int, bias: bool
):
    made, inputs = network(op, direction, batch=batch, bias=bias, states=states, **attributes)
    compare(made, inputs)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_negative_a_batch_without_elements_is_no_primitive_which_would_end_the_process(op: str):
    made, inputs = network(op, "forward", batch=0)
    (found,) = li.compile(made)(inputs)
    assert found.shape == (STEPS, 1, 0, HIDDEN)


@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_a_batch_of_one_that_lies_inside_of_the_channels(op: str):
    gates, width = {"LSTM": 4, "GRU": 3}[op], 128
    inputs = {"x": numbers((STEPS, width, 1))}
    given = {
        "w": numbers((1, gates * width, width), 1, -0.1, 0.1),
        "r": numbers((1, gates * width, width), 2, -0.1, 0.1),
    }
    nodes = [
        node("Relu", ("x",), "p"),
        node("Transpose", ("p",), "t", perm=[0, 2, 1]),
        node(op, ("t", "w", "r"), "z", hidden_size=width),
        node("Neg", ("z",), "y"),
    ]
    compare(model(nodes, inputs, given, "y"), inputs)


@pytest.mark.parametrize("activation", ["Relu", "Tanh"])
def test_an_rnn_of_one_direction(activation: str):
    made, inputs = network("RNN", "forward", batch=2, states="h", activations=[activation])
    compare(made, inputs)


@pytest.mark.parametrize(
    ("op", "direction", "arguments"),
    [
        ("LSTM", "forward", {"more": ("", "", "", "peepholes")}),
        ("GRU", "forward", {"activations": ["Sigmoid", "Relu"]}),
        ("LSTM", "forward", {"clip": 0.3}),
        ("RNN", "forward", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}),
    ],
)
def test_negative_other_recurrent_networks_run_by_the_reference(
    op: str, direction: str, arguments: dict[str, Any]
):
    made, inputs = network(op, direction, **arguments)
    assert li.compile(made).fallbacks == {op: 1}
    assert inputs


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_size", HIDDEN - 1),
        ("hidden_size", 2 * HIDDEN),
        ("hidden_size", 0),
        ("hidden_size", -1),
        ("hidden_size", [HIDDEN]),
        ("hidden_size", "six"),
        ("direction", "sideways"),
        ("direction", "bidirectional"),
        ("direction", 1),
    ],
)
def test_negative_attributes_that_contradict_the_operands(name: str, value: Any):
    made, inputs = network("GRU", "forward")
    attributes = made.graph.node[0].attribute
    kept = [entry for entry in attributes if entry.name != name]
    del attributes[:]
    attributes.extend([*kept, helper.make_attribute(name, value)])
    try:
        executable = li.compile(made)
        executable(inputs)
        assert executable.fallbacks == {"GRU": 1}
    except li.LayoutError as error:
        assert "GRU" in str(error)


@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_weights_of_layers_are_put_in_order_one_by_one(op: str):
    layers, size, gates = 4, 256, 4 if op == "LSTM" else 3
    shape = (1, gates * size, size)
    weights = {
        f"{kind}{k}": numbers(shape, 2 * k + (kind == "r")) / 16 for k in range(layers) for kind in "wr"
    }
    nodes: list[Any] = []
    for k in range(layers):
        x = f"x{k - 1}" if k else "x"
        nodes.append(helper.make_node(op, [x, f"w{k}", f"r{k}"], [f"y{k}"], hidden_size=size))
        nodes.append(node("Squeeze", (f"y{k}", "axes"), f"x{k}"))
    inputs = {"x": numbers((2, 3, size))}
    made = model(nodes, inputs, {**weights, "axes": np.array([1])}, f"x{layers - 1}")
    compare(made, inputs)
    tracemalloc.start()
    executable = li.compile(made)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Those of the model, which is the caller's, are there once more as they are imported, and as they are packed.
    assert executable.plan.constant_bytes > sum(array.nbytes for array in weights.values())
    assert peak < 1.5 * executable.plan.constant_bytes
