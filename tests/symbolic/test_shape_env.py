"""Bounds hold for all values in the ranges; answers are right, or become guards that say where they are."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from layout_ir.symbolic.polynomials import Terms, constant, plus, scaled, times
from layout_ir.symbolic.shape_env import BEYOND, Guard, ShapeEnv


def _env(*ranges: tuple[int, int | None], hint: int = 3) -> tuple[ShapeEnv, list[Terms]]:
    """An environment of extents a, b, ... with these ranges, and the extents."""
    env = ShapeEnv()
    return env, [
        env.symbol("extent", k, constant(1), "abc"[k], low, high, hint)
        for k, (low, high) in enumerate(ranges)
    ]


def _random_polynomial(rng: Random, symbols: list[Terms]) -> Terms:
    result = constant(rng.randint(-9, 9))
    for _ in range(rng.randint(1, 4)):
        term = constant(rng.choice((-3, -2, -1, 1, 2, 3)))
        for _ in range(rng.randint(1, 3)):
            term = times(term, rng.choice(symbols))
        result = plus(result, term)
    return result


@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_in_the_whole_range(seed: int):
    rng = Random(seed)
    known = 0
    for _ in range(60):
        ranges = [(low := rng.randint(0, 3), rng.choice((None, low, low + 3))) for _ in range(3)]
        env, symbols = _env(*ranges)
        terms = _random_polynomial(rng, symbols)
        points = product(*(range(low, (low + 6 if high is None else high) + 1) for low, high in ranges))
        values = [env.value(terms, point) for point in points]
        low, high = env.least(terms), env.most(terms)
        assert low is None or low <= min(values)
        assert high is None or high >= max(values)
        known += low is not None
    assert known > 10


@pytest.mark.parametrize("seed", range(4))
def test_what_is_positive_for_large_symbols_is_so_for_large_numbers(seed: int):
    rng = Random(seed)
    answers = set[bool | None]()
    for _ in range(80):
        env, symbols = _env((1, None), (1, None), (0, 7))
        terms = _random_polynomial(rng, symbols)
        answer = env.large(terms)
        answers.add(answer)
        if answer is not None:
            values = [
                env.value(terms, (10**5 * k, 10**5 * n, c))
                for k, n in ((1, 1), (2, 1), (1, 2))
                for c in (1, 7)
            ]
            assert all((value > 0) is answer for value in values), env.text(terms)
    assert answers == {True, False, None}


def test_of_two_monomials_the_multiple_is_the_larger_one():
    env, [a, b, few] = _env((1, None), (1, None), (0, 7))
    assert env.large(plus(times(a, b), scaled(a, -3))) is True
    assert env.large(plus(scaled(times(a, b), -1), scaled(times(b, few), 3))) is False
    assert env.large(plus(a, scaled(b, -1))) is None


def test_a_guard_admits_the_shapes_for_which_its_answer_is_right():
    env, [a, b] = _env((1, None), (1, None))
    asked = plus(times(a, b), constant(-12))
    assert env.is_negative(asked, "guarding")
    for shape in product(range(1, 8), repeat=2):
        assert env.guards_hold(shape) is (shape[0] * shape[1] < 12)
    assert env.guards_text() == ["a*b < 12"]


@pytest.mark.parametrize("factor, offset", list(product((-3, -1, 1, 2), (-7, -6, 0, 5))))
@pytest.mark.parametrize("hint", [1, 3, 5])
def test_a_guard_on_one_symbol_narrows_its_range_to_where_it_holds(factor: int, offset: int, hint: int):
    env, [a] = _env((1, None), hint=hint)
    terms = plus(scaled(a, factor), constant(offset))
    answer = env.is_negative(terms, "guarding")
    assert answer is (factor * hint + offset < 0)
    admitted = [k for k in range(1, 60) if env.guards_hold((k,))]
    assert admitted == [k for k in range(1, 60) if (factor * k + offset < 0) is answer or not env.guards]
    [symbol] = env.symbols
    assert (symbol.low, 59 if symbol.high is None else symbol.high) == (admitted[0], admitted[-1])
    guards = len(env.guards)
    assert env.is_negative(terms, "guarding") is answer and len(env.guards) == guards


def test_negative_other_policies_make_no_guards():
    env, [a, b] = _env((1, None), (1, None))
    assert not env.is_negative(plus(a, constant(-10)), "size-oblivious")
    assert not env.is_negative(plus(a, constant(-10)), "unguarded")
    assert not env.is_negative(plus(a, scaled(b, -1)), "unguarded")
    assert not env.is_zero(plus(a, scaled(b, -1)), "guarding")
    assert not env.guards
    env.is_negative(plus(a, scaled(b, -1)), "size-oblivious")  # large symbols do not tell
    assert len(env.guards) == 1


def test_a_remainder_that_is_zero_is_so_for_the_shapes_that_are_served():
    env, [a] = _env((1, None), hint=24)
    rest = env.symbol("remainder", a, constant(8), "a%8", 0, 7, 0)
    assert env.is_remainder(rest) and env.is_remainder(scaled(rest, -2))
    assert not env.is_remainder(a) and not env.is_remainder(plus(rest, constant(1)))
    assert env.is_zero(rest, "guarding")
    assert [k for k in range(1, 40) if env.guards_hold((k,))] == [8, 16, 24, 32]
    assert env.least(rest) == env.most(rest) == 0
    assert env.symbol("remainder", a, constant(8), "another", 0, 7, 0) == rest


def test_a_floor_is_that_of_the_extents():
    env, [a] = _env((1, None), hint=24)
    floor = env.symbol("floor", plus(a, constant(7)), constant(8), "(a + 7)/8", 1, None, 3)
    assert [env.value(floor, (k,)) for k in (1, 8, 9, 24)] == [1, 1, 2, 3]
    assert env.hint(floor) == 3


def test_what_no_buffer_has_is_beyond_every_size():
    env, [a] = _env((1, None))
    assert not env.is_negative(plus(constant(BEYOND), scaled(a, -1)), "guarding")
    assert env.is_negative(plus(a, constant(-BEYOND)), "guarding")
    assert not env.guards


def test_an_extent_that_is_at_least_one_is_not_zero():
    env, [a] = _env((0, None))
    assert env.least(a) == 0
    env.at_least_one(a)
    assert env.least(a) == 1 and not env.is_zero(a, "guarding")


def test_relations_are_written_without_differences():
    env, [a, b] = _env((1, None), (1, None))
    env.decide(Guard(plus(a, scaled(b, -2)), zero=False, holds=True))
    env.decide(Guard(plus(constant(9), scaled(times(a, b), -1)), zero=False, holds=True))
    env.decide(Guard(plus(a, constant(-4)), zero=True, holds=False))
    assert env.guards_text() == ["a < 2*b", "a*b > 9", "a != 4"]
