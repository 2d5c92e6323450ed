"""The node tests of the ONNX standard itself: each op of it that can be imported gives the outputs ONNX states."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.api.execute import run

onnx: Any = pytest.importorskip("onnx", reason="needs the extra 'onnx'")

# Why a node test of a supported op may be refused. Anything else is a failure.
REFUSALS = (r"has element type (u?int[24]|float8_\w+|float4_\w+)",)

# With scales that do not divide, ONNX divides by the extent before it is cut off to a whole number; ONNX Runtime and
# PyTorch divide by the extent that the result has, and so does `nn.resize`.
OPEN = {"test_resize_downsample_scales_linear_align_corners"}

OPS = tuple(
    """
    Abs Add AveragePool BatchNormalization Cast Ceil Clip Concat Conv Div Elu Erf Exp Flatten Floor Gelu Gemm
    GlobalAveragePool GlobalMaxPool HardSigmoid HardSwish LRN LeakyRelu Log LogSoftmax MatMul Max MaxPool Mean Min Mul
    Neg Pad Pow Reciprocal ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu Reshape Resize Sigmoid Slice Softmax
    Softplus Split Sqrt Squeeze Sub Sum Tanh Transpose Unsqueeze
    """.split()  # noqa: SIM905
)

# Ops whose inputs behind the first say what they do (axes, shapes, sizes), which must be known at import.
PARAMETRIZED = {"Pad", "Reshape", "Resize", "Slice", "Split", "Squeeze", "Unsqueeze"}


@cache
def node_tests() -> dict[str, list[Any]]:
    """The tests of one node each, by op."""
    module: Any = import_module("onnx.backend.test.case.node")
    result: dict[str, list[Any]] = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in module.collect_testcases(None):
            if len(case.model.graph.node) == 1 and case.name not in OPEN:
                result[case.model.graph.node[0].op_type].append(case)
    return result


def _array(value: Any) -> NDArray[Any]:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def _model(case: Any, arrays: list[NDArray[Any]]) -> tuple[Any, list[NDArray[Any]]]:
    """The model, with parameters as constants, and the arrays for the inputs that remain."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    op = case.model.graph.node[0].op_type
    if op not in PARAMETRIZED and not op.startswith("Reduce"):
        return model, arrays
    for value, array in zip(list(model.graph.input)[1:], arrays[1:], strict=True):
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
    del model.graph.input[1:]
    return model, arrays[:1]


@pytest.mark.parametrize("op", OPS)
def test_op_gives_the_outputs_that_onnx_states(op: str):
    from layout_ir.frontends.onnx import OnnxImportError, from_onnx

    passed, refused = 0, dict[str, str]()
    for case in node_tests()[op]:
        for inputs, outputs in case.data_sets:
            model, arrays = _model(case, [_array(value) for value in inputs])
            shapes = {value.name: array.shape for value, array in zip(model.graph.input, arrays, strict=True)}
            try:
                module = from_onnx(model.SerializeToString(), shapes=shapes)
            except OnnxImportError as error:
                refused[case.name] = str(error)
                continue
            for actual, output in zip(run(module, arrays), map(_array, outputs), strict=True):
                actual = actual.view(output.dtype) if output.dtype.name == "bfloat16" else actual
                assert (actual.shape, actual.dtype) == (output.shape, output.dtype), case.name
                np.testing.assert_allclose(
                    actual.astype(np.float64),
                    output.astype(np.float64),
                    case.rtol,
                    case.atol,
                    err_msg=case.name,
                )
            passed += 1
    assert passed > 0
    unexpected = {
        name: text for name, text in refused.items() if not any(re.search(r, text) for r in REFUSALS)
    }
    assert not unexpected
