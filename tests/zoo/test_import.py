"""Every network of the zoo that is imported computes what ONNX Runtime computes, before and after optimization."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.frontends.onnx import OnnxImportError
from tests.zoo import NETWORKS, Network
from tests.zoo.test_zoo import SAMPLE

pytest.importorskip("onnx", reason="needs the extra 'onnx'")

REFUSED = {
    # ONNX Runtime pads channels to the block of its machine, which the model does not say.
    **{name: r"com\.microsoft\.nchwc\." for name in NETWORKS if name.endswith("-ort-all")},
    "custom_op": "'b' has no static type: ONNX's shape inference gives no type, and the model says none",
    "detector_nms": r"\(NonMaxSuppression\): .* is only known at run time",
}
"""Networks that cannot be imported, and why."""

TOLERANCE = {"f16": 0.02, "qdq": 0.05, "qoperator": 0.05, "integer": 0.05, "channels": 0.05}
"""Of the largest element of an output, by the ending of a name: a quantum more or less at each rounding."""


def _parameters() -> list[Any]:
    return [
        pytest.param(network, id=name, marks=[] if name in SAMPLE else [pytest.mark.deep])
        for name, network in NETWORKS.items()
    ]


@pytest.mark.parametrize("network", _parameters())
def test_an_imported_network_computes_what_onnx_runtime_does(network: Network):
    missing = [package for package in network.requires if find_spec(package) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    model, inputs = network.build(), network.inputs(3)
    shapes = {name: array.shape for name, array in inputs.items()}
    if network.name in REFUSED:
        with pytest.raises(OnnxImportError, match=REFUSED[network.name]):
            li.from_onnx(model, shapes=shapes)
        return
    module = li.from_onnx(model, shapes=shapes)
    naive, proven = module.clone(), module
    li.optimize(proven, target="blocked8")
    try:
        before = li.run(naive, inputs)
    except li.LayoutError as error:
        assert "opaque" in str(error), error
        pytest.skip(str(error)[:200])
    after = li.run(proven, inputs)
    onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # What ONNX Runtime fuses on integers rounds elsewhere, and that adds up: a quarter of the largest output.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    tolerance = next((limit for ending, limit in TOLERANCE.items() if network.name.endswith(ending)), 1e-4)
    for wanted, *ours in zip(session.run(None, inputs), before, after, strict=True):
        for got in ours:
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
            limit = tolerance * np.abs(wanted.astype(np.float64)).max(initial=1e-30)
            np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=0, atol=limit)
