"""Functions by their steps say what the functions say index by index, at any number of indices."""

from __future__ import annotations

import itertools
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings

from layout_ir.algebra.canonical import canonical_digits
from layout_ir.algebra.format import Format
from layout_ir.algebra.steps import Steps, UnitStride, fit, fit_phased
from tests.algebra.digit_lists import value_at
from tests.layouts import chain_of, random_layout, rngs


def _random_terms(rng: Random) -> tuple[UnitStride, ...]:
    units = [1]
    for _ in range(rng.randint(0, 3)):
        units.append(units[-1] * rng.randint(2, 5))
    strides = [rng.randint(-3, 9)]
    for below, unit in pairwise(units):
        # Now and then a digit continues the one below.
        strides.append(strides[-1] * (unit // below) if rng.random() < 0.3 else rng.randint(-3, 9))
    return tuple(zip(units, strides, strict=True))


def _random_steps(rng: Random) -> tuple[list[int], Steps]:
    """A function on up to 150 indices: digits with a phase, every so manyth index of them, several joined."""
    values, steps = [0], Steps(1, ())
    for part in range(rng.choice((1, 1, 1, 2, 3))):
        terms, count = _random_terms(rng), rng.randint(1, rng.choice((4, 10, 50)))
        stride = rng.choice((1, 1, 1, 2, 3, 4, 6, -1, -2))
        low = rng.randint(0, 3 * terms[-1][0]) + max(-stride * count, 0)
        own = [value_at(terms, low + x * stride) for x in range(count)]
        try:
            found = Steps.strided(terms, count, low, stride)
        except ValueError:
            found = Steps.of_values(own)
        step = rng.randint(-2, 5)
        steps = steps.joined(step, found) if part else found
        start = values[-1] + step
        values = [*values, *(start + v - own[0] for v in own)] if part else [v - own[0] for v in own]
    return values, steps


@settings(max_examples=500)
@given(rngs)
def test_every_step_is_that_of_the_function(rng: Random):
    values, steps = _random_steps(rng)
    assert steps.count == len(values)
    assert [steps.step(x) for x in range(1, len(values))] == [b - a for a, b in pairwise(values)]
    for step in {0, *(b - a for a, b in pairwise(values))}:
        wanted = [x for x in range(1, len(values)) if values[x] - values[x - 1] != step]
        found = steps.others(step)
        assert min((first for first, _ in found), default=None) == min(wanted, default=None)
        for divisor in range(2, 13):
            multiples = not any(first % divisor or distance % divisor for first, distance in found)
            assert multiples == all(x % divisor == 0 for x in wanted)


@settings(max_examples=300)
@given(rngs)
def test_fit_finds_digits_exactly_when_a_chain_of_units_does(rng: Random):
    values = [rng.randint(-3, 6) for _ in range(rng.randint(1, 13))]
    _check_fit(values, Steps.of_values(values))
    values, steps = _random_steps(rng)
    if len(values) <= 24:
        _check_fit(values, steps)


def _check_fit(values: list[int], steps: Steps) -> None:
    terms, chain = fit(steps), chain_of(values)
    assert (terms is None) == (chain is None)
    if terms is not None and chain is not None:
        assert [values[0] + value_at(terms, x) for x in range(len(values))] == values
        # The shortest chain is the canonical one.
        assert tuple(unit for unit, _ in terms) == (chain if len(values) > 1 else ())


@given(rngs)
def test_fit_of_a_digit_list_is_its_canonical_form(rng: Random):
    layout = random_layout(rng, rank=rng.randint(1, 3), limit=200)
    for dim, digits in enumerate(layout.digits):
        extent = layout.padded_shape[dim]
        values = layout.offsets(dim, padded=True).tolist()
        assert fit(Steps.of_values(values)) == canonical_digits(digits, extent)


@settings(max_examples=500)
@given(rngs)
def test_digits_with_a_phase_are_found_again_and_say_the_function(rng: Random):
    terms, count = _random_terms(rng), rng.randint(1, 200)
    low = rng.randint(0, 2 * terms[-1][0])
    values = [value_at(terms, low + x) for x in range(count)]
    found = fit_phased(Steps.of_terms(terms, count, low))
    assert found is not None
    phase, digits = found
    assert [value_at(digits, phase + x) - value_at(digits, phase) for x in range(count)] == [
        value - values[0] for value in values
    ]
    # What is found depends on the function alone.
    assert found == fit_phased(Steps.of_values(values))


def test_every_short_function_has_digits_with_a_phase_or_none_exist():
    """The oracle tries every chain of units and every phase, and solves for the strides."""
    for count in range(1, 7):
        for moves in itertools.product(range(3), repeat=count - 1):
            values = list(itertools.accumulate(moves, initial=0))
            found = fit_phased(Steps.of_values(values))
            assert (found is not None) == _has_phased_digits(moves), values
            if found is not None:
                low, terms = found
                assert [value_at(terms, low + x) - value_at(terms, low) for x in range(count)] == values


def _has_phased_digits(moves: tuple[int, ...]) -> bool:
    """Whether the step onto index p can be a function of the largest unit of some chain that divides p + low."""
    most = len(moves) + 2
    chains = [(1,)]
    for _ in range(3):
        chains += [(*c, u) for c in chains for u in range(2 * c[-1], 2 * most, c[-1])]
    for chain in set(chains):
        for low in range(chain[-1]):
            seen: dict[int, int] = {}
            pairs = [(max(u for u in chain if (p + low) % u == 0), move) for p, move in enumerate(moves, 1)]
            if all(seen.setdefault(unit, move) == move for unit, move in pairs):
                return True
    return False


@settings(max_examples=200)
@given(rngs)
def test_long_functions_are_those_of_their_beginning(rng: Random):
    """Three rounds of the largest unit say what follows: the digits there are those at 2^60 indices."""
    terms = _random_terms(rng)
    low = rng.randint(0, 2 * terms[-1][0])
    short, long = (Steps.of_terms(terms, count, low) for count in (8 * terms[-1][0], 1 << 60))
    assert fit_phased(long) == fit_phased(short)


def test_negative_a_stride_that_divides_no_unit_is_refused():
    with pytest.raises(ValueError, match="unit 8 against a stride of 3"):
        Steps.strided(((1, 1), (8, 100)), 9, 0, 3)
    assert fit(Steps.strided(((1, 1), (8, 100)), 2, 0, 3)) == ((1, 3),)  # the unit is not reached


@pytest.mark.parametrize(
    "text",
    [
        "(a, b) : [a, b], lo = [1, 1]",
        "(a, b) : [a, b, a:8], lo = [3, 0]",
        "(a, b) : [a, b, a:64], lo = [70, 5]",
    ],
)
def test_layouts_of_any_extent_are_compared_and_cut(text: str):
    """The answer at 2^40 indices is the one at few, where the tests of canonical forms and views are exhaustive."""
    layouts = [Format.parse(text).bind((extent, 3)) for extent in (1 << 10, 1 << 40)]
    short, long = (layout.slice((2, 0), (layout.shape[0] - 5, 3)) for layout in layouts)
    assert [(f.dim, f.stride) for f in short.factors][1:] == [(f.dim, f.stride) for f in long.factors][1:]
    assert long.same_map(long.slice((0, 0), long.shape))
    assert not long.same_map(Format.parse("(a, b) : [a, b]").bind(long.shape))
    for index in ((0, 0), (1, 2), (long.shape[0] - 1, 1)):
        assert long.address(index) == layouts[1].address((index[0] + 2, index[1]))
