"""Pictures of the Formats of a graph, each of a small tensor in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import prod

from layout_ir.algebra.layout import Layout
from layout_ir.drawing.compose import compose
from layout_ir.drawing.svg import to_svg
from layout_ir.errors import LayoutError

PICTURES = 40
"""Formats that get a picture: the most frequent ones. A picture has 50 to 200 kB."""

Use = tuple[str, Sequence[int], Callable[[], Layout]]
"""A tensor: the text of its Format, its shape, and its Layout, which is asked for where it is drawn."""


def format_pictures(uses: Iterable[Use]) -> dict[str, str]:
    """For each text of a Format, an SVG of a small tensor in it.

    It is the smallest of those in which most dims have more than one index: the others hide what the Format does.
    """
    found: dict[str, tuple[tuple[int, int], Layout]] = {}
    counts = Counter[str]()
    for text, shape, layout in uses:
        counts[text] += 1
        rank = (-sum(extent > 1 for extent in shape), prod(shape))
        if text not in found or rank < found[text][0]:
            with suppress(LayoutError):  # a Format that does not fit the shape has no memory to draw
                found[text] = rank, layout()
    chosen = [text for text, _ in counts.most_common() if text in found][:PICTURES]
    return {text: to_svg(compose(found[text][1], text, rows=24)) for text in chosen}
