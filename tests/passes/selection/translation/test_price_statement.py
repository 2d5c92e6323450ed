"""What is said of the noise holds at every price inside the intervals."""

from __future__ import annotations

from random import Random

import pytest

from layout_ir.passes.selection.costs.measured_costs import End, MeasuredCosts
from layout_ir.passes.selection.costs.price_table import Price
from layout_ir.passes.selection.translation.price_statement import PriceStatement, price_statement
from layout_ir.selection.solver.selection_problem import evaluate
from layout_ir.selection.solver.solve import solve
from tests.passes.selection.costs.priced_problems import SOURCE, Truth, priced


def _stated(width: float, seed: int = 0) -> tuple[PriceStatement, MeasuredCosts]:
    first = priced("residual")
    truth = Truth(first, seed)
    prices = {
        key: Price(int(price.ns / width), price.ns, int(price.ns * width))
        for key, price in truth.prices.items()
    }
    problem = priced("residual", costs=MeasuredCosts(prices, SOURCE))
    return price_statement(problem.selection, problem.costs), problem.costs


def test_prices_without_noise_leave_no_doubt() -> None:
    statement, _ = _stated(1.0)
    assert statement.low == statement.high == statement.other
    assert statement.margin == 0
    assert statement.lines()[1].endswith("and at no prices inside them does another choice cost less")


@pytest.mark.parametrize("seed", range(3))
def test_at_any_prices_inside_the_intervals_no_choice_beats_it_by_more_than_the_margin(seed: int) -> None:
    statement, costs = _stated(1.3, seed)
    assert statement.low < statement.high
    chosen = solve(priced("residual", costs=costs).selection.problem).choices
    random = Random(seed)
    for _ in range(12):
        drawn = {
            k: random.choice((p.low, p.ns, p.high, random.randint(p.low, p.high)))
            for k, p in costs.prices.items()
        }
        there = priced("residual", costs=costs)
        there.costs = MeasuredCosts({k: Price(ns, ns, ns) for k, ns in drawn.items()}, SOURCE)
        problem = there.problem_at(End.MIDDLE)
        cost = evaluate(problem, chosen)
        assert statement.low <= cost <= statement.high
        assert cost - solve(problem).cost <= statement.margin


def test_negative_a_choice_inside_the_noise_is_said_to_be_so() -> None:
    statement, _ = _stated(3.0)
    assert 0 < statement.margin <= statement.high
    said = statement.lines()[1]
    assert "the optimum depends on differences inside the noise" in said
    assert statement.to_json()["another_may_cost_less_by"] == statement.margin


def test_a_report_counts_where_prices_come_from() -> None:
    problem = priced("residual")
    first = next(iter(problem.questions))
    problem.costs.prices[first] = Price(1, 1, 1)
    statement = price_statement(problem.selection, problem.costs)
    assert (statement.measured, statement.fitted) == (1, 0)
    assert statement.built_in == len(problem.questions) - 1
    assert statement.lines()[0].startswith(
        f"of its prices 1 are measured, 0 fitted, {statement.built_in} built in"
    )
