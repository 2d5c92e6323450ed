"""RNN, GRU and LSTM beside ONNX Runtime, with every input and attribute that it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.reference.recurrent import Operands, Options, recurrent
from layout_ir.errors import LayoutError

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is the oracle")

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUTS, HIDDEN = 7, 3, 5, 4


def tensors(operator: str, directions: int) -> dict[str, np.ndarray[Any, Any]]:
    """All inputs of a node but the lengths, by what they are called in the standard."""
    random, gates = np.random.default_rng(GATES[operator] + directions), GATES[operator]
    shapes = {
        "X": (STEPS, BATCH, INPUTS),
        "W": (directions, gates * HIDDEN, INPUTS),
        "R": (directions, gates * HIDDEN, HIDDEN),
        "B": (directions, 2 * gates * HIDDEN),
        "initial_h": (directions, BATCH, HIDDEN),
    }
    if operator == "LSTM":
        shapes |= {"initial_c": (directions, BATCH, HIDDEN), "P": (directions, 3 * HIDDEN)}
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


ORDER = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")


def model(operator: str, given: dict[str, np.ndarray[Any, Any]], attributes: dict[str, Any]) -> Any:
    """A model of one node, whose inputs are all its own."""
    helper = onnx.helper
    last = max(ORDER.index(name) for name in given)
    names = [name if name in given else "" for name in ORDER[: last + 1]]
    outputs = ["Y", "Y_h", "Y_c"][: 3 if operator == "LSTM" else 2]
    directions = len(given["W"])
    types = {"Y": (STEPS, directions, BATCH, HIDDEN)}
    graph = helper.make_graph(
        [helper.make_node(operator, names, outputs, hidden_size=HIDDEN, **attributes)],
        "node",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in given.items()
        ],
        [
            helper.make_tensor_value_info(name, 1, types.get(name, (directions, BATCH, HIDDEN)))
            for name in outputs
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def check(operator: str, given: dict[str, np.ndarray[Any, Any]], attributes: dict[str, Any]) -> None:
    """That `li.run` gives what ONNX Runtime gives."""
    made = model(operator, given, attributes)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found = li.run(li.from_onnx(made), list(given.values()))
    for ours, theirs in zip(found, session.run(None, given), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [(7, 7, 7), (1, 7, 4)])
def test_sequences_of_their_own_lengths(operator: str, direction: str, lengths: tuple[int, ...]):
    given = tensors(operator, 2 if direction == "bidirectional" else 1)
    given["sequence_lens"] = np.array(lengths, np.int32)
    check(operator, given, {"direction": direction})


@pytest.mark.parametrize("operator", GATES)
def test_a_sequence_without_a_step_ends_in_zeros(operator: str):
    """As in ONNX Runtime 1.32; 1.25 leaves the last state of such a sequence undefined."""
    given = tensors(operator, 1)
    operands = Operands(given["X"], given["W"], given["R"], h=given["initial_h"], lengths=np.array([0, 3, 7]))
    for made in recurrent(operator, operands, Options()):
        assert not made[..., 0, :].any()
    assert recurrent(operator, operands, Options())[1][0, 1:].all()


@pytest.mark.parametrize("operator", GATES)
def test_without_what_may_be_left_out(operator: str):
    given = tensors(operator, 1)
    check(operator, {name: given[name] for name in ("X", "W", "R")}, {})


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("RNN", {"activations": ["Relu"]}),
        ("RNN", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}),
        ("RNN", {"activations": ["ScaledTanh"], "activation_alpha": [0.5], "activation_beta": [2.0]}),
        ("RNN", {"activations": ["Softsign"]}),
        ("GRU", {"linear_before_reset": 1}),
        ("GRU", {"activations": ["HardSigmoid", "Softsign"]}),
        ("GRU", {"activations": ["Sigmoid", "LeakyRelu"], "activation_alpha": [0.3]}),
        ("LSTM", {"input_forget": 1}),
        ("LSTM", {"activations": ["HardSigmoid", "Tanh", "Elu"]}),
        ("LSTM", {"activations": ["Sigmoid", "ThresholdedRelu", "Tanh"], "activation_alpha": [0.2]}),
    ],
)
def test_attributes(operator: str, attributes: dict[str, Any]):
    check(operator, tensors(operator, 1), attributes)


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("clip", [0.3, 1.0])
def test_clipped_gates(operator: str, clip: float):
    """Bounds that gates and, in LSTM, cells exceed: ONNX Runtime clips gates, with their peepholes, and no cells."""
    check(operator, tensors(operator, 1), {"clip": clip})


def test_a_batch_in_front():
    given = tensors("LSTM", 2)
    names = {"X": "x", "W": "w", "R": "r", "B": "b", "initial_h": "h", "initial_c": "c", "P": "p"}
    first = {names[name]: array for name, array in given.items()}
    turned = {
        name: array.swapaxes(0, 1) if name in ("x", "h", "c") else array for name, array in first.items()
    }
    states, last, cells = recurrent("LSTM", Operands(**first), Options("bidirectional"))
    other = recurrent("LSTM", Operands(**turned), Options("bidirectional", batch_first=True))
    for found, wanted in zip(
        other, (states.transpose(2, 0, 1, 3), last.swapaxes(0, 1), cells.swapaxes(0, 1)), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("activations", "message"),
    [
        (("Relu",), "GRU has 1 activations, but 2 are needed"),
        (("Relu", "Tanh", "Tanh"), "GRU has 3 activations, but 2 are needed"),
        (("Sine", "Tanh"), "activation 'Sine' of GRU"),
    ],
)
def test_negative_activations_that_there_are_not(activations: tuple[str, ...], message: str):
    given = tensors("GRU", 1)
    with pytest.raises(LayoutError, match=message):
        recurrent("GRU", Operands(given["X"], given["W"], given["R"]), Options(activations=activations))


@pytest.mark.parametrize("lengths", [(8, 7, 4), (-1, 2, 3)])
def test_negative_lengths_that_no_sequence_has(lengths: tuple[int, ...]):
    given = tensors("LSTM", 1)
    with pytest.raises(LayoutError, match="but there are 7 steps"):
        recurrent("LSTM", Operands(given["X"], given["W"], given["R"], lengths=np.array(lengths)), Options())


@pytest.mark.parametrize(("direction", "directions"), [("forward", 2), ("bidirectional", 1), ("up", 1)])
def test_negative_weights_of_other_directions(direction: str, directions: int):
    given = tensors("GRU", directions)
    with pytest.raises(LayoutError, match=f"GRU has direction '{direction}', but weights of {directions}"):
        recurrent("GRU", Operands(given["X"], given["W"], given["R"]), Options(direction))
