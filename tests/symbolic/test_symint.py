"""Symbolic sizes: what is known of them, what becomes a guard, and that both agree with ints."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import product
from random import Random
from typing import Any, cast

import pytest

from layout_ir.dialects.kernel.plan import Loop
from layout_ir.symbolic.guarding import size_oblivious, unguarded
from layout_ir.symbolic.shape_env import ShapeEnv
from layout_ir.symbolic.symint import (
    Size,
    SymBool,
    SymInt,
    dynamic_extent,
    hint_of,
    in_blocks,
    is_remainder,
    with_hints,
)

_OPERATIONS: list[Callable[[Any, Any], Any]] = [lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y]
_ORDERS = [operator.lt, operator.le, operator.gt, operator.ge]
_WITH_NUMBERS: list[Callable[[Any, int], Any]] = [lambda x, k: x // k, lambda x, k: x % k, lambda x, k: x * k]
Formula = Callable[[Sequence[int]], int]


def pair(a: int = 20, b: int = 7) -> tuple[ShapeEnv, SymInt, SymInt]:
    shape_env = ShapeEnv()
    return shape_env, dynamic_extent(shape_env, 0, "a", a), dynamic_extent(shape_env, 1, "b", b)


def random_formula(rng: Random, depth: int, leaves: list[tuple[Size, Formula]]) -> tuple[Size, Formula]:
    """A formula over `leaves`: pairs of a size and a function of the extents."""
    if depth == 0:
        return rng.choice(leaves)
    x, f = random_formula(rng, depth - 1, leaves)
    if rng.random() < 0.4:
        k = rng.randint(1, 12)
        make = rng.choice(_WITH_NUMBERS)
        return make(x, k), lambda extents: make(f(extents), k)
    y, g = random_formula(rng, depth - 1, leaves)
    join = rng.choice(_OPERATIONS)
    return join(x, y), lambda extents: join(f(extents), g(extents))


def test_values_and_bounds_agree_with_ints_on_300_random_formulas():
    rng = Random(1)
    sizes = 0
    for _ in range(300):
        shape_env, a, b = pair()
        leaves: list[tuple[Size, Formula]] = [(a, lambda e: e[0]), (b, lambda e: e[1]), (3, lambda e: 3)]
        x, f = random_formula(rng, rng.randint(1, 4), leaves)
        if isinstance(x, int):
            continue
        sizes += 1
        low, high = shape_env.least(x.terms), shape_env.most(x.terms)
        for extents in ((20, 7), (1, 1), *((rng.randint(1, 90), rng.randint(1, 90)) for _ in range(20))):
            wanted = f(extents)
            assert shape_env.value(x.terms, extents) == wanted
            assert low is None or low <= wanted, str(x)
            assert high is None or high >= wanted, str(x)
        assert x.hint == f((20, 7))
    assert sizes > 200


def test_what_holds_for_all_extents_is_no_guard():
    shape_env, a, b = pair()
    assert a * b >= b
    assert a + 1 > a
    assert a * b - a * b == 0
    assert not a * b + a < 2
    assert divmod(a * 8 + 3, 8) == (a, 3)
    assert (a * 16 + 8 * b) % 8 == 0
    assert not shape_env.guards


def test_what_the_hint_decides_is_a_guard():
    shape_env, a, b = pair(20, 7)
    assert a >= 16
    assert b < 8
    assert a % 4 == 0
    assert shape_env.guards_hold((20, 7))
    assert shape_env.guards_hold((16, 1))
    assert not shape_env.guards_hold((15, 7))
    assert not shape_env.guards_hold((20, 8))
    assert not shape_env.guards_hold((21, 7))
    assert len(shape_env.guards) == 3
    # Known by now.
    assert a > 15
    assert b <= 7
    assert len(shape_env.guards) == 3


def test_equal_by_chance_is_different():
    shape_env, a, b = pair(20, 20)
    assert a != b
    assert a != 20
    assert not shape_env.guards


def test_an_index_pins_the_number():
    shape_env, a, _ = pair(3, 4)
    assert len(range(a)) == 3
    assert shape_env.guards_hold((3, 9))
    assert not shape_env.guards_hold((4, 4))
    assert a == 3


def test_size_oblivious_and_unguarded_code_adds_no_guards():
    shape_env, a, b = pair(1, 7)
    assert size_oblivious(lambda: a > 1)()
    assert size_oblivious(lambda: a * b >= 100)()
    assert not unguarded(lambda: a > b)()
    assert unguarded(lambda: sorted([a, b, a * b], key=lambda x: x))()[0] is a
    assert not shape_env.guards
    assert not a > 1
    assert len(shape_env.guards) == 1


@pytest.mark.parametrize("extent, whole", [(24, True), (25, False)])
def test_an_extent_in_blocks_knows_its_blocks(extent: int, whole: bool):
    shape_env = ShapeEnv()
    x = in_blocks(dynamic_extent(shape_env, 0, "c", extent), 8, whole=whole)
    number, rest = divmod(x, 8)
    blocks = -(-x // 8)
    assert (hint_of(number), hint_of(blocks)) == (extent // 8, -(-extent // 8))
    assert bool(rest == 0) is whole
    assert bool(blocks * 8 == x) is whole
    assert blocks * 8 >= x
    assert [shape_env.guards_hold((k,)) for k in (8, 16, 17, 23)] == [whole, whole, not whole, not whole]
    assert len(shape_env.guards) == 1


def test_negative_sizes_of_two_plans_do_not_mix():
    _, a, _ = pair()
    _, other, _ = pair()
    assert a != other
    with pytest.raises(TypeError):
        _ = a + other
    with pytest.raises(TypeError):
        _ = a // other
    with pytest.raises(TypeError):
        _ = a < other
    with pytest.raises(TypeError):
        _ = a // cast(Any, 2.5)
    with pytest.raises(ZeroDivisionError):
        _ = a // (a - 20)


def test_a_comparison_is_no_guard_until_somebody_asks_for_its_truth():
    shape_env, a, _ = pair(20, 7)
    answer = a < 16
    assert isinstance(answer, SymBool)
    assert not shape_env.guards
    assert not answer
    assert shape_env.guards_text() == ["a >= 16"]


@pytest.mark.parametrize("seed", range(20))
def test_whoever_meets_the_guards_gets_the_same_answers(seed: int):
    """Comparisons of random formulas, asked for one hint: all shapes that meet the guards answer as ints do."""
    rng = Random(seed)
    shape_env, a, b = pair(rng.randint(1, 40), rng.randint(1, 40))
    leaves: list[tuple[Size, Formula]] = [(a, lambda e: e[0]), (b, lambda e: e[1]), (3, lambda e: 3)]
    asked: list[tuple[bool, Callable[[Any, Any], object], Formula, Formula]] = []
    for _ in range(4):
        (x, f), (y, g) = random_formula(rng, 2, leaves), random_formula(rng, 1, leaves)
        ask = rng.choice(_ORDERS)
        asked.append((bool(ask(x, y)), ask, f, g))
    met = 0
    for extents in product(range(1, 45), repeat=2):
        if shape_env.guards_hold(extents):
            met += 1
            assert all(answer == ask(f(extents), g(extents)) for answer, ask, f, g in asked)
    assert met


def test_a_size_prints_as_its_formula():
    _, a, b = pair()
    assert str(a * b * 4) == "4*a*b"
    assert f"src{a + 1:+}" == "src+(a + 1)"


def test_hints_take_the_place_of_sizes_in_a_part_of_a_plan():
    _, a, b = pair(20, 7)
    loop = Loop(a, a * 4, b)
    assert with_hints((loop, "name", 3)) == (Loop(20, 80, 7), "name", 3)
    assert (hint_of(a), hint_of(5)) == (20, 5)


def test_a_remainder_knows_that_it_is_one():
    _, a, _ = pair()
    assert is_remainder(a % 8)
    assert not any(map(is_remainder, (a, a // 8, a % 8 + 1, 5)))
