"""How much longer ONNX Runtime's Transpose takes by the dims that it moves."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import prod

from layout_ir.passes.onnx.orders import Order, Shape, identity, transposition
from layout_ir.passes.onnx.value_shapes import UNKNOWN_EXTENT

ELEMENT_NS = 3
"""The nanoseconds that an element takes which is moved by itself, above what it takes in a run."""
_ROW_NS = 9
"""The nanoseconds that a row takes which is copied by itself: of dims at the end that stay there."""
_LONG_ROW = 16
"""The elements of a row that takes no longer than as many elements in a run."""


def counted_shape(shape: Shape) -> tuple[int, ...]:
    """A shape with the extents for which times are compared."""
    return tuple([n if isinstance(n, int) else UNKNOWN_EXTENT for n in shape])


@lru_cache(maxsize=1 << 14)
def ns_by_element(source: Order, target: Order, extents: tuple[int, ...]) -> int:
    """The nanoseconds that the Transpose of a tensor from one order to another takes because it moves elements, or
    short rows, by themselves.

    The kernel (1.32, f32) takes 0.2 to 0.7 ns an element where one dim, or several side by side, come from one place to
    another, and 3.4 to 3.9 where all else moves, dims of one element counted. Where the last dims stay, it copies rows.
    """
    if source == target:
        return 0
    perm = transposition(source, target)
    elements = prod(extents)
    kept = 0
    while perm[-1 - kept] == len(perm) - 1 - kept:
        kept += 1
    row = prod([extents[dim] for dim in source[len(perm) - kept :]])
    if row > 1:
        return min(ELEMENT_NS * elements, _ROW_NS * elements // row) if row < _LONG_ROW else 0
    return 0 if _moves_one_run(perm) else ELEMENT_NS * elements


def ns_for_units(source: Order, target: Order, extents: tuple[int, ...]) -> int:
    """How much of that a Transpose takes because of where dims of one element lie."""
    if 1 not in extents:
        return 0
    kept = [dim for dim in source if extents[dim] != 1]
    place = {dim: k for k, dim in enumerate(kept)}
    bare = tuple([place[dim] for dim in target if dim in place])
    without = ns_by_element(identity(len(kept)), bare, tuple([extents[dim] for dim in kept]))
    return max(ns_by_element(source, target, extents) - without, 0)


@lru_cache(maxsize=4096)
def _moves_one_run(perm: Order) -> bool:
    """Whether all dims keep their order but for some side by side, which come elsewhere together."""
    runs = [perm[0], *(dim for before, dim in pairwise(perm) if dim != before + 1)]
    """The first dims of what stays side by side."""
    in_order = sorted(runs)
    return any(
        [each for each in runs if each != run] == [each for each in in_order if each != run] for run in runs
    )
