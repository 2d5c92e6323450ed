"""Loop nests against the offsets that they are made of."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.loops.loop_nest import Loop, Nest, check, nests, ordered
from layout_ir.errors import LayoutError


def visited(nest: Nest) -> list[tuple[int, ...]]:
    """The offset of every tensor in every iteration, in order."""
    found: list[tuple[int, ...]] = []
    for index in product(*(range(loop.count) for loop in nest.loops)):
        at = list(nest.starts)
        for i, loop in zip(index, nest.loops, strict=True):
            for k, step in enumerate(loop.steps):
                at[k] += step[i] if isinstance(step, tuple) else i * step
        found.append(tuple(at))
    return found


def places(offsets: list[np.ndarray[Any, Any]], starts: list[int]) -> list[tuple[int, ...]]:
    """The same for every index of the dims."""
    shape = [each.shape[1] for each in offsets]
    return [
        tuple(
            starts[k] + sum(int(o[k, i]) for o, i in zip(offsets, index, strict=True))
            for k in range(len(starts))
        )
        for index in np.ndindex(*shape)
    ]


TAGS = ["abc", "cab", "aBc4b", "aBc8b", "ABc4b2a", "aBc2b4b"]


@pytest.mark.parametrize("first", TAGS)
@pytest.mark.parametrize("second", TAGS)
def test_every_index_of_two_layouts_is_visited_once(first: str, second: str):
    shape = (3, 13, 4)
    layouts = [Format.from_tag(tag).bind(shape) for tag in (first, second)]
    offsets = [np.stack([layout.offsets(d) for layout in layouts]) for d in range(3)]
    found = list(nests(offsets, [5, 7]))
    assert sorted(place for nest in found for place in visited(nest)) == sorted(places(offsets, [5, 7]))
    inside_out = [
        Nest(nest.starts, tuple(ordered(nest.loops, by))) for nest in found for by in ([0, 1], [1, 0])
    ]
    assert sorted(place for nest in inside_out for place in visited(nest)) == sorted(
        2 * places(offsets, [5, 7])
    )


@pytest.mark.parametrize("seed", range(8))
def test_offsets_without_any_order_are_a_table(seed: int):
    rng = np.random.default_rng(seed)
    offsets = [rng.integers(0, 50, (2, extent)) for extent in (1, 2, 7)]
    found = [place for nest in nests(offsets, [0, 0]) for place in visited(nest)]
    assert sorted(found) == sorted(places(offsets, [0, 0]))


def test_blocks_that_do_not_divide_a_dim_leave_a_part():
    layout = Format.from_tag("Ba8b").bind((3, 20))
    found = list(nests([layout.offsets(d)[None] for d in range(2)], [0]))
    assert [[loop.count for loop in ordered(nest.loops, [0])] for nest in found] == [[48], [3, 4]]


def test_negative_blocks_behind_one_another_are_no_blocks():
    layout = Format.from_tag("A8a").bind((20,))
    [nest] = nests([layout.offsets(0)[None]], [0])
    assert nest.loops == (Loop(20, (1,)),)


def test_negative_an_empty_dim_has_no_nest():
    assert list(nests([np.zeros((1, 3), np.int64), np.zeros((1, 0), np.int64)], [0])) == []


def test_dims_that_continue_each_other_are_one_loop():
    layout = Format.from_tag("acb").bind((3, 4, 5))
    [nest] = nests([layout.offsets(d)[None] for d in range(3)], [0])
    assert ordered(nest.loops, [0]) == [Loop(60, (1,))]


def test_negative_dims_that_one_of_two_tensors_has_in_another_order_are_not():
    layouts = [Format.from_tag(tag).bind((3, 4, 5)) for tag in ("abc", "acb")]
    [nest] = nests([np.stack([layout.offsets(d) for layout in layouts]) for d in range(3)], [0, 0])
    assert [loop.count for loop in ordered(nest.loops, [0, 1])] == [3, 4, 5]


def test_negative_places_on_other_axes_and_swizzles_are_refused():
    plain = Format.row_major(("a", "b"))
    check(plain.bind((8, 8)))
    lanes = replace(plain, factors=(Factor(0, axis="lane"), Factor(1)))
    for format, reason in ((lanes, "other axes"), (replace(plain, swizzle=(2, 0, 3)), "swizzle")):
        with pytest.raises(LayoutError, match=reason):
            check(format.bind((8, 8)))
