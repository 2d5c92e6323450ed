"""LSTM, GRU and RNN nodes of which the last state is used, or both directions of a batch, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import layout_ir as li
from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.rewrites.test_node_decomposition import opaque_nodes
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library

STEPS, WIDTH, HIDDEN = 5, 4, 6


def recurrent(
    op: str,
    direction: str,
    batch: int,
    used: str,
    *,
    bias: bool = True,
    states: str = "",
    lengths: Sequence[int] = (),
    **attributes: Any,
) -> tuple[Any, dict[str, Any]]:
    """A node whose results `used` (y all steps, h the last one, c the last cell) are added up."""
    from onnx import helper

    count, gates = (2 if direction == "bidirectional" else 1), {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    inputs = {"x": numbers((STEPS, batch, WIDTH))}
    given = {
        "w": numbers((count, gates * HIDDEN, WIDTH), 1, -0.5, 0.5),
        "r": numbers((count, gates * HIDDEN, HIDDEN), 2, -0.5, 0.5),
        "b": numbers((count, 2 * gates * HIDDEN), 3, -0.5, 0.5),
    }
    for number, name in enumerate(states):
        (inputs if number else given)[name] = numbers((count, batch, HIDDEN), 4 + number, -0.5, 0.5)
    if lengths:
        given["lengths"] = np.array(lengths, np.int32)
    names = ["x", "w", "r", "b" if bias else "", "lengths" if lengths else "", *states]
    if "p" in states:
        given["p"] = np.zeros((count, 3 * HIDDEN), np.float32)
        inputs.pop("p", None)
    outputs = [f"out_{name}" if name in used else "" for name in ("yhc" if op == "LSTM" else "yh")]
    nodes = [
        helper.make_node(op, names, outputs, hidden_size=HIDDEN, direction=direction, **attributes),
        node("Sum", [name for name in outputs if name], "y"),
    ]
    return model(nodes, inputs, given, "y"), inputs


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("used", ["h", "yh"])
def test_the_last_state(op: str, direction: str, batch: int, used: str):
    made, inputs = recurrent(op, direction, batch, used, states="h")
    compare(made, inputs)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("used", ["c", "yc", "hc", "yhc"])
def test_the_last_cell_state(direction: str, batch: int, used: str):
    made, inputs = recurrent("LSTM", direction, batch, used, states="hc")
    compare(made, inputs)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("used", ["y", "h"])
def test_directions_whose_activations_are_listed(op: str, used: str):
    names = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Relu"]}[op]
    made, inputs = recurrent(op, "bidirectional", 2, used, activations=names * 2)
    compare(made, inputs)


def test_directions_of_different_activations():
    made, inputs = recurrent("RNN", "bidirectional", 2, "yh", activations=["Relu", "Tanh"])
    compare(made, inputs)


@pytest.mark.parametrize(
    ("op", "states", "bias"), [("LSTM", "hc", True), ("LSTM", "", False), ("GRU", "h", True)]
)
def test_both_directions_of_a_batch(op: str, states: str, bias: bool):
    made, inputs = recurrent(op, "bidirectional", 3, "y", states=states, bias=bias)
    assert opaque_nodes(made) == [op, op]
    compare(made, inputs)


@pytest.mark.parametrize(("op", "states"), [("LSTM", "hcp"), ("GRU", "h"), ("RNN", "")])
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_lengths_of_whole_sequences_and_peepholes_of_zero_change_nothing(
    op: str, states: str, direction: str
):
    made, inputs = recurrent(op, direction, 2, "yh", states=states, lengths=[STEPS, STEPS])
    compare(made, inputs)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_sequences_of_lengths_of_their_own(op: str, direction: str):
    for lengths in ([STEPS, STEPS - 1, 1], [0, 2, STEPS]):
        made, inputs = recurrent(op, direction, 3, "yh", states="h", lengths=lengths)
        compare(made, inputs)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize(("used", "order"), [("y", (2, 0, 1, 3)), ("h", (1, 0, 2))])
def test_a_batch_in_front(op: str, direction: str, used: str, order: tuple[int, ...]):
    """Which ONNX Runtime refuses: it is asked for the same with the steps in front."""
    runtime = pytest.importorskip("onnxruntime")
    made, inputs = recurrent(op, direction, 3, used, states="h")
    [expected] = runtime.InferenceSession(made.SerializeToString()).run(None, inputs)
    made.graph.node[0].attribute.append(onnx.helper.make_attribute("layout", 1))
    batched = {name: np.ascontiguousarray(array.swapaxes(0, 1)) for name, array in inputs.items()}
    for value in made.graph.input:
        dims = value.type.tensor_type.shape.dim
        dims[0].dim_value, dims[1].dim_value = dims[1].dim_value, dims[0].dim_value
    [state] = [tensor for tensor in made.graph.initializer if tensor.name == "h"]
    turned = np.ascontiguousarray(onnx.numpy_helper.to_array(state).swapaxes(0, 1))
    state.CopyFrom(onnx.numpy_helper.from_array(turned, "h"))
    made.graph.output[0].type.tensor_type.ClearField("shape")
    executable = li.compile(made)
    assert not executable.fallbacks
    np.testing.assert_allclose(executable(batched)[0], expected.transpose(order), rtol=1e-5, atol=1e-5)


def test_lengths_that_are_computed():
    made, inputs = recurrent("GRU", "bidirectional", 3, "yh", lengths=[STEPS, 2, 1])
    [given] = [tensor for tensor in made.graph.initializer if tensor.name == "lengths"]
    made.graph.initializer.remove(given)
    made.graph.input.append(onnx.helper.make_tensor_value_info("lengths", onnx.TensorProto.INT32, [3]))
    for lengths in ([STEPS, 2, 1], [1, 0, 4]):
        compare(made, {**inputs, "lengths": np.array(lengths, np.int32)})


def test_negative_shorter_sequences_whose_last_cell_state_is_used_run_by_the_reference():
    made, _ = recurrent("LSTM", "forward", 2, "yhc", lengths=[STEPS, STEPS - 1])
    assert li.compile(made).fallbacks == {"LSTM": 1}


@pytest.mark.parametrize(
    ("activations", "parameters"),
    [
        (["Sigmoid", "Tanh", "Softsign"] * 2, {}),
        (["Sigmoid", "Tanh", "Relu", "Sigmoid", "Tanh", "Tanh"], {}),
        (["HardSigmoid", "Tanh", "Tanh"] * 2, {"activation_alpha": [0.3, 0.3]}),
    ],
)
def test_negative_other_activations_run_by_the_reference(activations: list[str], parameters: dict[str, Any]):
    made, inputs = recurrent("LSTM", "bidirectional", 1, "y", activations=activations, **parameters)
    assert li.compile(made).fallbacks == {"LSTM": 1}
    assert inputs


def test_negative_the_last_states_of_a_node_with_all_results_are_its_own():
    made, inputs = recurrent("LSTM", "forward", 2, "yhc", states="hc")
    assert opaque_nodes(made) == ["LSTM"]
    compare(made, inputs)


def test_negative_a_node_that_has_a_primitive_stays_as_it_is():
    made, _ = recurrent("LSTM", "forward", 2, "y")
    assert opaque_nodes(made) == ["LSTM"]


@pytest.mark.parametrize("attribute", [{"hidden_size": HIDDEN - 1}, {"hidden_size": [HIDDEN]}])
def test_negative_attributes_that_contradict_the_operands_leave_the_node(attribute: dict[str, Any]):
    from onnx import helper

    made, _ = recurrent("GRU", "bidirectional", 3, "y")
    attributes = made.graph.node[0].attribute
    kept = [entry for entry in attributes if entry.name not in attribute]
    del attributes[:]
    attributes.extend([*kept, *(helper.make_attribute(*entry) for entry in attribute.items())])
    try:
        assert opaque_nodes(made) == ["GRU"]
    except li.LayoutError as error:
        assert "GRU" in str(error)


@pytest.mark.parametrize(("op", "used"), [("LSTM", "yhc"), ("GRU", "yh"), ("RNN", "y")])
def test_floats_of_16_bits_are_computed_in_f32(op: str, used: str):
    """Which ONNX Runtime has no kernels for: it is asked for the same in f32."""
    runtime = pytest.importorskip("onnxruntime")
    made, inputs = recurrent(op, "bidirectional", 2, used, states="h")
    halves = {name: array.astype(np.float16) for name, array in inputs.items()}
    for tensor in made.graph.initializer:
        half = onnx.numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(onnx.numpy_helper.from_array(half.astype(np.float32), tensor.name))
    session = runtime.InferenceSession(made.SerializeToString())
    [expected] = session.run(None, {name: array.astype(np.float32) for name, array in halves.items()})
    for tensor in made.graph.initializer:
        half = onnx.numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(onnx.numpy_helper.from_array(half, tensor.name))
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    executable = li.compile(made)
    assert not executable.fallbacks
    [found] = executable(halves)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=2e-3, atol=2e-3)
