"""NonMaxSuppression as ONNX defines it: of boxes that overlap, the one of the largest score.

A box is selected at a time, and all that overlap it are dropped at once. They are looked for among those whose sides
from left to right overlap: detectors shift the boxes of each class apart, so that of tens of thousands few are left.
Ratios are computed in f32, as boxes are.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError


def selected_boxes(
    boxes: Array,
    scores: Array,
    most: int,
    overlap: float,
    least_score: float | None,
    *,
    by_centers: bool = False,
) -> Array:
    """Rows of batch, class and box (n, 3), of each class by falling score, of equal ones the first box in front.

    `boxes` (batches, boxes, 4) have two opposite corners y, x, y, x, or with `by_centers` x, y, width, height; `scores`
    are (batches, classes, boxes). Per class `most` boxes at most are selected, none of which overlaps another by more
    than `overlap`, the ratio of intersection and union, and none whose score is not above `least_score`.
    """
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim != 3 or scores.shape[::2] != boxes.shape[:2]:
        raise LayoutError(f"boxes {boxes.shape} and scores {scores.shape} do not fit each other")
    found, limit = list[tuple[int, int, int]](), np.float32(overlap)
    for batch, (low, high) in enumerate(zip(*_corners(boxes, by_centers), strict=True)):
        by_left = np.argsort(low[:, 1], kind="stable")
        top, left = np.ascontiguousarray(low[by_left].T)
        bottom, right = np.ascontiguousarray(high[by_left].T)
        areas = (bottom - top) * (right - left)
        are_boxes = bool(
            np.isfinite(areas).all() and (areas > 0).all() and np.isfinite(2 * areas.max(initial=0))
        )
        # Boxes in front of `first` end before a box begins, those from `last` begin behind its end.
        ends = np.maximum.accumulate(np.where(np.isnan(right), -np.inf, right))
        first, last = _positions(ends, left, "right"), _positions(left, right, "left")
        places = np.argsort(by_left)
        for number, given in enumerate(scores[batch]):
            order = np.argsort(-given, kind="stable")
            if least_score is not None:
                order = order[given[order] > least_score]
            count = 0
            is_left = np.ones(len(given), np.bool_)
            best: int
            place: int
            for best, place in zip(order.tolist(), places[order].tolist(), strict=True):
                if count >= most:
                    break
                if not is_left[place]:
                    continue
                found.append((batch, number, best))
                count += 1
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
    return np.array(found, np.int64).reshape(-1, 3)


def _positions(ascending: Array, numbers: Array, side: Literal["left", "right"]) -> list[int]:
    """Where each number would stand among ascending ones, on this side of equal ones."""
    found: Any = np.searchsorted(ascending, numbers, side)
    return found.tolist()


def _corners(boxes: Array, by_centers: bool) -> tuple[Array, Array]:
    """The lower and the upper corners."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if by_centers:
        half = second / np.float32(2)
        return first - half, first + half
    return np.minimum(first, second), np.maximum(first, second)
