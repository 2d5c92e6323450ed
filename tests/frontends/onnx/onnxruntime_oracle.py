"""What ONNX Runtime computes, as an oracle for imported models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import layout_ir as li
from layout_ir.dialects.nn import OpaqueOp


def session_results(source: onnx.ModelProto, inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """The outputs of the model in ONNX Runtime, without its graph optimizations."""
    onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # The end of a session waits for its threads, which takes long where other processes compute.
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        source.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(inputs))


def check_like_onnx_runtime(
    source: onnx.ModelProto, inputs: Mapping[str, NDArray[Any]], *, opaque: int = 0, tolerance: float = 2e-5
) -> None:
    """Asserts that the imported model gives what ONNX Runtime gives, before and after optimization.

    `opaque` is the number of its nodes that stay opaque. Floats may differ by `tolerance` of the largest element, all
    others must be equal.
    """
    wanted = session_results(source, inputs)
    module = li.from_onnx(source)
    assert sum(isinstance(op, OpaqueOp) for op in module.walk()) == opaque
    optimized = module.clone()
    li.optimize(optimized, target="blocked8")
    for program in (module, optimized):
        for ours, theirs in zip(li.run(program, list(inputs.values())), wanted, strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            if theirs.dtype.kind != "f":
                np.testing.assert_array_equal(ours, theirs)
                continue
            finite = np.abs(theirs[np.isfinite(theirs)].astype(np.float64)).max(initial=1e-30)
            np.testing.assert_allclose(
                ours.astype(np.float64), theirs.astype(np.float64), rtol=0, atol=tolerance * finite
            )
