"""DynamicQuantizeLSTM by products of integers, beside ONNX Runtime and the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import layout_ir as li
from tests.backends.onednn.small_programs import needs_library
from tests.frontends.onnx.onnxruntime_oracle import session_results
from tests.frontends.onnx.runtime_nodes import RuntimeNode
from tests.seeds import seeds

pytestmark = needs_library


def node(
    rng: np.random.Generator, steps: int, batch: int, width: int, hidden: int, *, lengths: Any = None,
    dtype: Any = np.int8, by_column: bool = False, middle: bool = False, bias: bool = True, peepholes: bool = False,
    states: bool = False, most: int = 64, **attributes: Any,
) -> RuntimeNode:  # fmt: skip
    """A node with weights of at most `most` less their zero points: of more, ONNX Runtime's products of bytes saturate
    where there is no VNNI."""
    count = 2 if attributes.get("direction") == "bidirectional" else 1

    def floats(*shape: int) -> NDArray[Any]:
        return rng.standard_normal(shape).astype(np.float32)

    low = 0 if dtype == np.uint8 else -most
    weights = [
        rng.integers(low, low + 2 * most, (count, rows, 4 * hidden)).astype(dtype) for rows in (width, hidden)
    ]
    shape = (count, 4 * hidden) if by_column else (count,)
    scales = [((np.abs(floats(*shape)) + 0.5) / most / np.sqrt(hidden)).astype(np.float32) for _ in weights]
    middles = [np.full(shape, (most if dtype == np.uint8 else 3) if middle else 0, dtype) for _ in weights]
    inputs: list[Any] = [floats(steps, batch, width), *weights]
    inputs += [floats(count, 8 * hidden) if bias else None]
    inputs += [None if lengths is None else np.array(lengths, np.int32)]
    inputs += [floats(count, batch, hidden) if states else None for _ in range(2)]
    inputs += [floats(count, 3 * hidden) if peepholes else None, scales[0], middles[0], scales[1], middles[1]]
    constants = (1, 2, 3, 7, 8, 9, 10, 11)
    return RuntimeNode("DynamicQuantizeLSTM", inputs, constants, 3, {"hidden_size": hidden, **attributes})


def check(given: RuntimeNode, *, threads: int = 1) -> None:
    """The executable gives what ONNX Runtime does, and so does the reference, by two loops and without a fallback."""
    model, feeds = given.model(), given.feeds()
    wanted = session_results(model, feeds)
    executable = li.compile(model, threads=threads)
    assert executable.fallbacks == {}
    arrays = list(feeds.values())
    ops = [op for step in executable.profile(arrays) for op in step.ops]
    assert "layout_ir::IntegerLSTM" in ops and "layout_ir::PackedIntegerConv" in ops
    for found, reference, expected in zip(
        executable(arrays), li.run(li.from_onnx(model), arrays), wanted, strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)
        np.testing.assert_allclose(reference, expected, rtol=0, atol=2e-5)


CASES: dict[str, Any] = {
    "one step": {"steps": 1},
    "odd sizes": {"width": 5, "hidden": 7},
    "one sequence": {"batch": 1, "direction": "bidirectional", "hidden": 21},
    "one sequence, wide weights": {"batch": 1, "dtype": np.uint8, "most": 128},
    "one sequence, states and a length": {"batch": 1, "hidden": 70, "states": True, "lengths": [4]},
    "one element": {"width": 1, "hidden": 1},
    "vectors": {"width": 16, "hidden": 24, "batch": 9},
    "reverse": {"direction": "reverse"},
    "two directions": {"direction": "bidirectional", "hidden": 9},
    "states": {"states": True, "direction": "bidirectional"},
    "lengths": {"lengths": [6, 2, 4], "direction": "bidirectional", "states": True},
    "lengths that are shorter than the steps": {"lengths": [3, 0, 2], "states": True},
    "peepholes": {"peepholes": True, "direction": "bidirectional"},
    "clip": {"clip": 0.3, "peepholes": True},
    "coupled gates": {"input_forget": 1},
    "columns": {"by_column": True, "direction": "bidirectional"},
    "zero points": {"middle": True},
    "unsigned": {"dtype": np.uint8, "middle": True, "most": 128},
    "unsigned without zero points": {"dtype": np.uint8, "most": 128},
    "no bias": {"bias": False},
    "activations": {"activations": ["Sigmoid", "Relu", "Softsign"]},
    "activations with numbers": {
        "activations": ["HardSigmoid", "ScaledTanh", "Tanh", "Sigmoid", "Elu", "Tanh"],
        "activation_alpha": [0.3, 0.9, 0.7],
        "activation_beta": [0.4, 1.1],
        "direction": "bidirectional",
    },
}


@pytest.mark.parametrize("name", CASES)
def test_all_forms_give_what_onnx_runtime_does(name: str):
    sizes: dict[str, Any] = {"steps": 6, "batch": 3, "width": 10, "hidden": 12}
    check(node(np.random.default_rng(4), **{**sizes, **CASES[name]}))


@pytest.mark.parametrize("seed", seeds(6, 100))
def test_nodes_of_any_kind_give_what_onnx_runtime_does(seed: int):
    rng = np.random.default_rng(seed)
    steps, batch, width, hidden = (int(rng.integers(1, most)) for most in (12, 9, 40, 70))
    flags = {name: bool(rng.integers(2)) for name in ("by_column", "bias", "peepholes", "states")}
    lengths = rng.integers(0, steps + 1, batch) if rng.integers(2) else None
    if lengths is not None:
        lengths[0] = max(lengths[0], 1)
    direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
    given = node(rng, steps, batch, width, hidden, lengths=lengths, direction=direction, **flags)
    check(given, threads=int(rng.integers(1, 3)))


def test_large_weights_are_multiplied_exactly():
    """Two neighbouring products of the largest numbers leave 16 bits."""
    given = node(np.random.default_rng(0), 5, 2, 30, 20, most=127)
    given.inputs[1][:] = 127
    model, arrays = given.model(), list(given.feeds().values())
    for found, expected in zip(li.compile(model)(arrays), li.run(li.from_onnx(model), arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("length", [-1, 7])
def test_negative_a_length_that_there_are_no_steps_for_is_an_error(length: int):
    given = node(np.random.default_rng(0), 6, 2, 3, 4, lengths=[6, length])
    with pytest.raises(li.LayoutError, match=f"index {length} of node 'node' is outside"):
        li.compile(given.model())(list(given.feeds().values()))


def test_negative_computed_weights_are_real_numbers():
    """For which there are no packed ones: what is more exact than ONNX Runtime is as near as its levels are."""
    given = node(np.random.default_rng(0), 4, 2, 5, 6)
    given = RuntimeNode(given.op_type, given.inputs, (3, 8, 9, 10, 11), 3, given.attributes)
    model, feeds = given.model(), given.feeds()
    executable = li.compile(model)
    for found, expected in zip(executable(list(feeds.values())), session_results(model, feeds), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=0.05)


def test_a_saved_executable_gives_the_same(tmp_path: Any):
    given = node(np.random.default_rng(0), 4, 2, 5, 6, lengths=[4, 2])
    arrays = list(given.feeds().values())
    executable = li.compile(given.model())
    executable.save(tmp_path / "lstm.exe")
    loaded = li.load_executable(tmp_path / "lstm.exe")
    for found, expected in zip(loaded(arrays), executable(arrays), strict=True):
        np.testing.assert_array_equal(found, expected)
