"""Where a part of a tensor lies, seen as a tensor of its own: the ground on which joins and splits move nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError


def part_offset(whole: Layout, part: Layout, starts: Sequence[int]) -> int | None:
    """By how many elements the part of `whole` that begins at `starts` lies behind a tensor of layout `part`.

    None where its elements do not lie like those of such a tensor, or one of both has pads.
    """
    return _part_offset(whole, part, tuple(starts))


@lru_cache(maxsize=16384)  # placement and prices ask the same of each operand of a concat some ten times
def _part_offset(whole: Layout, part: Layout, starts: tuple[int, ...]) -> int | None:
    if whole.is_padded or part.is_padded or not part.nelems:
        return None
    try:
        seen = whole.slice(starts, part.shape)
    except LayoutError:
        return None
    same = replace(seen, offset=0).same_map(replace(part, offset=0))
    return seen.offset - part.offset if same else None
