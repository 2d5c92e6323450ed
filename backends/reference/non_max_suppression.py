"""NonMaxSuppression as ONNX defines it: of boxes that overlap, the one of the largest score.

A box is selected at a time, and all that overlap it are dropped at once. Ratios are computed in f32, as boxes are.
"""

from __future__ import annotations

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
    found: list[tuple[int, int, int]] = []
    for batch, (low, high) in enumerate(zip(*_corners(boxes, by_centers), strict=True)):
        areas = np.prod(high - low, axis=1)
        for number, given in enumerate(scores[batch]):
            order = np.argsort(-given, kind="stable")
            if least_score is not None:
                order = order[given[order] > least_score]
            count = 0
            while len(order) and count < most:
                best, order = order[0], order[1:]
                found.append((batch, number, int(best)))
                count += 1
                shared = np.minimum(high[order], high[best]) - np.maximum(low[order], low[best])
                intersection = np.prod(np.maximum(shared, 0), axis=1)
                union = areas[order] + areas[best] - intersection
                is_over = (intersection > 0) & (areas[order] > 0) & (areas[best] > 0) & (union > 0)
                ratio = np.divide(intersection, union, out=np.zeros_like(union), where=is_over)
                order = order[~(ratio > np.float32(overlap))]
    return np.array(found, np.int64).reshape(-1, 3)


def _corners(boxes: Array, by_centers: bool) -> tuple[Array, Array]:
    """The lower and the upper corners."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if by_centers:
        half = second / np.float32(2)
        return first - half, first + half
    return np.minimum(first, second), np.maximum(first, second)
