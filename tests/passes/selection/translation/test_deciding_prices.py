"""Measuring what decides gives the choice that measuring everything gives, for fewer questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from layout_ir.passes.selection.costs.measured_costs import End
from layout_ir.passes.selection.costs.price_keys import PriceKey
from layout_ir.passes.selection.costs.price_table import Price
from layout_ir.passes.selection.translation.deciding_prices import Settled, settle
from layout_ir.passes.selection.translation.priced_selection import Question
from layout_ir.selection.solver.selection_problem import evaluate
from layout_ir.selection.solver.solve import solve
from tests.passes.selection.costs.priced_problems import Clock, Truth, priced

FOREVER = 1e9


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["residual", "unet"])
def test_the_choice_is_the_one_that_all_prices_give(name: str, seed: int) -> None:
    problem = priced(name)
    truth = Truth(problem, seed)
    settled = settle(problem, truth.answers, FOREVER)
    assert settled.is_settled and settled.measured == len(truth.asked) == len(set(truth.asked))
    chosen = solve(problem.problem_at(End.MIDDLE)).choices
    problem.costs.prices.update(truth.prices)
    everything = problem.problem_at(End.MIDDLE)
    assert evaluate(everything, chosen) == solve(everything).cost


def test_fewer_questions_are_asked_than_there_are() -> None:
    problem = priced("unet")
    truth = Truth(problem, seed=0)
    settle(problem, truth.answers, FOREVER)
    assert len(truth.asked) < len(problem.questions)


def test_all_prices_are_measured_on_request_those_that_decide_first() -> None:
    some, whole = priced("residual"), priced("residual")
    few, all_ = Truth(some, seed=2), Truth(whole, seed=2)
    settle(some, few.answers, FOREVER)
    settled = settle(whole, all_.answers, FOREVER, everything=True)
    assert set(all_.asked) == set(whole.questions)
    assert all_.asked[: len(few.asked)] == few.asked
    assert settled.is_settled


def test_what_is_known_is_not_measured_again() -> None:
    problem = priced("residual")
    truth = Truth(problem, seed=4)
    settle(problem, truth.answers, FOREVER)
    asked = len(truth.asked)
    assert settle(problem, truth.answers, FOREVER) == Settled(0, 0, 0, True)
    assert len(truth.asked) == asked


def test_negative_time_ends_it_between_two_questions() -> None:
    problem = priced("unet")
    truth = Truth(problem, seed=5)
    settled = settle(problem, truth.answers, 3.0, clock=Clock())
    assert settled.measured == len(truth.asked) == 3
    assert not settled.is_settled


def test_negative_what_cannot_be_measured_is_asked_for_once() -> None:
    problem = priced("residual")
    asked: list[PriceKey] = []

    def nothing(questions: Sequence[tuple[PriceKey, Question]]) -> Iterator[tuple[PriceKey, Price | None]]:
        for key, _ in questions:
            asked.append(key)
            yield key, None

    settled = settle(problem, nothing, FOREVER)
    assert settled.measured == 0 and settled.failed == len(asked) == len(set(asked)) > 0
    assert settled.is_settled


def test_progress_counts_up_to_what_is_left() -> None:
    problem = priced("residual")
    seen: list[tuple[int, int]] = []
    settle(problem, Truth(problem, 0).answers, FOREVER, progress=lambda done, of: seen.append((done, of)))
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert all(done <= of for done, of in seen) and seen[-1][0] == seen[-1][1]
