"""Every network of the zoo goes out as a model that computes the same, whose Transposes move no more than before."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from tests.exits.onnx.models import check, counts, evaluate, onnx, transposed_bytes
from tests.zoo import NETWORKS, Network
from tests.zoo.test_import import REFUSED
from tests.zoo.test_zoo import SAMPLE

TRANSPOSES = {
    "resnet18-nhwc": (45, 1),
    "resnet18-unfused-nhwc": (85, 1),
    "se_resnet50-nhwc": (207, 1),
    "densenet121-nhwc": (375, 1),
    "mobilenet_v2-nhwc": (107, 1),
    "mobilenet_v3_small-nhwc": (125, 1),
    "efficientnet_b0-nhwc": (197, 1),
    "shufflenet_v2-nhwc": (178, 17),
    "unet_transposed-nhwc": (54, 2),
    "unet_resized-nhwc": (62, 2),
    "deeplabv3-nhwc": (62, 2),
    "yolov8-nhwc": (151, 1),
    "espcn-nhwc": (8, 0),
    "style_transfer-nhwc": (114, 2),
    "nasnet-nhwc": (393, 1),
    "poolformer-nhwc": (159, 3),
    "spatial_transformer-nhwc": (15, 1),
    "prelu-nhwc": (11, 1),
    "mobilenet_v3_small-keras": (108, 1),
    "lstm_tagger-dynamo": (4, 0),
    "channel_shuffle-dynamo": (3, 1),
}
"""How many a network comes with, and how many are left. The one left of most NHWC networks is that of the input."""

QUANTIZED = ("-qdq", "-channels", "-qoperator", "-integer", "-f16")
"""Where ONNX Runtime's optimizer changes results by a quantum here and there, both models run without it."""


def _parameters() -> list[Any]:
    return [
        pytest.param(network, id=name, marks=[] if name in SAMPLE else [pytest.mark.deep])
        for name, network in NETWORKS.items()
        if name not in REFUSED
    ]


@pytest.mark.parametrize("network", _parameters())
def test_a_network_goes_out_as_the_same_and_transposes_less(network: Network):
    missing = [package for package in network.requires if find_spec(package) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    came, inputs = network.build(), network.inputs(3)
    shapes = {name: array.shape for name, array in inputs.items()}
    module = li.from_onnx(came, shapes=shapes, keep_quantized=True)
    li.optimize(module, target="onnx")
    went = li.to_onnx(module)
    check(went)
    for ours, theirs in ((went.graph.input, came.graph.input), (went.graph.output, came.graph.output)):
        constants = {tensor.name for tensor in came.graph.initializer}
        assert [value.name for value in ours] == [
            value.name for value in theirs if value.name not in constants
        ]
    before, after = counts(came)["Transpose"], counts(went)["Transpose"]
    assert transposed_bytes(went, shapes) <= transposed_bytes(came, shapes)
    assert TRANSPOSES.get(network.name, (before, after)) == (before, after)
    optimized = not any(ending in network.name for ending in QUANTIZED)
    given = [inputs[value.name] for value in went.graph.input]
    came_inputs = [inputs[value.name] for value in came.graph.input if value.name in inputs]
    for got, want in zip(
        evaluate(went, given, optimized=optimized),
        evaluate(came, came_inputs, optimized=optimized),
        strict=True,
    ):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        if want.dtype.kind != "f":
            np.testing.assert_array_equal(got, want)
            continue
        # Half precision rounds in another order where a Transpose went between a convolution and what is fused to it.
        limit = (1e-2 if "-f16" in network.name else 1e-4) * np.abs(want.astype(np.float64)).max(
            initial=1e-30
        )
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=0, atol=limit)


@pytest.mark.parametrize("name", ["resnet18-qdq", "espcn-nhwc", "nested", "model_function"])
def test_a_second_pass_changes_nothing(name: str):
    once = li.from_onnx(NETWORKS[name].build(), keep_quantized=True)
    li.optimize(once, target="onnx")
    first = li.to_onnx(once)
    twice = li.from_onnx(first, keep_quantized=True)
    li.optimize(twice, target="onnx")
    second = li.to_onnx(twice)
    assert counts(second) == counts(first)
    assert {tensor.name for tensor in second.graph.initializer} == {
        tensor.name for tensor in first.graph.initializer
    }
    assert [list(node.output) for node in second.graph.node] == [
        list(node.output) for node in first.graph.node
    ]


def test_a_quantized_network_is_no_larger_than_it_came():
    came = NETWORKS["resnet18-qdq"].build()
    sizes = [li.to_onnx(li.from_onnx(came, keep_quantized=keep)).ByteSize() for keep in (True, False)]
    assert sizes[0] <= onnx.ModelProto.ByteSize(came) < sizes[1]
