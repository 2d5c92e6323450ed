"""Random formats for tensors of given shapes: plain, permuted, blocked with tails, chunked, with holes and halos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from tests.layouts import LETTERS, random_format

Shape = tuple[int, ...]


def roomy_format(rng: Random, shapes: Sequence[Shape]) -> Format:
    """A recipe, policy undef, under which no two positions of the padded box of any of `shapes` share an address."""
    rank = len(shapes[0])
    if rng.random() < 0.15:
        return Format.row_major(LETTERS[:rank])
    most = tuple(map(max, zip(*shapes, strict=True)))
    format = random_format(rng, rank, halo=True, chunked=True, blocks=(2, 3, 4, 8)).with_pad("undef")
    if rng.random() < 0.4 and not format.chunk_factors:
        format = _with_holes(rng, format, format.bind(most))
    if rng.random() < 0.2:
        format = replace(format, offset=format.offset + rng.randint(1, 5))
    if rng.random() < 0.2:
        format = replace(format, size=format.bind(most).extent + rng.randint(0, 9))
    if rng.random() < 0.1:
        format = replace(format, swizzle=(2, rng.randint(0, 1), 3))
    return format


def _with_holes(rng: Random, format: Format, most: Layout) -> Format:
    """`format` with strides that leave gaps, some of them negative, for extents up to those of `most`."""
    factors = list(format.factors)
    running, offset = 1, 0
    for k in reversed(range(len(factors))):
        count = most.factors[k].count
        stride = running + rng.choice((0, 0, 1, 3))
        running = stride * max(count, 1)
        if rng.random() < 0.2:
            # The highest position of the largest tensor comes first in memory.
            offset += stride * (max(count, 1) - 1)
            stride = -stride
        factors[k] = replace(factors[k], stride=stride)
    return replace(format, factors=tuple(factors), offset=offset)
