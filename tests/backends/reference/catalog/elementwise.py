"""Ops that compute one element from one of each operand."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from layout_ir.dialects import nn
from tests.backends.reference.catalog.cases import Case, Maker, random_shape, random_values
from tests.backends.reference.catalog.numbers import (
    FLOAT_TYPES,
    INTEGER_TYPES,
    WIDE_UNSIGNED,
    F,
    Torch,
    to_stored,
    to_torch,
    torch,
)


def _unary(
    function: Callable[..., Torch], low: float = -3.0, high: float = 3.0, **choices: list[Any]
) -> Maker:
    def make(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
        x = random_values(rng, random_shape(rng, rng.randint(1, 4)), dtype, low, high)
        attributes = {name: rng.choice(values) for name, values in choices.items()}
        return Case(op, [x], attributes, function(to_torch(x, dtype), **attributes).numpy(), dtype)

    return make


def _binary(function: Callable[[Torch, Torch], Torch], low: float = -3.0, high: float = 3.0) -> Maker:
    def make(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
        shape = random_shape(rng, rng.randint(1, 4))
        shapes = [shape, shape]
        if rng.random() < 0.5:
            other = tuple(1 if rng.random() < 0.5 else extent for extent in shape)
            shapes[rng.randrange(2)] = other[rng.randint(0, len(shape) - 1) :]
        arrays = [random_values(rng, s, dtype, low, high) for s in shapes]
        if dtype in INTEGER_TYPES and op in (nn.DivOp, nn.PowOp):
            arrays[1] = np.where(arrays[1] == 0, 3, arrays[1] % 7 if op is nn.PowOp else arrays[1]).astype(
                arrays[1].dtype
            )
        return Case(op, arrays, {}, function(*(to_torch(a, dtype) for a in arrays)).numpy(), dtype)

    return make


def _prelu(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    shape = random_shape(rng, rng.randint(1, 4))
    slope = tuple(1 if rng.random() < 0.5 else extent for extent in shape)[rng.randint(0, len(shape) - 1) :]
    x, y = (random_values(rng, s, dtype, -3, 3) for s in (shape, slope))
    a, b = to_torch(x, dtype), to_torch(y, dtype)
    return Case(op, [x, y], {}, torch.where(a < 0, a * b, a).numpy(), dtype)


def _div(a: Torch, b: Torch) -> Torch:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def _leaky_relu(x: Torch, alpha: float) -> Torch:
    return F.leaky_relu(x, alpha)


def _elu(x: Torch, alpha: float) -> Torch:
    return F.elu(x, alpha)


def _hard_sigmoid(x: Torch, alpha: float, beta: float) -> Torch:
    return (alpha * x + beta).clamp(0, 1)


def _gelu(x: Torch, approximate: str) -> Torch:
    return F.gelu(x, approximate=approximate)


def _clip(x: Torch, min: float, max: float) -> Torch:
    return x.clamp(min, max)


def _cast(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    target = rng.choice([*FLOAT_TYPES, *INTEGER_TYPES])
    x = random_values(rng, random_shape(rng, rng.randint(1, 4)), dtype, -100, 100)
    if target in ("ui8", "i8", *WIDE_UNSIGNED) and dtype != "i1":
        x = to_stored(to_torch(x, dtype).abs() % 100, dtype)
    values = to_torch(x, dtype)
    expected = to_torch(to_stored(values, target), target).numpy()
    return Case(op, [x], {}, expected, dtype, result_dtype=target)


def _comparison(function: Callable[[Torch, Torch], Torch]) -> Maker:
    """Of few numbers, so that some are equal."""

    def make(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
        made = _binary(function)(rng, op, dtype)
        if dtype != "i1":
            few = [to_stored(to_torch(a, dtype).to(torch.float64).round() % 3, dtype) for a in made.arrays]
            made = Case(op, few, {}, function(*(to_torch(a, dtype) for a in few)).numpy(), dtype)
        made.result_dtype = "i1"
        return made

    return make


def _logic(function: Callable[..., Torch], operands: int) -> Maker:
    def make(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
        return (_unary(function) if operands == 1 else _binary(function))(rng, op, "i1")

    return make


def _where(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    shape = random_shape(rng, rng.randint(1, 4))
    shapes = [shape] * 3
    if rng.random() < 0.5:
        other = tuple(1 if rng.random() < 0.5 else extent for extent in shape)
        shapes[rng.randrange(3)] = other[rng.randint(0, len(shape) - 1) :]
    dtypes = ["i1", dtype, dtype]
    arrays = [random_values(rng, s, d) for s, d in zip(shapes, dtypes, strict=True)]
    expected = torch.where(*(to_torch(a, d) for a, d in zip(arrays, dtypes, strict=True)))
    return Case(op, arrays, {}, expected.numpy(), dtype, dtypes=dtypes)


def _expand(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    shape = random_shape(rng, rng.randint(1, 4))
    given = tuple(1 if rng.random() < 0.5 else e for e in shape)[rng.randint(0, len(shape) - 1) :]
    x = random_values(rng, given, dtype)
    return Case(op, [x], {"shape": shape}, to_torch(x, dtype).expand(shape).numpy(), dtype)


def _celu(x: Torch, alpha: float) -> Torch:
    return F.celu(x, alpha)


def _swish(x: Torch, alpha: float) -> Torch:
    return x * torch.sigmoid(alpha * x)


def _thresholded_relu(x: Torch, alpha: float) -> Torch:
    return F.threshold(x, alpha, 0.0)


def _selu(x: Torch, alpha: float, gamma: float) -> Torch:
    return gamma * F.elu(x, alpha)


MAKERS: dict[type[nn.NNOp], Maker] = {
    nn.ReluOp: _unary(F.relu),
    nn.LeakyReluOp: _unary(_leaky_relu, alpha=[0.01, 0.5]),
    nn.EluOp: _unary(_elu, alpha=[1.0, 0.5]),
    nn.SigmoidOp: _unary(torch.sigmoid, -20, 20),
    nn.HardSigmoidOp: _unary(_hard_sigmoid, alpha=[0.2, 0.5], beta=[0.5, 0.1]),
    nn.HardSwishOp: _unary(F.hardswish, -6, 6),
    nn.SoftplusOp: _unary(F.softplus, -15, 15),
    nn.GeluOp: _unary(_gelu, approximate=["none", "tanh"]),
    nn.ClipOp: _unary(_clip, min=[-1.0, 0.0], max=[2.0, 6.0]),
    nn.MishOp: _unary(F.mish, -15, 15),
    nn.TanhOp: _unary(torch.tanh),
    nn.SinOp: _unary(torch.sin),
    nn.CosOp: _unary(torch.cos),
    nn.ExpOp: _unary(torch.exp),
    nn.LogOp: _unary(torch.log, 0.1, 9),
    nn.SqrtOp: _unary(torch.sqrt, 0, 9),
    nn.ErfOp: _unary(torch.erf),
    nn.NegOp: _unary(torch.neg),
    nn.AbsOp: _unary(torch.abs),
    nn.ReciprocalOp: _unary(torch.reciprocal, 0.2, 5),
    nn.FloorOp: _unary(torch.floor),
    nn.CeilOp: _unary(torch.ceil),
    nn.CastOp: _cast,
    nn.SignOp: _unary(torch.sign),
    nn.RoundOp: _unary(torch.round),
    nn.CeluOp: _unary(_celu, alpha=[1.0, 0.5]),
    nn.SeluOp: _unary(_selu, alpha=[1.67326319217681884765625, 0.5], gamma=[1.05070102214813232421875, 2.0]),
    nn.SwishOp: _unary(_swish, -9, 9, alpha=[1.0, 1.702]),
    nn.SoftsignOp: _unary(F.softsign),
    nn.ThresholdedReluOp: _unary(_thresholded_relu, alpha=[1.0, -0.5]),
    nn.NotOp: _logic(torch.logical_not, 1),
    nn.AndOp: _logic(torch.logical_and, 2),
    nn.OrOp: _logic(torch.logical_or, 2),
    nn.XorOp: _logic(torch.logical_xor, 2),
    nn.EqualOp: _comparison(torch.eq),
    nn.GreaterOp: _comparison(torch.gt),
    nn.GreaterOrEqualOp: _comparison(torch.ge),
    nn.LessOp: _comparison(torch.lt),
    nn.LessOrEqualOp: _comparison(torch.le),
    nn.WhereOp: _where,
    nn.ExpandOp: _expand,
    nn.AddOp: _binary(torch.add),
    nn.SubOp: _binary(torch.sub),
    nn.MulOp: _binary(torch.mul),
    nn.DivOp: _binary(_div, 0.5, 4),
    nn.PowOp: _binary(torch.pow, 0.2, 2),
    nn.PReluOp: _prelu,
    nn.MinOp: _binary(torch.minimum),
    nn.MaxOp: _binary(torch.maximum),
}
