"""Ops that choose elements by numbers, or compute such numbers."""

from __future__ import annotations

from random import Random

import numpy as np

from layout_ir.dialects import nn
from tests.backends.reference.catalog.cases import Case, Maker, random_shape, random_values
from tests.backends.reference.catalog.numbers import Array, to_numbers, to_stored, to_torch, torch


def _gather(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = random_values(rng, random_shape(rng, rng.randint(1, 4)), dtype)
    axis, shape = rng.randrange(x.ndim), random_shape(rng, rng.randint(0, 2), 4)
    extent, kind = x.shape[axis], rng.choice(("i32", "i64"))
    numbers = np.array(
        [rng.randrange(-extent, extent) for _ in range(int(np.prod(shape)))], np.int64
    ).reshape(shape)
    indices = to_stored(torch.tensor(numbers), kind)
    expected = np.take(to_numbers(x, dtype), numbers, axis=axis)
    return Case(op, [x, indices], {"axis": axis}, np.asarray(expected), dtype, dtypes=[dtype, kind])


def _arg_reduce(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    """Of few numbers, so that there are several largest ones."""
    x = random_values(rng, random_shape(rng, rng.randint(1, 4)), dtype)
    x = to_stored(to_torch(x, dtype).to(torch.float64).round() % 3, dtype)
    axis, keepdims, last = rng.randrange(x.ndim), rng.random() < 0.5, rng.random() < 0.5
    values = to_torch(x, dtype).numpy()
    best = (values.max if op is nn.ArgMaxOp else values.min)(axis=axis, keepdims=True)
    hits = np.moveaxis(values == best, axis, -1)
    places = [np.flatnonzero(row)[-1 if last else 0] for row in hits.reshape(-1, x.shape[axis])]
    expected: Array = np.array(places, np.int64).reshape(hits.shape[:-1])
    expected = np.expand_dims(expected, axis) if keepdims else expected
    attributes = {"axis": axis, "keepdims": keepdims, "select_last": last}
    return Case(op, [x], attributes, expected, dtype, result_dtype="i64")


MAKERS: dict[type[nn.NNOp], Maker] = {
    nn.GatherOp: _gather,
    nn.ArgMaxOp: _arg_reduce,
    nn.ArgMinOp: _arg_reduce,
}
