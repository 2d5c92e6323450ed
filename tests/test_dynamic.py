"""Open extents: symbolic answers, checked against every concrete extent they speak of."""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np
import pytest

from layout_ir.dynamic import Same, loop_units, reshape, same_map, slice_
from layout_ir.errors import LayoutError
from layout_ir.format import Format
from layout_ir.refinement import refine
from tests.layouts import random_format

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 33)


def _closed(shape: tuple[int | None, ...], values: tuple[int, ...]) -> list[int]:
    rest = iter(values)
    return [next(rest) if x is None else x for x in shape]


def _assignments(shape: tuple[int | None, ...]) -> list[list[int]]:
    count = sum(x is None for x in shape)
    return [_closed(shape, values) for values in itertools.product(EXTENTS, repeat=count)]


def _shape(rng: Random) -> tuple[int | None, ...]:
    shape: list[int | None] = [rng.choice((None, 1, 2, 8, 6)) for _ in range(3)]
    if shape.count(None) > 2 or None not in shape:
        shape[0], shape[1] = None, 8
    return tuple(shape)


def test_equality_holds_for_every_extent_it_promises_on_400_random_pairs():
    rng = Random(1)
    answers = {"yes": 0, "no": 0, "if": 0}
    for _ in range(400):
        shape = _shape(rng)
        left, right = (random_format(rng, 3, blocks=(2, 4, 8)) for _ in range(2))
        if rng.random() < 0.3:
            right = left.with_pad("undef")
        same = same_map(left, right, shape)
        answers[same.answer] += 1
        units = {left.names.index(name) for name in same.units}
        truths: list[bool] = []
        for point in _assignments(shape):
            truth = left.bind(point).same_map(right.bind(point))
            truths.append(truth)
            if same.answer == "yes" or (same.answer == "if" and all(point[d] == 1 for d in units)):
                assert truth, (left, right, point)
        if same.answer != "yes":
            assert not all(truths)
    assert min(answers.values()) > 10, answers


@pytest.mark.parametrize(
    "left, right, shape, answer",
    [
        ("nchw", "nhwc", (None, None, 5, 4), "if c = 1"),
        ("nchw", "nhwc", (2, 3, None, None), "if h = 1 and w = 1"),
        ("nchw", "nchw", (None, None, None, None), "yes"),
        ("nChw8c", "nChw16c", (None, None, 5, 4), "no"),
        ("nChw8c", "nhwc", (None, 8, None, None), "yes"),
        ("nchw", "cnhw", (None, None, 5, 4), "if n = 1"),
    ],
)
def test_equality_names_the_dims_that_alone_differ(
    left: str, right: str, shape: tuple[int | None, ...], answer: str
):
    assert str(same_map(Format.from_tag(left), Format.from_tag(right), shape)) == answer


def test_answers_are_values():
    assert Same("if", ("n",)) == Same("if", ("n",)) != Same("no")


def test_a_reshape_serves_every_extent_on_600_random_cases():
    rng, found = Random(2), 0
    for _ in range(600):
        shape = _shape(rng)
        format = random_format(rng, 3, blocks=(2, 4))
        known = math.prod(x for x in shape if x is not None)
        new = rng.choice(
            ([None, known], [known, None], [None, 2], [None], [*shape, 1], [1, *shape], [None, *shape[1:]])
        )
        try:
            result = reshape(format, shape, new)
        except LayoutError:
            continue
        found += 1
        for point in _assignments(shape):
            count = math.prod(point)
            if new.count(None) == 1:
                rest = math.prod(x for x in new if x is not None)
                extents = [count // rest if x is None else x for x in new]
            else:
                extents = _closed(
                    tuple(new), tuple(x for x, y in zip(point, shape, strict=True) if y is None)
                )
            expected = format.bind(point).addresses().reshape(extents)
            assert np.array_equal(result.bind(extents).addresses(), expected), (format, shape, new, point)
    assert found > 150


def test_a_slice_serves_every_extent():
    rng, found = Random(3), 0
    for _ in range(300):
        shape = _shape(rng)
        format = random_format(rng, 3, blocks=(2, 4))
        starts = [rng.choice((0, 0, 2, 3)) if x is None else rng.randrange(x) for x in shape]
        sizes = [
            None if x is None or rng.random() < 0.3 else x - s for x, s in zip(shape, starts, strict=True)
        ]
        try:
            result = slice_(format, shape, starts, sizes)
        except LayoutError:
            continue
        found += 1
        for point in _assignments(shape):
            if any(x <= s for x, s in zip(point, starts, strict=True)):
                continue
            expected = format.bind(point).addresses()[tuple(slice(s, None) for s in starts)]
            assert np.array_equal(result.bind(expected.shape).addresses(), expected), (format, point, starts)
    assert found > 100


def test_loops_serve_every_large_extent():
    src, dst = Format.from_tag("nchw"), Format.from_tag("nChw8c")
    units = loop_units(src, dst, (None, None, 5, 4))
    assert units == ((1,), (1, 8), (1,), (1,))
    for n, c in itertools.product((2, 5), (17, 30, 64)):
        point = (n, c, 5, 4)
        assert tuple(dim.units for dim in refine(src.bind(point), dst.bind(point)).dims) == units


def test_a_symbolic_merge_of_dense_dims_is_the_dense_dim():
    merged = reshape(Format.from_tag("nchw"), (None, 64, 7, 7), (None, 3136))
    assert str(merged.with_names("ab")) == "(a, b) : [a, b]"


def test_negative_reshape_that_would_need_an_open_digit():
    with pytest.raises(LayoutError, match="an open extent would have to be the size of a digit"):
        reshape(Format.from_tag("ba"), (4, None), (None,))


def test_negative_reshape_that_need_not_divide():
    with pytest.raises(LayoutError, match="3 elements need not divide it"):
        reshape(Format.from_tag("ab"), (None, 8), (None, 3))


def test_negative_open_extents_that_cannot_be_told_apart():
    with pytest.raises(LayoutError, match="2 open extents cannot be told apart"):
        reshape(Format.from_tag("nchw"), (None, 3, None, None), (None, 3, None))
    with pytest.raises(
        LayoutError, match=r"cannot reshape \?x8 into \?x\?x2: 2 open extents cannot be told apart"
    ):
        reshape(Format.from_tag("ab"), (None, 8), (None, None, 2))


def test_negative_rank_mismatch():
    with pytest.raises(LayoutError, match=r"rank mismatch between .* and shape \?: 2 != 1"):
        slice_(Format.from_tag("ab"), (None,), (0,), (None,))
