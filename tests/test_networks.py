"""The main job on real networks: layouts change nothing that ONNX Runtime would notice, and reorders go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.dialects import nn
from layout_ir.dialects.layout import FillPadsOp, ReorderOp
from layout_ir.passes.optimize import optimize
from layout_ir.passes.strip import strip
from layout_ir.printing import print_module
from tests import networks

pytest.importorskip("onnx", reason="needs the extra 'onnx'")

TOLERANCE = 1e-4


def _relative(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> float:
    assert got.shape == want.shape
    assert np.all(np.isfinite(got))
    return float(np.max(np.abs(got - want)) / np.max(np.abs(want)))


def _import(source: Any) -> Any:
    from layout_ir.frontends.onnx import from_onnx

    return from_onnx(source)


@pytest.mark.parametrize("name", networks.NAMES)
def test_random_weights_agree_with_onnx_runtime(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    from layout_ir.execute import run

    model = networks.randomized(name)
    data = networks.input_shape(model)[0]
    x = np.random.default_rng(1).standard_normal(networks.input_shape(model)[1]).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    want = session.run(None, {data: x})[0]
    assert np.ptp(want) > 1e-3 * np.max(np.abs(want)), "the outputs are all alike: the test could not fail"
    module = _import(model)
    assert _relative(run(module, [x], reorders="reference")[0], want) <= TOLERANCE
    optimize(module, "avx2")
    module.verify()
    assert _relative(run(module, [x], reorders="reference")[0], want) <= TOLERANCE
    assert _relative(run(module, [x], reorders="compiled")[0], want) <= TOLERANCE


@pytest.mark.parametrize("name", networks.NAMES)
def test_original_weights_agree_with_the_shipped_output(name: str) -> None:
    from layout_ir.execute import run

    x, want = networks.shipped_input(networks.load(name)), networks.expected(name)
    module = _import(networks.path(name))
    assert _relative(run(module, [x], reorders="compiled")[0], want) <= TOLERANCE
    optimize(module, "avx2")
    assert _relative(run(module, [x], reorders="compiled")[0], want) <= TOLERANCE


@pytest.mark.parametrize("target", ["avx512", "channels-last", "onednn", "htp"])
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_every_target_computes_the_same(name: str, target: str) -> None:
    from layout_ir.execute import run

    model = networks.randomized(name)
    x = np.random.default_rng(1).standard_normal(networks.input_shape(model)[1]).astype(np.float32)
    module = _import(model)
    want = run(module, [x], reorders="reference")[0]
    optimize(module, target)
    module.verify()
    assert _relative(run(module, [x], reorders="compiled")[0], want) <= TOLERANCE


@pytest.mark.parametrize("target", ["avx2", "avx512", "channels-last", "onednn", "htp"])
@pytest.mark.parametrize("name", networks.NAMES)
def test_optimized_and_original_strip_to_the_same_text(name: str, target: str) -> None:
    module, original = _import(networks.path(name)), _import(networks.path(name))
    optimize(module, target)
    strip(module)
    strip(original)
    assert print_module(module) == print_module(original)


# Reorders of activations that are left for avx2. A bound is a floor under what earlier versions reached.
LEFT = {
    "bvlc_alexnet": 0,
    "densenet121": 0,
    "inception_v1": 0,
    "inception_v2": 0,
    "resnet50": 0,
    "shufflenet": 21,
    "squeezenet": 0,
    "vgg19": 0,
    "zfnet512": 0,
}


@pytest.mark.parametrize("name", networks.NAMES)
def test_few_reorders_remain_and_none_of_a_constant(name: str) -> None:
    module = _import(networks.path(name))
    solution = optimize(module, "avx2")
    assert solution is not None and solution.is_optimal
    left = [op for op in module.walk() if isinstance(op, ReorderOp | FillPadsOp)]
    assert [op for op in left if isinstance(op.input.owner, nn.ConstantOp)] == []
    assert len(left) <= LEFT[name]


def test_negative_greedy_leaves_more() -> None:
    module = _import(networks.path("resnet50"))
    optimize(module, "avx2", solver="naive")
    assert sum(isinstance(op, ReorderOp) for op in module.walk()) > 10
