"""Normalizations and softmax."""

from __future__ import annotations

from random import Random
from typing import Any

from layout_ir.dialects import nn
from tests.backends.reference.catalog.cases import Case, Maker, random_image, random_shape, random_values
from tests.backends.reference.catalog.numbers import F, to_torch, torch


def _batch_norm(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = random_values(rng, random_image(rng), dtype)
    arrays = [x, *(random_values(rng, x.shape[1:2], dtype, 0.5, 2) for _ in range(4))]
    epsilon = rng.choice((1e-5, 0.1))
    values, scale, bias, mean, var = (to_torch(a, dtype) for a in arrays)
    expected = F.batch_norm(values, mean, var, scale, bias, eps=epsilon)
    return Case(op, arrays, {"epsilon": epsilon}, expected.numpy(), dtype)


def _lrn(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = random_values(rng, (2, rng.randint(1, 13), *random_shape(rng, rng.randint(1, 2))), dtype)
    attributes: dict[str, Any] = {
        "size": rng.choice((3, 5)),
        "alpha": 0.3,
        "beta": 0.75,
        "bias": rng.choice((1.0, 2.0)),
    }
    values = to_torch(x, dtype)
    expected = F.local_response_norm(values, attributes["size"], 0.3, 0.75, attributes["bias"])
    return Case(op, [x], attributes, expected.numpy(), dtype)


def _softmax(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = random_values(rng, random_shape(rng, rng.randint(1, 4)), dtype)
    axis = rng.randrange(x.ndim)
    function = F.softmax if op is nn.SoftmaxOp else F.log_softmax
    return Case(op, [x], {"axis": axis}, function(to_torch(x, dtype), axis).numpy(), dtype)


def _axes_norm(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = random_values(rng, random_shape(rng, rng.randint(1, 4)), dtype)
    axes = tuple(sorted(rng.sample(range(x.ndim), rng.randint(1, x.ndim))))
    shapes = [
        tuple(e if rng.random() < 0.6 else 1 for e in x.shape)[rng.randint(0, x.ndim) :] for _ in range(2)
    ]
    arrays = [x, *(random_values(rng, shape, dtype, 0.5, 2) for shape in shapes[: rng.randint(1, 2)])]
    epsilon = rng.choice((1e-5, 0.1))
    values, scale, *bias = (to_torch(a, dtype) for a in arrays)
    if op is nn.LayerNormOp:
        values = values - values.mean(axes, keepdim=True)
    expected = values * torch.rsqrt((values**2).mean(axes, keepdim=True) + epsilon) * scale
    for addend in bias:
        expected = expected + addend
    return Case(op, arrays, {"axes": axes, "epsilon": epsilon}, expected.numpy(), dtype)


def _group_norm(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    groups = rng.choice((1, 2, 3, 4))
    x = random_values(rng, random_image(rng, groups * rng.randint(1, 4)), dtype)
    arrays = [x, *(random_values(rng, x.shape[1:2], dtype, 0.5, 2) for _ in range(2))]
    epsilon = rng.choice((1e-5, 0.1))
    values, scale, bias = (to_torch(a, dtype) for a in arrays)
    expected = F.group_norm(values, groups, scale, bias, epsilon)
    return Case(op, arrays, {"groups": groups, "epsilon": epsilon}, expected.numpy(), dtype)


MAKERS: dict[type[nn.NNOp], Maker] = {
    nn.BatchNormOp: _batch_norm,
    nn.GroupNormOp: _group_norm,
    nn.LayerNormOp: _axes_norm,
    nn.LrnOp: _lrn,
    nn.RmsNormOp: _axes_norm,
    nn.SoftmaxOp: _softmax,
    nn.LogSoftmaxOp: _softmax,
}
