"""Elementwise ops: NumPy's broadcast, the values of torch and of ONNX's evaluator, and what becomes of pads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from layout_ir.dialects import nn
from tests.dialects.nn.building import value

Array = NDArray[Any]

X = value((2,))
EDGES = np.array(
    [
        *(0.0, 0.5, 1.5, 2.5, 0.49999997, 8388609.0, 1e-45, 1e-38, 3.4e38, np.inf, np.nan, 1, 3, 6, 1e-3, 20, 88.8),
        *(-0.0, -0.5, -1.5, -2.5, -8388609.0, -1e-45, -1e-38, -3.4e38, -np.inf, -1, -3, -1e-3, -20, -88.8, -104),
    ],
    np.float32,
)  # fmt: skip
NUMBERS = np.concatenate([np.linspace(-20, 20, 301), EDGES.astype(np.float64)])


def pairs(x: Array) -> tuple[Array, Array]:
    a, b = np.meshgrid(x, x)
    return a.ravel(), b.ravel()


UNARY: list[tuple[nn.UnaryOp, Callable[[torch.Tensor], torch.Tensor]]] = [
    (nn.AbsOp(X), torch.abs),
    (nn.CeilOp(X), torch.ceil),
    (nn.ClipOp(X), lambda x: x),
    (nn.ClipOp(X, min=-1.0, max=6.0), lambda x: torch.clamp(x, -1, 6)),
    (nn.ClipOp(X, min=6.0, max=-1.0), lambda x: torch.clamp(x, 6, -1)),
    (nn.EluOp(X), F.elu),
    (nn.EluOp(X, alpha=2.5), lambda x: F.elu(x, 2.5)),
    (nn.ErfOp(X), torch.erf),
    (nn.ExpOp(X), torch.exp),
    (nn.FloorOp(X), torch.floor),
    (nn.GeluOp(X), F.gelu),
    (nn.GeluOp(X, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh")),
    (nn.HardSigmoidOp(X, alpha=1 / 6), F.hardsigmoid),
    (nn.HardSwishOp(X), F.hardswish),
    (nn.LeakyReluOp(X), lambda x: F.leaky_relu(x, 0.01)),
    (nn.LeakyReluOp(X, alpha=-0.3), lambda x: F.leaky_relu(x, -0.3)),
    (nn.LogOp(X), torch.log),
    (nn.NegOp(X), torch.neg),
    (nn.ReciprocalOp(X), torch.reciprocal),
    (nn.ReluOp(X), F.relu),
    (nn.SigmoidOp(X), torch.sigmoid),
    (nn.SoftplusOp(X), lambda x: F.softplus(x, threshold=1000)),
    (nn.SqrtOp(X), torch.sqrt),
    (nn.TanhOp(X), torch.tanh),
    (nn.MishOp(X), F.mish),
    (nn.SinOp(X), torch.sin),
    (nn.CosOp(X), torch.cos),
    (nn.SignOp(X), lambda x: torch.where(torch.isnan(x), x, torch.sign(x))),
    (nn.RoundOp(X), torch.round),
    (nn.CeluOp(X, alpha=2.5), lambda x: F.celu(x, 2.5)),
    (nn.SeluOp(X, alpha=1.6732632423543772, gamma=1.0507009873554805), F.selu),
    (nn.SwishOp(X), F.silu),
    (nn.SoftsignOp(X), F.softsign),
    (nn.ThresholdedReluOp(X, alpha=2.0), lambda x: torch.where(x > 2, x, 0)),
]
BINARY: dict[type[nn.BinaryOp], Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    nn.AddOp: torch.add,
    nn.DivOp: torch.div,
    nn.MaxOp: torch.maximum,
    nn.MinOp: torch.minimum,
    nn.MulOp: torch.mul,
    nn.PowOp: torch.pow,
    nn.PReluOp: lambda x, slope: torch.where(x < 0, x * slope, x),
    nn.SubOp: torch.sub,
}


TRUTH: dict[type[nn.ElementwiseOp], Callable[..., torch.Tensor]] = {
    nn.EqualOp: torch.eq,
    nn.GreaterOp: torch.gt,
    nn.GreaterOrEqualOp: torch.ge,
    nn.LessOp: torch.lt,
    nn.LessOrEqualOp: torch.le,
    nn.AndOp: torch.logical_and,
    nn.OrOp: torch.logical_or,
    nn.XorOp: torch.logical_xor,
    nn.NotOp: torch.logical_not,
    nn.WhereOp: torch.where,
}


def computed(op: type[nn.ElementwiseOp] | nn.ElementwiseOp, *operands: Array, **attributes: Any) -> Array:
    """What the op makes of arrays of the type that it computes in."""
    one = op(*(X for _ in operands), **attributes) if isinstance(op, type) else op
    with np.errstate(all="ignore"):
        return one.compute(np, *operands)


def test_every_op_that_computes_has_an_oracle():
    tested = {type(op) for op, _ in UNARY} | set(BINARY) | set(TRUTH)
    assert {op for op in nn.NN.operations if issubclass(op, nn.ElementwiseOp)} == {
        *tested,
        nn.CastOp,
        nn.ExpandOp,
    }


@pytest.mark.parametrize(("op", "oracle"), UNARY, ids=lambda value: getattr(value, "name", ""))
def test_functions_of_one_number_agree_with_torch(
    op: nn.UnaryOp, oracle: Callable[[torch.Tensor], torch.Tensor]
):
    wanted = oracle(torch.tensor(NUMBERS)).numpy()
    np.testing.assert_allclose(computed(op, NUMBERS), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("op", BINARY)
def test_functions_of_two_numbers_agree_with_torch(op: type[nn.BinaryOp]):
    x, y = pairs(NUMBERS)
    wanted = BINARY[op](torch.tensor(x), torch.tensor(y)).numpy()
    np.testing.assert_allclose(computed(op, x, y), wanted, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("op", [nn.EqualOp, nn.GreaterOp, nn.GreaterOrEqualOp, nn.LessOp, nn.LessOrEqualOp])
def test_comparisons_agree_with_torch(op: type[nn.ComparisonOp]):
    x, y = pairs(NUMBERS)
    np.testing.assert_array_equal(computed(op, x, y), TRUTH[op](torch.tensor(x), torch.tensor(y)).numpy())


@pytest.mark.parametrize("op", [nn.AndOp, nn.OrOp, nn.XorOp, nn.NotOp, nn.EqualOp])
def test_functions_of_truth_values_agree_with_torch(op: type[nn.ElementwiseOp]):
    operands = pairs(np.array([False, True]))[: 1 if op is nn.NotOp else 2]
    bit = value((2,), "i1")
    ours = op(*(bit for _ in operands)).compute(np, *operands)
    assert ours.dtype == np.bool_
    np.testing.assert_array_equal(ours, TRUTH[op](*map(torch.tensor, operands)).numpy())


def test_where_chooses_as_torch_does():
    x, y = pairs(EDGES)
    condition = np.arange(x.size) % 3 == 0
    ours = nn.WhereOp(value((2,), "i1"), X, X).compute(np, condition, x, y)
    np.testing.assert_array_equal(ours, TRUTH[nn.WhereOp](*map(torch.tensor, (condition, x, y))).numpy())


def _onnx(op: type[nn.ElementwiseOp], *inputs: Array, **attributes: Any) -> Array:
    pytest.importorskip("onnx")
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    names = [f"i{k}" for k in range(len(inputs))]
    kind = helper.np_dtype_to_tensor_dtype(inputs[0].dtype)
    values = [helper.make_tensor_value_info(n, kind, x.shape) for n, x in zip(names, inputs, strict=True)]
    node = helper.make_node(op.__name__[:-2], names, ["y"], **attributes)
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


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        (nn.ReluOp, {}),
        (nn.LeakyReluOp, {"alpha": 0.01}),
        (nn.EluOp, {"alpha": 1.5}),
        (nn.SigmoidOp, {}),
        (nn.HardSigmoidOp, {}),
        (nn.HardSwishOp, {}),
        (nn.SoftplusOp, {}),
        (nn.GeluOp, {}),
        (nn.ErfOp, {}),
        (nn.ReciprocalOp, {}),
        (nn.FloorOp, {}),
        (nn.CeilOp, {}),
        (nn.NegOp, {}),
        (nn.AbsOp, {}),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_functions_of_one_float_agree_with_onnx(op: type[nn.UnaryOp], attributes: dict[str, float]):
    onnx = pytest.importorskip("onnx")
    if op in (nn.EluOp, nn.SoftplusOp) and tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 23):
        pytest.skip("the evaluator of onnx before 1.23 overflows")
    _same(computed(op, EDGES, **attributes), _onnx(op, EDGES, **attributes))


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.filterwarnings("ignore")
def test_functions_of_two_floats_agree_with_onnx(op: type[nn.BinaryOp]):
    a, b = pairs(EDGES)
    if op is nn.PReluOp:
        # The standard says x where x is not negative; the evaluator multiplies 0 by an infinite slope.
        a, b = a[a != 0], b[a != 0]
    _same(computed(op, a, b), _onnx(op, a, b))


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64])
@pytest.mark.filterwarnings("ignore")
def test_functions_of_two_integers_agree_with_onnx(op: type[nn.BinaryOp], kind: type[np.integer[Any]]):
    """Left out is what ONNX does not define: division by 0, the quotient that does not fit, powers that do not fit."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    edges = [x for x in (0, 1, 2, 3, 5, 7, -1, -2, -3, -7, low, high, low + 1, high - 1) if low <= x <= high]
    a, b = pairs(np.array(edges, kind))
    if op is nn.DivOp:
        keep = (b != 0) & ~((a == low) & (b.astype(np.int64) == -1))
    elif op is nn.PowOp:
        keep = (b < 5) & (b.astype(np.int64) >= 0) & (np.abs(a.astype(np.float64)) < 3)
    else:
        keep = np.ones(a.shape, np.bool_)
    _same(computed(op, a[keep], b[keep]), _onnx(op, a[keep], b[keep]))


@pytest.mark.parametrize("bounds", [(-1.0, 2.0), (2.0, -1.0), (0.0, np.inf), (-0.0, 0.0)])
@pytest.mark.filterwarnings("ignore")
def test_bounds_of_clip(bounds: tuple[float, float]):
    """NaN stays; where the bounds are the wrong way round, the upper one wins."""
    low, high = bounds
    theirs = _onnx(nn.ClipOp, EDGES, np.array(low, np.float32), np.array(high, np.float32))
    np.testing.assert_array_equal(computed(nn.ClipOp, EDGES, min=low, max=high), theirs)


def test_negative_a_quotient_of_integers_is_not_rounded_down():
    a, b = np.array([-7, 7, -7], np.int32), np.array([2, -2, -2], np.int32)
    assert computed(nn.DivOp, a, b).tolist() == [-3, -3, 3]
