"""NonMaxSuppression as ONNX defines it: of boxes that overlap, the one of the largest score.

A box is selected at a time, and all that overlap it are dropped at once. They are looked for among those whose sides
from left to right overlap: detectors shift the boxes of each class apart, so that of tens of thousands few are left.
Ratios are computed in f32, as boxes are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError


@dataclass(frozen=True, eq=False)
class SortedBoxes:
    """Boxes from the one with the leftmost left side on: the lower and upper corners (f32), and their areas."""

    top: Array
    left: Array
    bottom: Array
    right: Array
    areas: Array
    first: Array
    """Per box (i64): those in front of this one end before it begins."""
    last: Array
    """Per box (i64): those from this one on begin behind its end."""


Selection = Callable[[SortedBoxes, Array, int, np.float32], Array]
"""Which of the candidates (i64, numbers of sorted boxes, by falling score) are selected, as their numbers among these:
as many at most, none of which overlaps another one by more than the limit."""


def selected_boxes(
    boxes: Array,
    scores: Array,
    most: int,
    overlap: float,
    least_score: float | None,
    *,
    by_centers: bool = False,
    selection: Selection | None = None,
) -> Array:
    """Rows of batch, class and box (n, 3), of each class by falling score, of equal ones the first box in front.

    `boxes` (batches, boxes, 4) have two opposite corners y, x, y, x, or with `by_centers` x, y, width, height; `scores`
    are (batches, classes, boxes). Per class `most` boxes at most are selected, none of which overlaps another by more
    than `overlap`, the ratio of intersection and union, and none whose score is not above `least_score`.
    """
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim != 3 or scores.shape[::2] != boxes.shape[:2]:
        raise LayoutError(f"boxes {boxes.shape} and scores {scores.shape} do not fit each other")
    found, limit = [np.empty((0, 3), np.int64)], np.float32(overlap)
    select = selection or _selected
    for batch, (low, high) in enumerate(zip(*_corners(boxes, by_centers), strict=True)):
        by_left = np.argsort(low[:, 1], kind="stable")
        places = np.empty_like(by_left)
        places[by_left] = np.arange(len(by_left))
        of_left = _sorted_boxes(low[by_left], high[by_left])
        for number, given in enumerate(scores[batch]):
            above = np.arange(len(given)) if least_score is None else np.flatnonzero(given > least_score)
            order = above[np.argsort(-given[above], kind="stable")]
            if most > 0 and len(order):
                best = order[select(of_left, places[order], most, limit)]
                rows = np.broadcast_to(np.array([batch, number, 0], np.int64), (len(best), 3)).copy()
                rows[:, 2] = best
                found.append(rows)
    return np.concatenate(found)


def _sorted_boxes(low: Array, high: Array) -> SortedBoxes:
    """The boxes of lower and upper corners y, x, in the order in which they are to lie."""
    (top, left), (bottom, right) = (np.ascontiguousarray(corner.T, np.float32) for corner in (low, high))
    ends = np.maximum.accumulate(np.where(np.isnan(right), -np.inf, right))
    areas = (bottom - top) * (right - left)
    first, last = _positions(ends, left, "right"), _positions(left, right, "left")
    return SortedBoxes(top, left, bottom, right, areas, first, last)


def _positions(ascending: Array, numbers: Array, side: Literal["left", "right"]) -> Array:
    """Where each number would stand among ascending ones (i64), on this side of equal ones."""
    found: Any = np.searchsorted(ascending, numbers, side)
    return np.asarray(found, np.int64)


def _selected(boxes: SortedBoxes, candidates: Array, most: int, limit: np.float32) -> Array:
    """`Selection` by NumPy."""
    top, left, bottom, right, areas = boxes.top, boxes.left, boxes.bottom, boxes.right, boxes.areas
    first, last = boxes.first.tolist(), boxes.last.tolist()
    are_boxes = bool(np.isfinite(areas).all() and (areas > 0).all() and np.isfinite(2 * areas.max(initial=0)))
    is_left = np.ones(len(areas), np.bool_)
    found = list[int]()
    place: int
    for number, place in enumerate(candidates.tolist()):
        if len(found) >= most:
            break
        if not is_left[place]:
            continue
        found.append(number)
        begin, end = first[place], last[place]
        if end - begin < 2:
            continue  # no other box begins where this one is
        near = slice(begin, end)
        width = np.minimum(right[near], right[place]) - np.maximum(left[near], left[place])
        height = np.minimum(bottom[near], bottom[place]) - np.maximum(top[near], top[place])
        intersection = np.maximum(height, 0) * np.maximum(width, 0)
        union = areas[near] + areas[place] - intersection
        if are_boxes:
            ratio = intersection / union
        else:
            is_over = (intersection > 0) & (areas[near] > 0) & (areas[place] > 0) & (union > 0)
            ratio = np.divide(intersection, union, out=np.zeros_like(union), where=is_over)
        is_left[near] &= ~(ratio > limit)
    return np.array(found, np.int64)


def _corners(boxes: Array, by_centers: bool) -> tuple[Array, Array]:
    """The lower and the upper corners."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if by_centers:
        half = second / np.float32(2)
        return first - half, first + half
    return np.minimum(first, second), np.maximum(first, second)
