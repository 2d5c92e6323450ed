"""Resize and Upsample on the places for which there are kernels, as ONNX Runtime has them."""

from __future__ import annotations

from itertools import permutations, product
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from tests.passes.onnx.optimized import Feeds, check_optimized, initializer, model_of, transpose, value
from tests.seeds import seeds

ORDERS = list(permutations(range(4)))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("given", ["scales", "sizes", "axes"])
def test_pictures_are_resized_where_their_channels_are(given: str, last: bool):
    order, back = ((0, 2, 3, 1), (0, 3, 1, 2)) if last else ((0, 3, 1, 2), (0, 2, 3, 1))
    shape, result = ((2, 3, 5, 4), (2, 3, 10, 12)) if last else ((2, 5, 4, 3), (2, 10, 12, 3))
    space = [1, 2] if last else [2, 3]
    inner = [2, 5, 4, 3] if last else [2, 3, 5, 4]
    said: dict[str, Any] = {"axes": space} if given == "axes" else {}
    dims = space if given == "axes" else range(4)
    factors = [{space[0]: 2.0, space[1]: 3.0}.get(dim, 1.0) for dim in dims]
    if given == "sizes":
        constant, names = (
            initializer("s", [int(f * e) for f, e in zip(factors, inner, strict=True)]),
            ["a", "", "", "s"],
        )
    else:
        constant, names = initializer("s", factors), ["a", "", "s"]
    nodes = [
        transpose("x", "a", *order),
        oh.make_node("Resize", names, ["b"], mode="linear", **said),
        transpose("b", "y", *back),
    ]
    model = model_of(nodes, [value("x", *shape)], [value("y", *result)], [constant])
    assert check_optimized(model).after.count == 0


@pytest.mark.parametrize(
    ("mode", "factors"), [("cubic", [1.0, 1.0, 2.0, 2.0]), ("linear", [1.0, 2.0, 2.0, 1.0])]
)
def test_negative_other_resizes_stay_where_they_are(mode: str, factors: list[float]):
    nodes = [
        transpose("x", "a", 0, 3, 1, 2),
        oh.make_node("Resize", ["a", "", "s"], ["b"], mode=mode),
        transpose("b", "y", 0, 2, 3, 1),
    ]
    shape = [int(f * e) for f, e in zip(factors, (2, 3, 5, 4), strict=True)]
    result = [shape[dim] for dim in (0, 2, 3, 1)]
    model = model_of(nodes, [value("x", 2, 5, 4, 3)], [value("y", *result)], [initializer("s", factors)])
    assert check_optimized(model).after.count > 0


def resized_between(
    before: tuple[int, ...], after: tuple[int, ...], last: bool, **said: Any
) -> onnx.ModelProto:
    """A Resize of two dims by 2 and 3, of a picture with its channels `last` or second, between two Transposes."""
    factors = [1.0, 2.0, 3.0, 1.0] if last else [1.0, 1.0, 2.0, 3.0]
    result = (2, 6, 12, 5) if last else (2, 3, 8, 15)
    extents = [(2, 3, 4, 5)[before.index(dim)] for dim in range(4)]
    nodes = [
        transpose("x", "a", *before),
        oh.make_node("Resize", ["a", "", "s"], ["b"], mode="linear", **said),
        transpose("b", "y", *after),
    ]
    output = value("y", *(result[dim] for dim in after))
    return model_of(nodes, [value("x", *extents)], [output], [initializer("s", factors)])


@pytest.mark.parametrize("group", seeds(2, 32))
def test_places_that_have_kernels_are_found_whatever_place_a_model_has(group: int):
    cases = Random(0).sample(list(product(ORDERS, ORDERS, (False, True))), 640)
    for before, after, last in cases[20 * group : 20 * group + 20]:
        check_optimized(resized_between(before, after, last))


def test_batch_and_channels_may_change_places():
    model = resized_between((1, 0, 2, 3), (1, 0, 2, 3), False)
    assert check_optimized(model).after.count == 0


def test_negative_antialiased_pictures_keep_their_places():
    model = resized_between((0, 3, 1, 2), (0, 2, 3, 1), False, antialias=1)
    assert check_optimized(model).after.count == 2


@pytest.mark.parametrize(
    ("mode", "order", "back", "opset"),
    [
        ("linear", (3, 2, 0, 1), (2, 3, 1, 0), 17),
        ("linear", (0, 3, 1, 2), (0, 2, 3, 1), 10),
        ("linear", (0, 4, 1, 2, 3), (0, 2, 3, 4, 1), 17),
        ("cubic", (0, 3, 1, 2), (0, 2, 3, 1), 17),
    ],
)
def test_negative_where_scales_are_computed_dims_stay(
    mode: str, order: tuple[int, ...], back: tuple[int, ...], opset: int
):
    """No kernel resizes whichever dims it is told to."""
    rank = len(order)
    nodes = [
        transpose("x", "a", *order),
        oh.make_node("Resize", ["a", "s"] if opset == 10 else ["a", "", "s"], ["b"], mode=mode),
        transpose("b", "y", *back),
    ]
    inputs = [value("x", *(8, 6, 4, 2, 3)[:rank]), value("s", rank)]
    model = model_of(nodes, inputs, [value("y", *"abcde"[:rank])], opset=opset)
    scales = np.array([1, 1] + [0.5] * (rank - 2), np.float32)
    extents = (8, 6, 4, 2, 3)[:rank]
    feeds: Feeds = {"x": np.random.default_rng(0).standard_normal(extents).astype(np.float32), "s": scales}
    for target in ("onnx", "ort-cpu"):
        assert check_optimized(model, feeds, target).after.count == 2
