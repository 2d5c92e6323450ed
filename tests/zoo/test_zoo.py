"""What every network of the zoo promises: valid ONNX, sensible numbers, the same bytes each time.

By default a sample runs, the quickest of each kind; `pytest -m slow tests/zoo` runs the rest (conftest.py).
"""

from __future__ import annotations

from fnmatch import fnmatch
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.zoo import NETWORKS, Network

pytest.importorskip("onnx", reason="needs the extra 'onnx'")

Array = NDArray[Any]

SAMPLE = (
    *("resnet18", "espcn-dynamo", "resnet18-dynamic", "resnet18-unfused", "resnet18-nhwc", "resnet18-f16"),
    *("resnet18-qdq", "resnet18-qoperator", "resnet18-integer", "resnet18-ort-extended", "resnet18-ort-all"),
    *("resnet18-external", "mobilenet_v1", "ssd", "unet_resized-nhwc", "espcn-nhwc", "prelu-nhwc"),
    *("mlp_mixer", "bert", "rnn_tagger", "tcn", "espcn", "graph_convolution", "c3d", "deployed"),
    *("branch", "loop", "loop_until", "scan", "nested"),
    *("model_function", "custom_op", "sequence", "detector_nms"),
)
"""What takes a second or less, and something of every kind."""


def _parameters(pattern: str = "*") -> list[Any]:
    return [
        pytest.param(network, id=name, marks=() if name in SAMPLE else pytest.mark.slow)
        for name, network in NETWORKS.items()
        if fnmatch(name, pattern)
    ]


def _require(network: Network) -> None:
    missing = [package for package in network.requires if find_spec(package) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


@cache
def _model(name: str) -> Any:
    _require(NETWORKS[name])
    return NETWORKS[name].build()


def _outputs(model: Any, inputs: dict[str, Array]) -> list[Array]:
    onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


@pytest.mark.parametrize("network", _parameters())
def test_every_network_is_valid_and_its_outputs_follow_its_inputs(network: Network):
    onnx: Any = pytest.importorskip("onnx")
    model = _model(network.name)
    onnx.checker.check_model(model, full_check=True)
    assert [value.name for value in model.graph.input] == list(network.takes)
    if not network.runs:
        return
    one, other = (_outputs(model, network.inputs(seed)) for seed in (0, 1))
    for output, changed in zip(one, other, strict=True):
        if output.dtype.kind != "f":
            continue  # classes and places, which may well be the same
        assert np.all(np.isfinite(output))
        assert output.size == 1 or np.ptp(output) > 0
        assert output.shape != changed.shape or not np.array_equal(output, changed)


@pytest.mark.parametrize("network", _parameters())
def test_a_network_built_twice_is_the_same_bytes(network: Network):
    first = _model(network.name)
    assert first.SerializeToString(deterministic=True) == network.build().SerializeToString(
        deterministic=True
    )


def _to_last(array: Array) -> Array:
    return array.transpose(0, 2, 3, 1) if array.ndim == 4 else array


@pytest.mark.parametrize("network", _parameters("*-nhwc"))
def test_a_network_in_nhwc_computes_what_the_original_does(network: Network):
    original = NETWORKS[network.name.removesuffix("-nhwc")]
    _require(original)
    inputs = original.inputs(7)
    want = _outputs(original.build(), inputs)
    model = _model(network.name)
    got = _outputs(model, {name: _to_last(array) for name, array in inputs.items()})
    for one, expected in zip(got, want, strict=True):
        np.testing.assert_allclose(one, _to_last(expected), rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    assert sum(node.op_type == "Transpose" for node in model.graph.node) > 2


def test_building_leaves_the_random_numbers_of_the_process_alone():
    torch: Any = pytest.importorskip("torch", reason="needs the extra 'oracles'")
    before = torch.random.get_rng_state()
    NETWORKS["prelu"].build()
    assert torch.equal(before, torch.random.get_rng_state())


def test_weights_saved_apart_are_read_again(tmp_path: Path):
    onnx: Any = pytest.importorskip("onnx")
    network = NETWORKS["resnet18-external"]
    _require(network)
    path = network.save(tmp_path)
    assert path.stat().st_size * 10 < path.with_suffix(".weights").stat().st_size
    inputs = network.inputs()
    for one, other in zip(_outputs(onnx.load(path), inputs), _outputs(network.build(), inputs), strict=True):
        np.testing.assert_array_equal(one, other)
