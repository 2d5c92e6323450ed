"""Reductions over axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from layout_ir.dialects import nn
from tests.backends.reference.catalog.cases import Case, Maker, random_shape, random_values
from tests.backends.reference.catalog.numbers import INTEGER_TYPES, Torch, to_stored, to_torch, torch


def _reduce(function: Callable[[Torch, tuple[int, ...], bool], Torch], low: float = -3.0) -> Maker:
    def make(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
        shape = random_shape(rng, rng.randint(1, 4))
        x = random_values(rng, shape, dtype, low)
        axes = tuple(sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape)))))
        keepdims = rng.random() < 0.5
        attributes = {"axes": axes, "keepdims": keepdims}
        values = function(to_torch(x, dtype), axes, keepdims)
        # PyTorch adds up integers in 64 bits.
        expected = to_torch(to_stored(values, dtype), dtype) if dtype in INTEGER_TYPES else values
        return Case(op, [x], attributes, expected.numpy(), dtype)

    return make


def _mean(x: Torch, axes: tuple[int, ...], keepdims: bool) -> Torch:
    if x.is_floating_point():
        return x.mean(axes, keepdim=keepdims)
    count = math.prod(x.shape[axis] for axis in axes)
    return torch.div(x.sum(axes, keepdim=keepdims), count, rounding_mode="trunc")


def _prod(x: Torch, axes: tuple[int, ...], keepdims: bool) -> Torch:
    for axis in reversed(axes):
        x = x.prod(axis, keepdim=keepdims)
    return x


def _cum_sum(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = random_values(rng, random_shape(rng, rng.randint(1, 4)), dtype)
    axis, exclusive, reverse = rng.randrange(x.ndim), rng.random() < 0.5, rng.random() < 0.5
    values = to_torch(x, dtype)
    sums = values.flip(axis).cumsum(axis).flip(axis) if reverse else values.cumsum(axis)
    expected = to_torch(to_stored(sums, dtype), dtype) if dtype in INTEGER_TYPES else sums
    attributes = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    return Case(op, [x], attributes, (expected - values if exclusive else expected).numpy(), dtype)


MAKERS: dict[type[nn.NNOp], Maker] = {
    nn.ReduceL1Op: _reduce(lambda x, axes, keepdims: x.abs().sum(axes, keepdim=keepdims)),
    nn.ReduceL2Op: _reduce(lambda x, axes, keepdims: torch.linalg.vector_norm(x, 2, axes, keepdim=keepdims)),
    nn.ReduceLogSumExpOp: _reduce(lambda x, axes, keepdims: x.logsumexp(axes, keepdim=keepdims)),
    nn.ReduceLogSumOp: _reduce(lambda x, axes, keepdims: x.sum(axes, keepdim=keepdims).log(), 0.1),
    nn.ReduceSumSquareOp: _reduce(lambda x, axes, keepdims: (x * x).sum(axes, keepdim=keepdims)),
    nn.CumSumOp: _cum_sum,
    nn.ReduceSumOp: _reduce(lambda x, axes, keepdims: x.sum(axes, keepdim=keepdims)),
    nn.ReduceMeanOp: _reduce(_mean),
    nn.ReduceProdOp: _reduce(_prod),
    nn.ReduceMaxOp: _reduce(lambda x, axes, keepdims: x.amax(axes, keepdim=keepdims)),
    nn.ReduceMinOp: _reduce(lambda x, axes, keepdims: x.amin(axes, keepdim=keepdims)),
}
