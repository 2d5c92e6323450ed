"""Products of matrices."""

from __future__ import annotations

from random import Random

from layout_ir.dialects import nn
from tests.backends.reference.catalog.cases import Case, Maker, random_shape, random_values
from tests.backends.reference.catalog.numbers import FLOAT_TYPES, to_torch, torch


def _matmul(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    m, k, n = (rng.randint(1, 9) for _ in range(3))
    batch = random_shape(rng, rng.randint(0, 2), 3)
    left, right = (*batch, m, k), (*(batch if rng.random() < 0.5 else batch[1:]), k, n)
    if rng.random() < 0.2:
        left = (k,)
    elif rng.random() < 0.2:
        right = (k,)
    arrays = [random_values(rng, left, dtype), random_values(rng, right, dtype)]
    return Case(op, arrays, {}, torch.matmul(*(to_torch(a, dtype) for a in arrays)).numpy(), dtype)


def _gemm(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    m, k, n = (rng.randint(1, 9) for _ in range(3))
    trans_a, trans_b = rng.random() < 0.5, rng.random() < 0.5
    shapes: list[tuple[int, ...]] = [(k, m) if trans_a else (m, k), (n, k) if trans_b else (k, n)]
    if rng.random() < 0.7:
        shapes.append(rng.choice([(m, n), (n,), (1, n), (m, 1), (1, 1), ()]))
    arrays = [random_values(rng, shape, dtype) for shape in shapes]
    alpha, beta = (rng.choice((1.0, -2.0, *([0.5] if dtype in FLOAT_TYPES else []))) for _ in range(2))
    a, b, *c = (to_torch(array, dtype).to(torch.float64) for array in arrays)
    expected = alpha * ((a.T if trans_a else a) @ (b.T if trans_b else b)) + (beta * c[0] if c else 0)
    attributes = {"alpha": alpha, "beta": beta, "trans_a": trans_a, "trans_b": trans_b}
    return Case(op, arrays, attributes, expected.numpy(), dtype)


MAKERS: dict[type[nn.NNOp], Maker] = {
    nn.MatmulOp: _matmul,
    nn.GemmOp: _gemm,
}
