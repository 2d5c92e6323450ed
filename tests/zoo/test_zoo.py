"""What every network of the zoo promises: valid ONNX, sensible numbers, the same bytes each time.

By default a sample runs, the quickest of each kind; `pytest -m deep tests/zoo` runs the rest.
"""

from __future__ import annotations

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


def _require(network: Network) -> None:
    missing = [package for package in network.requires if find_spec(package) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


def _parameters() -> list[Any]:
    return [pytest.param(network, id=name, marks=_marks(name)) for name, network in NETWORKS.items()]


def _marks(name: str) -> list[pytest.MarkDecorator]:
    return [] if name in SAMPLE else [pytest.mark.deep]


@pytest.fixture(name="network", scope="module", params=_parameters())
def _network(request: pytest.FixtureRequest) -> Network:
    _require(request.param)
    return request.param


@pytest.fixture(name="model", scope="module")
def _model(network: Network) -> Any:
    """Built once for all tests of a network."""
    return network.build()


def _outputs(model: Any, inputs: dict[str, Array]) -> list[Array]:
    onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


def test_a_network_is_valid(network: Network, model: Any):
    onnx: Any = pytest.importorskip("onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [value.name for value in model.graph.input] == list(network.takes)


def test_outputs_are_finite_and_follow_the_inputs(network: Network, model: Any):
    if not network.runs:
        pytest.skip("no runtime knows its ops")
    one, other = (_outputs(model, network.inputs(seed)) for seed in (0, 1))
    for output, changed in zip(one, other, strict=True):
        if output.dtype.kind != "f":
            continue  # classes and places, which may well be the same
        assert np.all(np.isfinite(output))
        assert output.size == 1 or np.ptp(output) > 0
        assert output.shape != changed.shape or not np.array_equal(output, changed)


def test_a_network_built_twice_is_the_same_bytes(network: Network, model: Any):
    again = network.build()
    assert model.SerializeToString(deterministic=True) == again.SerializeToString(deterministic=True)


_TOLERANCE = {
    **dict.fromkeys(
        ("nhwc", "onnx2tf", "hwio", "raw", "unfused", "opset9", "opset11", "opset13", "opset20"), 0.0001
    ),
    **dict.fromkeys(("dynamo", "ort-extended", "ort-all"), 0.001),
    "f16": 0.05,
}
"""How far a network may be from the one that it was made from or stands beside, by its ending."""


def _twins() -> list[Any]:
    return [
        pytest.param(
            NETWORKS[name.removesuffix(f"-{ending}")], network, tolerance, id=name, marks=_marks(name)
        )
        for name, network in NETWORKS.items()
        for ending, tolerance in _TOLERANCE.items()
        if name.endswith(f"-{ending}")
    ]


@pytest.mark.parametrize("original, twin, tolerance", _twins())
def test_twins_compute_the_same(original: Network, twin: Network, tolerance: float):
    _require(twin)
    inputs = original.inputs(7)
    want = _outputs(original.build(), inputs)
    moved = twin.family == "channels_last"
    got = _outputs(
        twin.build(), {name: _to_last(array) if moved else array for name, array in inputs.items()}
    )
    for one, other in zip(got, want, strict=True):
        expected = _to_last(other) if moved else other
        np.testing.assert_allclose(one, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


def _to_last(array: Array) -> Array:
    return array.transpose(0, 2, 3, 1) if array.ndim == 4 else array


@pytest.mark.parametrize("name", ["resnet18-nhwc", "unet_resized-nhwc"])
def test_a_network_in_nhwc_has_two_transposes_for_each_convolution(name: str):
    _require(NETWORKS[name])
    kinds = [node.op_type for node in NETWORKS[name].build().graph.node]
    assert kinds.count("Transpose") >= 2 * kinds.count("Conv")


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
