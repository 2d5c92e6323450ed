"""Positions found at an address are those that lie there, by trying all positions of the padded box."""

from __future__ import annotations

import copy
import itertools
import pickle
from random import Random

import pytest
from hypothesis import given

from layout_ir.algebra.format import Format
from layout_ir.algebra.inverse import positions_at
from layout_ir.algebra.layout import HOLE, Hole, Index, Layout
from layout_ir.errors import LayoutError
from tests.layouts import random_format, random_shape, rngs


def _offsets(layout: Layout) -> dict[int, set[tuple[int, ...]]]:
    """Every position of the padded box, by the sum of its digits' strides."""
    found: dict[int, set[tuple[int, ...]]] = {}
    for position in itertools.product(*map(range, layout.padded_shape)):
        at = sum(
            p // d.unit % d.count * d.stride
            for p, digits in zip(position, layout.digits, strict=True)
            for d in digits
        )
        found.setdefault(at, set()).add(position)
    return found


@given(rngs)
def test_all_positions_at_an_address_are_found_and_no_others(rng: Random):
    rank = rng.randint(1, 3)
    layout = random_format(rng, rank, strided=rng.random() < 0.5, halo=rng.random() < 0.3).bind(
        random_shape(rng, rank, 200)
    )
    by_offset = _offsets(layout)
    still = any(d.stride == 0 and d.count > 1 for digits in layout.digits for d in digits)
    for target in range(min(by_offset) - 1, max(by_offset) + 2):
        found = list(positions_at(layout, target))
        assert len(set(found)) == len(found)
        there = by_offset.get(target, set())
        # Of positions that share an address because a digit does not move, some stand for all.
        assert set(found) <= there and bool(found) == bool(there) if still else set(found) == there


@pytest.mark.parametrize(
    "text, shape",
    [
        ("(a, b) : [a, b*-1]", (4, 5)),
        ("(a, b) : [a*3, b*2]", (4, 5)),
        ("(a, b) : [a*5, b*5]", (3, 3)),
        ("(a, b) : [a*6, a:2*-3, b*1]", (6, 3)),
    ],
)
def test_strides_that_fall_or_overlap_are_told_apart(text: str, shape: tuple[int, ...]):
    layout = Format.of(text).bind(shape)
    for target, there in _offsets(layout).items():
        assert set(positions_at(layout, target)) == there


def test_of_a_digit_that_does_not_move_first_and_last_are_given():
    layout = Format.of("(a, b) : [a*0, b]").bind((7, 3))
    assert {(0, 2), (6, 2)} <= set(positions_at(layout, 2)) <= {(k, 2) for k in range(7)}


def test_negative_nothing_lies_in_gaps_or_in_what_is_empty():
    rows = Format.of("(a, b) : [a*10, b]").bind((3, 4))
    assert (
        not list(positions_at(rows, 7))
        and not list(positions_at(rows, -1))
        and not list(positions_at(rows, 24))
    )
    assert not list(positions_at(Format.of("(a, b) : [a, b]").bind((0, 4)), 0))


def test_inverse_does_not_search_large_dims():
    layout = Format.from_tag("nChw8c").bind((1 << 20, 1 << 20, 7, 7))
    index = ((1 << 20) - 1, 123_457, 6, 5)
    assert layout.inverse(layout.address(index)) == Index(index)


@pytest.mark.parametrize(
    ("text", "shape", "address", "found"),
    [
        ("(a) : [a*0]", (1 << 40,), 5, HOLE),
        ("(a, b) : [a*0, b], lo = [1000000000, 0]", (1 << 40, 3), 2, Index((0, 2))),
        ("(a, b) : [a*2, b*2]", (1 << 31, 1 << 31), 7, HOLE),
        ("(a, b) : [a*2, b*2]", (1 << 31, 1 << 31), 8, Index((0, 4))),
        ("(a, b) : [a*0, b*3, a:8*0], lo = [13, 0]", (1 << 40, 2), 3, Index((3, 1))),
    ],
)
def test_inverse_does_not_search_overlapping_strides(
    text: str, shape: tuple[int, ...], address: int, found: Index | Hole
):
    assert Format.parse(text).bind(shape).inverse(address) == found


def test_negative_inverse_gives_up_where_strides_overlap_too_much():
    layout = Format.parse("(a, b, c) : [a*2000003, b*2000005, c*2000007]").bind((1 << 20,) * 3)
    with pytest.raises(LayoutError, match="is not found in 65536 tries"):
        layout.inverse(1_000_000_007_123)


def test_inverse_of_a_broadcast_is_an_index():
    layout = Format.parse("(a, b) : [a*0, b]").bind((1 << 40, 3))
    assert layout.inverse(2) == Index((0, 2))


def test_the_hole_is_one_value_in_every_process():
    hole = Format.parse("(r, c) : [r*8, c]").bind((3, 6)).inverse(6)
    assert pickle.loads(pickle.dumps(hole)) is HOLE and copy.deepcopy(hole) is HOLE
    pad = Format.from_tag("aB8b").bind((1, 3)).inverse(3)
    assert pickle.loads(pickle.dumps(pad)) == pad and pad is not HOLE
