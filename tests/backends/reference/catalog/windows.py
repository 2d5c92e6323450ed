"""Convolutions and pools."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from layout_ir.dialects import nn
from tests.backends.reference.catalog.cases import Case, Maker, random_image, random_values
from tests.backends.reference.catalog.numbers import Array, F, to_numbers, to_torch


def _conv(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    group = rng.choice((1, 1, 2, 3))
    depth = rng.randint(1, 9)
    x = random_image(rng, group * depth)
    rank = len(x) - 2
    kernel = tuple(rng.randint(1, 3) for _ in range(rank))
    attributes = _windows(rng, x[2:], kernel)
    arrays = [
        random_values(rng, x, dtype),
        random_values(rng, (group * rng.randint(1, 6), depth, *kernel), dtype),
    ]
    if rng.random() < 0.5:
        arrays.append(random_values(rng, arrays[1].shape[:1], dtype))
    tensors = [to_torch(a, dtype) for a in arrays]
    padded = F.pad(tensors[0], _torch_pads(attributes["pads"]))
    function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    bias = tensors[2] if len(tensors) > 2 else None
    expected = function(padded, tensors[1], bias, attributes["strides"], 0, attributes["dilations"], group)
    return Case(op, arrays, {**attributes, "group": group}, expected.numpy(), dtype)


def _windows(rng: Random, extents: tuple[int, ...], kernel: tuple[int, ...]) -> dict[str, Any]:
    """Strides, pads and dilations with which the kernel fits; pads stay below the kernel."""
    dilations = tuple(
        rng.choice((1, 1, 2)) if (k - 1) * 2 < e else 1 for k, e in zip(kernel, extents, strict=True)
    )
    return {
        "strides": tuple(rng.randint(1, 3) for _ in kernel),
        "pads": tuple(rng.randint(0, k - 1) for k in kernel * 2),
        "dilations": dilations,
    }


def _torch_pads(pads: tuple[int, ...]) -> list[int]:
    """The last dim first, begin and end of each."""
    rank = len(pads) // 2
    return [p for d in reversed(range(rank)) for p in (pads[d], pads[rank + d])]


def _conv_transpose(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    group = rng.choice((1, 1, 2, 3))
    x = random_image(rng, group * rng.randint(1, 4))
    rank = len(x) - 2
    kernel = tuple(rng.randint(1, 3) for _ in range(rank))
    strides, dilations = (tuple(rng.choice((1, 2, 3)) for _ in range(rank)) for _ in range(2))
    begins = tuple(rng.randint(0, (k - 1) * d) for k, d in zip(kernel, dilations, strict=True))
    more = tuple(rng.randrange(max(s, d)) for s, d in zip(strides, dilations, strict=True))
    arrays = [random_values(rng, x, dtype), random_values(rng, (x[1], rng.randint(1, 4), *kernel), dtype)]
    if rng.random() < 0.5:
        arrays.append(random_values(rng, (arrays[1].shape[1] * group,), dtype))
    tensors = [to_torch(a, dtype) for a in arrays]
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    bias = tensors[2] if len(tensors) > 2 else None
    expected = function(tensors[0], tensors[1], bias, strides, begins, more, group, dilations)
    attributes = {
        "strides": strides, "dilations": dilations, "pads": (*begins, *begins), "output_padding": more, "group": group,
    }  # fmt: skip
    return Case(op, arrays, attributes, expected.numpy(), dtype)


def _pool(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = random_values(rng, random_image(rng), dtype)
    kernel = tuple(rng.randint(1, 3) for _ in x.shape[2:])
    attributes: dict[str, Any] = {
        "kernel": kernel,
        **_windows(rng, x.shape[2:], kernel),
        "ceil_mode": rng.random() < 0.5,
    }
    if op is nn.AvgPoolOp:
        attributes["count_include_pad"] = rng.random() < 0.5
    return Case(
        op, [x], attributes, pool_by_definition(to_numbers(x, dtype), op is nn.MaxPoolOp, **attributes), dtype
    )


def pool_by_definition(
    x: Array, is_max: bool, kernel: tuple[int, ...], strides: tuple[int, ...], pads: tuple[int, ...],
    dilations: tuple[int, ...], ceil_mode: bool, count_include_pad: bool = False,
) -> Array:  # fmt: skip
    """Every window as the set of its positions, one at a time."""
    rank = len(kernel)
    counts: list[int] = []
    for d in range(rank):
        room = x.shape[2 + d] + pads[d] + pads[rank + d] - (kernel[d] - 1) * dilations[d] - 1
        count = (-(-room // strides[d]) if ceil_mode else room // strides[d]) + 1
        # A window that would begin behind the elements and the pads in front of them does not count.
        count -= ceil_mode and (count - 1) * strides[d] >= x.shape[2 + d] + pads[d]
        counts.append(count)
    result = np.zeros((*x.shape[:2], *counts))
    for place in np.ndindex(*counts):
        taken: list[Array] = []
        zeros = 0
        for tap in np.ndindex(*kernel):
            at = [
                p * s + t * dil - pads[d]
                for d, (p, s, t, dil) in enumerate(zip(place, strides, tap, dilations, strict=True))
            ]
            if all(0 <= a < e for a, e in zip(at, x.shape[2:], strict=True)):
                taken.append(x[(slice(None), slice(None), *at)])
            elif all(-pads[d] <= a < x.shape[2 + d] + pads[rank + d] for d, a in enumerate(at)):
                zeros += count_include_pad
        where = (slice(None), slice(None), *place)
        result[where] = np.max(taken, axis=0) if is_max else np.sum(taken, axis=0) / (len(taken) + zeros)
    return result


def _global_pool(rng: Random, op: type[nn.NNOp], dtype: str) -> Case:
    x = random_values(rng, random_image(rng), dtype)
    values, axes = to_torch(x, dtype), tuple(range(2, x.ndim))
    expected = (
        values.mean(axes, keepdim=True) if op is nn.GlobalAvgPoolOp else values.amax(axes, keepdim=True)
    )
    return Case(op, [x], {}, expected.numpy(), dtype)


MAKERS: dict[type[nn.NNOp], Maker] = {
    nn.ConvOp: _conv,
    nn.ConvTransposeOp: _conv_transpose,
    nn.MaxPoolOp: _pool,
    nn.AvgPoolOp: _pool,
    nn.GlobalAvgPoolOp: _global_pool,
    nn.GlobalMaxPoolOp: _global_pool,
}
