"""Formulas mean what Python computes for them, index by index."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given

from layout_ir.algebra.layout import Layout
from layout_ir.algebra.scan import Scanner
from layout_ir.errors import LayoutError
from layout_ir.notations.expressions import (
    ExpressionParser,
    Operators,
    Sum,
    address_text,
    bound_layout,
    dense_format,
)
from tests.layouts import indices, random_format, random_shape, rngs

PYTHON = Operators("//", "%")
NAMES = ("a", "b")


def _read(text: str) -> Sum:
    scan = Scanner(text)
    value = ExpressionParser(scan, NAMES, PYTHON).sum()
    assert scan.token.kind == "end", scan.token
    return value


def _value(value: Sum, index: Sequence[int]) -> int:
    """By the docstring of Term."""
    total = value.const
    for t in value.terms:
        digit = (index[t.dim] + t.shift) // t.unit
        total += t.coef * (digit if t.count is None else digit % t.count)
    return total


def _formula(rng: Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(("a", "b", "a", "b", str(rng.randint(0, 6))))
    left = _formula(rng, depth - 1)
    kind = rng.choice("++*//%%%-")
    if kind == "*":
        return f"({left}) * {rng.randint(0, 6)}"
    if kind in "/%":
        return f"({left}) {'//' if kind == '/' else '%'} {rng.choice((1, 2, 3, 4, 6, 8, 12))}"
    return f"({left}) {kind} ({_formula(rng, depth - 1)})"


@given(rngs)
def test_what_is_read_has_the_value_that_python_computes(rng: Random):
    text = _formula(rng, 4)
    try:
        value = _read(text)
    except LayoutError:
        return
    code = compile(text, "formula", "eval")
    for a in range(-3, 30, 2):
        for b in (0, 1, 5, 24):
            assert _value(value, (a, b)) == eval(code, {"a": a, "b": b}), text


@pytest.mark.parametrize(
    "text",
    [
        "a // 4 % 3",
        "(a * 8 + b % 8) // 8",
        "(a + 3) // 4 * 2 + a % 2",
        "(a * 12 + b % 3 * 4) % 12",
        "(a % 6 + 12 * b) // 2",
        "((a + 5) // 2 + 3) // 4",
        "((a + 5) // 2 * 6 + 18) % 24",
    ],
)
def test_quotients_and_remainders_of_digits_are_read(text: str):
    value = _read(text)
    for a, b in indices((20, 10)):
        assert _value(value, (a, b)) == eval(text, {"a": a, "b": b})


@pytest.mark.parametrize(
    "text",
    [
        "a * b",
        "(a + b) // 2",
        "(a + b) % 4",
        "a // 0",
        "a % b",
        "a // -2",
        "c",
        "(a % 4) // 3",
        "(a % 6) % 4",
        "(a",
        "a +",
        "-" * 2000 + "a",
    ],
)
def test_negative_what_is_no_sum_of_digits_is_refused(text: str):
    with pytest.raises(LayoutError):
        _read(text)


def _row_major(results: Sequence[str], shape: Sequence[int]) -> dict[tuple[int, ...], int]:
    """Per index its place in the row-major array that the formulas index, each as far as it reaches on the shape."""
    codes = [compile(text, "formula", "eval") for text in results]
    at = {i: [eval(code, dict(zip(NAMES, i, strict=True))) for code in codes] for i in indices(shape)}
    extents = [1 + max(column) for column in zip(*at.values(), strict=True)]
    return {i: int(np.ravel_multi_index(physical, extents)) for i, physical in at.items()}


@pytest.mark.parametrize(
    "results",
    [
        ("a", "b"),
        ("b", "a"),
        ("a // 4", "b", "a % 4"),
        ("b // 8", "a // 3", "b % 8", "a % 3"),
        ("b // 6", "a", "b // 2 % 3", "b % 2"),
    ],
)
def test_single_digits_are_a_format_and_its_addresses_those_of_the_array(results: tuple[str, ...]):
    sums = [_read(text) for text in results]
    fmt = dense_format(NAMES, sums)
    assert fmt is not None
    for shape in ((12, 24), (24, 48)):  # whole blocks
        places = _row_major(results, shape)
        layout, bound = fmt.bind(shape), bound_layout(NAMES, sums, shape)
        for index, place in places.items():
            assert layout.address(index) == bound.address(index) == place


@pytest.mark.parametrize(
    "text",
    [
        "a % 4 * 3 + a // 4 * 100 + (b + 2) // 5 * 7 + (b + 2) % 5 + 11",
        "(a - 8) // 4 * 100 + a % 4 * 20 + b + 200",
    ],
)
def test_one_result_is_an_address(text: str):
    layout = bound_layout(NAMES, [_read(text)], (9, 13))
    for a, b in indices((9, 13)):
        assert layout.address((a, b)) == eval(text, {"a": a, "b": b})


@pytest.mark.parametrize("results", [("a + b",), ("a * 2", "b"), ("a", "b + 1", "a % 2 + b")])
def test_negative_other_maps_are_no_dense_format(results: tuple[str, ...]):
    assert dense_format(NAMES, [_read(text) for text in results]) is None


@pytest.mark.parametrize(
    "text", ["a // 4 + a // 6 + b", "(a + 1) % 4 + (a + 2) // 4 * 9 + b", "a % 4 + a % 6 * 10 + b"]
)
def test_negative_digits_that_do_not_fit_one_dim_are_refused(text: str):
    with pytest.raises(LayoutError, match="dim 'a'"):
        bound_layout(NAMES, [_read(text)], (24, 3))


@given(rngs)
def test_the_text_of_an_address_computes_it(rng: Random):
    layout: Layout = random_format(rng, 2, strided=True, halo=True).bind(random_shape(rng, 2, 150))
    code = compile(address_text(layout, NAMES, PYTHON), "formula", "eval")
    for a, b in indices(layout.shape):
        assert eval(code, {"a": a, "b": b}) == layout.address((a, b))
