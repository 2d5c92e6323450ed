"""Ops that move elements: concatenation, padding, slices, resizing."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from layout_ir.dialects import nn
from tests.backends.reference.catalog.cases import Case, Maker, random_shape, random_values
from tests.backends.reference.catalog.numbers import FLOAT_TYPES, Array, F, to_numbers, to_torch, torch


def _concat(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    shape = list(random_shape(rng, rng.randint(1, 4)))
    axis = rng.randrange(len(shape))
    arrays: list[Array] = []
    for _ in range(rng.randint(1, 3)):
        shape[axis] = rng.randint(1, 7)
        arrays.append(random_values(rng, tuple(shape), dtype))
    return Case(
        op, arrays, {"axis": axis}, torch.cat([to_torch(a, dtype) for a in arrays], axis).numpy(), dtype
    )


def _pad(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    mode = rng.choice(("constant", "reflect", "edge", "wrap"))
    x = random_values(rng, tuple(e + 2 for e in random_shape(rng, rng.randint(1, 4), 4)), dtype)
    attributes: dict[str, Any] = {"pads": tuple(rng.randint(0, 2) for _ in range(2 * x.ndim)), "mode": mode}
    borders = [(attributes["pads"][d], attributes["pads"][x.ndim + d]) for d in range(x.ndim)]
    values = to_numbers(x, dtype)
    if mode == "constant":
        attributes["value"] = 5.0 if dtype != "i1" else 1.0
        expected = np.pad(values, borders, constant_values=attributes["value"])
        if rng.random() < 0.5:
            # One border is taken away instead.
            dim = rng.randrange(x.ndim)
            attributes["pads"] = tuple(-1 if d == dim else p for d, p in enumerate(attributes["pads"]))
            expected = np.delete(expected, range(borders[dim][0] + 1), dim)
    else:
        expected = np.pad(values, borders, mode=mode)
    return Case(op, [x], attributes, expected, dtype)


def _slice(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = random_values(rng, random_shape(rng, rng.randint(1, 4)), dtype)
    starts, sizes, steps = list[int](), list[int](), list[int]()
    for extent in x.shape:
        start, step = rng.randrange(extent), rng.choice((-3, -1, 1, 1, 2))
        most = len(range(start, extent, step) if step > 0 else range(start, -1, step))
        starts, sizes, steps = [*starts, start], [*sizes, rng.randint(1, most)], [*steps, step]
    picks = [[a + k * s for k in range(n)] for a, n, s in zip(starts, sizes, steps, strict=True)]
    expected = to_numbers(x, dtype)[np.ix_(*picks)]
    return Case(
        op, [x], {"starts": tuple(starts), "sizes": tuple(sizes), "steps": tuple(steps)}, expected, dtype
    )


def _tile(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = random_values(rng, random_shape(rng, rng.randint(1, 4), 5), dtype)
    repeats = tuple(rng.choice((1, 1, 2, 3)) for _ in x.shape)
    return Case(op, [x], {"repeats": repeats}, to_torch(x, dtype).repeat(repeats).numpy(), dtype)


def _resize(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = random_values(rng, (rng.randint(1, 2), rng.randint(1, 9), *random_shape(rng, 2)), dtype)
    sizes = tuple(rng.randint(1, 11) for _ in range(2))
    attributes: dict[str, Any] = {"sizes": (*x.shape[:2], *sizes)}
    values = to_torch(x, dtype).to(torch.float64)
    # Integers are cut off, and a sum that is whole but for rounding would fall on either side.
    match rng.randrange(4) if dtype in FLOAT_TYPES else rng.randrange(2, 4):
        case 0:
            attributes |= {"mode": "linear", "coordinates": "pytorch_half_pixel"}
            # PyTorch treats an extent of 1 as half_pixel does, which clamps to the same element unless it shrinks to 1.
            if 1 in sizes:
                attributes["coordinates"] = "half_pixel"
            expected = F.interpolate(values, sizes, mode="bilinear", align_corners=False)
        case 1:
            attributes |= {"mode": "linear", "coordinates": "align_corners"}
            expected = F.interpolate(values, sizes, mode="bilinear", align_corners=True)
        case 2:
            attributes |= {"mode": "nearest", "coordinates": "asymmetric", "nearest_mode": "floor"}
            expected = F.interpolate(values, sizes, mode="nearest")
        case _:
            factors = tuple(rng.choice((1, 2, 3)) for _ in range(2))
            attributes = {"scales": (1.0, 1.0, *map(float, factors)), "mode": "nearest"}
            expected = values.repeat_interleave(factors[0], 2).repeat_interleave(factors[1], 3)
    return Case(op, [x], attributes, expected.numpy(), dtype)


MAKERS: dict[type[nn.NNOp], Maker] = {
    nn.ConcatOp: _concat,
    nn.PadOp: _pad,
    nn.SliceOp: _slice,
    nn.TileOp: _tile,
    nn.ResizeOp: _resize,
}
