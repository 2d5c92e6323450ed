"""A case: an op, its operands as stored elements, and what it must give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from layout_ir.dialects import nn
from tests.backends.reference.catalog.numbers import (
    INTEGER_TYPES,
    WIDE_UNSIGNED,
    Array,
    to_stored,
    torch,
)


@dataclass
class Case:
    """An op on `arrays` (stored elements); `expected` in double precision, or exact for integers."""

    op: type[nn.NNOp]
    arrays: list[Array]
    attributes: dict[str, Any]
    expected: Array
    dtype: str
    result_dtype: str = ""
    dtypes: list[str] = field(default_factory=list[str])

    def __post_init__(self):
        self.result_dtype = self.result_dtype or self.dtype
        self.dtypes = self.dtypes or [self.dtype] * len(self.arrays)


Maker = Callable[[Random, type[nn.NNOp], str], Case]
"""A random instance of an op on elements of a type."""


def random_values(
    rng: Random, shape: tuple[int, ...], dtype: str, low: float = -3.0, high: float = 3.0
) -> Array:
    if dtype in INTEGER_TYPES:
        ranges = {"i8": (-100, 100), "ui8": (0, 255), "i1": (0, 2), **dict.fromkeys(WIDE_UNSIGNED, (0, 1000))}
        low, high = ranges.get(dtype, (-1000, 1000))
        return to_stored(torch.randint(int(low), int(high), shape, generator=_generator(rng)), dtype)
    values = torch.rand(shape, generator=_generator(rng), dtype=torch.float64) * (high - low) + low
    return to_stored(values, dtype)


def _generator(rng: Random) -> Any:
    return torch.Generator().manual_seed(rng.getrandbits(40))


def random_shape(rng: Random, rank: int, most: int = 7) -> tuple[int, ...]:
    return tuple(rng.randint(1, most) for _ in range(rank))


def random_image(rng: Random, channels: int | None = None) -> tuple[int, ...]:
    spatial = rng.randint(1, 3)
    return (
        rng.randint(1, 2),
        channels or rng.randint(1, 13),
        *(rng.randint(3, (9, 8, 5)[spatial - 1]) for _ in range(spatial)),
    )
