"""Elementwise kernels on edge values, held against ONNX's own reference evaluator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.backends.reference import kernels_elementwise as kernels

onnx = pytest.importorskip("onnx")

Array = NDArray[Any]

EDGES = np.array(
    [
        *(0.0, 0.5, 1.5, 2.5, 0.49999997, 8388609.0, 1e-45, 1e-38, 3.4e38, np.inf, np.nan, 1, 3, 6, 1e-3, 20, 88.8),
        *(-0.0, -0.5, -1.5, -2.5, -8388609.0, -1e-45, -1e-38, -3.4e38, -np.inf, -1, -3, -1e-3, -20, -88.8, -104),
    ],
    np.float32,
)  # fmt: skip

UNARY: dict[str, tuple[Callable[..., Array], dict[str, Any]]] = {
    "Relu": (kernels.relu, {}),
    "LeakyRelu": (partial(kernels.leaky_relu, alpha=0.01), {"alpha": 0.01}),
    "Elu": (partial(kernels.elu, alpha=1.5), {"alpha": 1.5}),
    "Sigmoid": (kernels.sigmoid, {}),
    "HardSigmoid": (partial(kernels.hard_sigmoid, alpha=0.2, beta=0.5), {}),
    "HardSwish": (kernels.hard_swish, {}),
    "Softplus": (kernels.softplus, {}),
    "Gelu": (partial(kernels.gelu, approximate="none"), {}),
    "Erf": (kernels.erf, {}),
    "Reciprocal": (kernels.reciprocal, {}),
    "Floor": (np.floor, {}),
    "Ceil": (np.ceil, {}),
    "Neg": (np.negative, {}),
    "Abs": (np.abs, {}),
}
BINARY: dict[str, Callable[..., Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": kernels.div,
    "Pow": kernels.pow,
    "Min": np.minimum,
    "Max": np.maximum,
}


def _onnx(op: str, *inputs: Array, **attributes: Any) -> Array:
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    names = [f"i{k}" for k in range(len(inputs))]
    kind = helper.np_dtype_to_tensor_dtype(inputs[0].dtype)
    values = [helper.make_tensor_value_info(n, kind, x.shape) for n, x in zip(names, inputs, strict=True)]
    node = helper.make_node(op, names, ["y"], **attributes)
    result = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([node], "g", values, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with np.errstate(all="ignore"):
        [answer] = ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))  # pyright: ignore
    return np.asarray(answer)


def _same(ours: Array, theirs: Array) -> None:
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=0)
    if ours.dtype.kind == "f":
        zero = theirs == 0
        assert np.array_equal(np.signbit(ours[zero]), np.signbit(theirs[zero]))


@pytest.mark.parametrize("op", UNARY)
@pytest.mark.filterwarnings("ignore")
def test_functions_of_one_float(op: str):
    if op in ("Elu", "Softplus") and tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 23):
        pytest.skip("the evaluator of onnx before 1.23 overflows")
    function, attributes = UNARY[op]
    _same(function(EDGES), _onnx(op, EDGES, **attributes))


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.filterwarnings("ignore")
def test_functions_of_two_floats(op: str):
    a, b = (x.ravel() for x in np.meshgrid(EDGES, EDGES))
    _same(BINARY[op](a, b), _onnx(op, a, b))


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64])
@pytest.mark.filterwarnings("ignore")
def test_functions_of_two_integers(op: str, kind: type[np.integer[Any]]):
    """Left out is what ONNX does not define: division by 0, the quotient that does not fit, powers that do not fit."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    edges = [x for x in (0, 1, 2, 3, 5, 7, -1, -2, -3, -7, low, high, low + 1, high - 1) if low <= x <= high]
    a, b = (x.ravel() for x in np.meshgrid(np.array(edges, kind), np.array(edges, kind)))
    if op == "Div":
        keep = (b != 0) & ~((a == low) & (b.astype(np.int64) == -1))
    elif op == "Pow":
        keep = (b < 5) & (b.astype(np.int64) >= 0) & (np.abs(a.astype(np.float64)) < 3)
    else:
        keep = np.ones(a.shape, np.bool_)
    a, b = a[keep], b[keep]
    _same(BINARY[op](a, b), _onnx(op, a, b))


@pytest.mark.parametrize("bounds", [(-1.0, 2.0), (2.0, -1.0), (0.0, np.inf), (-0.0, 0.0)])
@pytest.mark.filterwarnings("ignore")
def test_bounds_of_clip(bounds: tuple[float, float]):
    """NaN stays; where the bounds are the wrong way round, the upper one wins."""
    low, high = (np.array(bound, np.float32) for bound in bounds)
    ours, theirs = kernels.clip(EDGES, *bounds), _onnx("Clip", EDGES, low, high)
    np.testing.assert_array_equal(ours, theirs)


def test_negative_a_quotient_of_integers_is_not_rounded_down():
    a, b = np.array([-7, 7, -7], np.int32), np.array([2, -2, -2], np.int32)
    assert kernels.div(a, b).tolist() == [-3, -3, 3]
