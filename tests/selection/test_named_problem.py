"""Problems of names: the optimum, whatever the formats are, with few questions, or an error that names both sides."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from layout_ir.certificate.checking import Verdict
from layout_ir.errors import LayoutError
from layout_ir.selection import Infeasible, NamedProblem, Option, certify, verify
from layout_ir.selection.named_problem import ReorderCost
from tests.selection.named_problems import random_words


def every(cost: Any) -> ReorderCost:
    """Every reorder costs the same."""
    return lambda value, source, target: cost


def chain(**options: Any) -> NamedProblem:
    """An input and an output in nchw, around a convolution that is faster in nhwc; a reorder costs 5."""
    problem = NamedProblem(options.pop("cost", every(5)), **options)
    problem.add_op("input", (), ("x",), [Option((), ("nchw",))])
    problem.add_op(
        "conv", ("x",), ("y",), [Option(("nchw",), ("nchw",), 20), Option(("nhwc",), ("nhwc",), 8)]
    )
    problem.add_op("output", ("y",), (), [Option(("nchw",), ())])
    return problem


def test_the_optimum_is_that_of_an_integer_program_and_is_proven():
    rng = random.Random(1)
    impossible = 0
    for _ in range(150):
        words = random_words(rng, rng.randint(1, 8), rng.randint(2, 5), rng.choice([0.3, 0.6, 1.0]))
        best = words.least_cost()
        problem = words.problem()
        if best is None:
            impossible += 1
            with pytest.raises(Infeasible, match=r"op '.*' makes value .* takes it in"):
                problem.solve()
            continue
        solution = problem.solve(certificate=True)
        verdict = verify(json.loads(json.dumps(solution.certificate)))
        assert solution.cost == solution.bound == best == verdict.cost == verdict.bound
        assert solution.is_optimal
    assert 10 < impossible < 100


def test_costs_are_asked_for_once_and_only_where_formats_meet():
    asked: list[tuple[str, str, str]] = []

    def cost(value: str, source: str, target: str) -> int:
        asked.append((value, source, target))
        return 5

    problem = chain(cost=cost)
    assert asked == [], "stating a problem asks for nothing"
    for _ in range(3):
        solution = problem.solve()
        assert list(solution.reasons())
    # x is made in nchw alone, y is taken in nchw alone: the ways back lead nowhere.
    assert asked == [("x", "nchw", "nhwc"), ("y", "nhwc", "nchw")]
    assert problem.asked == 2


def test_a_problem_that_grows_asks_for_what_is_new():
    problem = chain()
    problem.solve()
    problem.add_op("fc", ("y",), ("z",), [Option(("nhwc",), ("rows",), 1)])
    assert problem.solve().cost == 19 and problem.asked == 3  # y from nchw to nhwc as well


def test_a_value_may_run_more_often_later_and_old_solutions_stay_what_they_were():
    problem = chain()
    before = problem.solve()
    problem.add_value("x", weight=3)
    assert problem.solve().cost == 20
    assert before.cost == 18 and [reason.extra for reason in before.reasons()] == [2, 2]


def test_negative_costs_that_were_asked_for_are_not_replaced():
    problem = chain()
    problem.solve()
    with pytest.raises(LayoutError, match="value 'x' have costs already"):
        problem.add_value("x", reorder_cost=every(2))


def _two_chains(**more: Any) -> tuple[NamedProblem, list[str]]:
    """Two values that are made in one format and taken in another, and of which values a cost was asked for."""
    asked: list[str] = []

    def cost(value: str, source: str, target: str) -> int:
        asked.append(value)
        return 5

    problem = NamedProblem(cost)
    for value in ("x", "y"):
        problem.add_op(f"make {value}", (), (value,), [Option((), ("a",))])
        problem.add_op(f"take {value}", (value,), (), [Option(("b",), ())])
        problem.add_value(value, **more)
    return problem, asked


def test_of_values_that_are_alike_one_is_asked():
    problem, asked = _two_chains(alike=("f32", 64))
    assert problem.solve().cost == problem.solve(lazy=True).cost == 10
    assert asked == ["x"] and problem.asked == 1


def test_negative_values_that_are_not_said_to_be_alike_are_asked_each():
    problem, asked = _two_chains()
    assert problem.solve().cost == 10
    assert asked == ["x", "y"] and problem.asked == 2


def test_negative_values_whose_costs_were_asked_for_do_not_become_alike():
    problem = chain()
    problem.solve()
    unhashable: Any = ["images"]
    with pytest.raises(LayoutError, match="value 'x' have costs already"):
        problem.add_value("x", alike="images")
    with pytest.raises(LayoutError, match="of value 'z' is not hashable"):
        problem.add_value("z", alike=unhashable)


@pytest.mark.parametrize("possible", [0.5, 1.0])
def test_lazy_questions_are_fewer_and_lead_to_the_same_cost(possible: float):
    rng = random.Random(3)
    fewer, all_of_them = 0, 0
    for _ in range(60):
        words = random_words(rng, rng.randint(1, 10), rng.randint(2, 6), possible)
        best = words.least_cost()
        if best is None:
            with pytest.raises(Infeasible):
                words.problem().solve(lazy=True)
            continue
        words.asked.clear()
        eager = words.problem()
        assert eager.solve().cost == best
        words.asked.clear()
        lazy = words.problem()
        solution = lazy.solve(lazy=True, certificate=True)
        assert solution.cost == solution.bound == best
        verdict = verify(solution.certificate)
        assert verdict.is_optimal and verdict.cost == best
        assert max(Counter(words.asked).values(), default=1) == 1 and lazy.asked == len(words.asked)
        assert lazy.asked <= eager.asked
        fewer += lazy.asked
        all_of_them += eager.asked
    assert fewer < 0.6 * all_of_them


def test_formats_are_any_hashable_objects():
    layouts = [(0, 1, 2), frozenset({"c"}), 7, "nchw", ("tile", (8, 128))]
    problem = NamedProblem(every(1))
    problem.add_op(0, (), [("value", 0)], [Option((), (layout,), k) for k, layout in enumerate(layouts)])
    problem.add_op(1, [("value", 0)], (), [Option((layouts[-1],), ())])
    solution = problem.solve()
    assert solution.cost == 1 and solution.formats[("value", 0)] == (0, 1, 2)
    json.dumps(problem.solve(certificate=True).certificate)


def test_one_reorder_serves_all_who_take_the_same_format():
    problem = NamedProblem(every(5))
    problem.add_op("in", (), ("x",), [Option((), ("a",))])
    for k in range(3):
        problem.add_op(k, ("x",), (), [Option(("b",), ())])
    (reorder,) = problem.solve().reorders
    assert reorder.cost == 5 and reorder.maker == "in" and reorder.users == (0, 1, 2)


def test_a_reorder_may_pass_a_format_that_nobody_takes():
    costs = {("a", "b"): 100, ("a", "via"): 3, ("via", "b"): 4}
    problem = NamedProblem(lambda value, source, target: costs.get((source, target)))
    problem.add_op("in", (), ("x",), [Option((), ("a",))])
    problem.add_op("out", ("x",), (), [Option(("b",), ())])
    assert problem.solve().cost == 100
    problem.add_value("x", formats=["via"])
    solution = problem.solve()
    assert solution.cost == 7
    assert [(r.source, r.target, r.users) for r in solution.reorders] == [
        ("a", "via", ("out",)),
        ("via", "b", ("out",)),
    ]


def test_an_operand_in_any_format_is_no_use():
    problem = NamedProblem(every(None))
    problem.add_op("in", (), ("x", "y"), [Option((), ("a", "a"))])
    problem.add_op("out", ("x", "y"), (), [Option((None, "a"), (), 1), Option((None, "b"), (), 0)])
    assert problem.solve().cost == 1 and problem.solve().reorders == ()


def test_ops_are_added_in_any_order_as_a_loop_needs():
    """A value that a loop carries is used by an op before the one that makes it, and that uses the result of the
    first."""
    problem = NamedProblem(every(5))
    problem.add_op(
        "body", ("carried",), ("next",), [Option((f,), (f,), cost) for f, cost in (("a", 9), ("b", 1))]
    )
    problem.add_op("yield", ("start", "next"), ("carried",), [Option((f, f), (f,)) for f in "ab"])
    problem.add_op("init", (), ("start",), [Option((), ("a",))])
    solution = problem.solve()
    assert solution.cost == 1 + 5
    assert [str(r.value) for r in solution.reorders] == ["start"]


def test_weights_count_ops_and_reorders_as_often_as_they_run():
    problem = NamedProblem(every(5))
    problem.add_value("x", weight=7)
    problem.add_op("in", (), ("x",), [Option((), ("a",), 2)], weight=3)
    problem.add_op("out", ("x",), (), [Option(("b",), ())])
    assert problem.solve().cost == 3 * 2 + 7 * 5


@pytest.mark.parametrize("cost", [None, inf])
def test_negative_a_value_that_never_runs_is_not_reordered_where_that_is_impossible(cost: float | None):
    problem = NamedProblem(every(cost))
    problem.add_value("x", weight=0)
    problem.add_op("in", (), ("x",), [Option((), ("a",))])
    problem.add_op("out", ("x",), (), [Option(("b",), ())])
    with pytest.raises(Infeasible, match="op 'in' makes value 'x' in 'a', and op 'out' takes it in 'b'"):
        problem.solve()


def test_fractions_are_rounded_to_the_resolution():
    problem = chain(cost=every(Fraction(1, 3)), resolution=0.001)
    problem.add_op("scale", ("y",), (), [Option(("nchw",), (), 0.25)])
    solution = problem.solve()
    assert solution.cost == pytest.approx(8 + 2 * 0.333 + 0.25) and solution.is_optimal
    assert solution.bound == solution.cost


def test_numpy_numbers_are_numbers():
    costs = [np.int64(5), np.float32(5)]
    assert [chain(cost=every(c)).solve().cost for c in costs] == [18, 18]


def test_other_solvers_choose_and_prove_nothing():
    for solver in ("greedy", "naive"):
        solution = chain().solve(solver)
        assert solution.cost == 18 and solution.bound is None and not solution.is_optimal


def test_the_time_limit_leaves_an_honest_bound():
    rng = random.Random(5)
    for _ in range(20):
        words = random_words(rng, 12, 4, 1.0)
        stopped, best = words.problem().solve(time_limit=0), words.problem().solve()
        assert stopped.bound is not None
        assert stopped.bound <= best.cost <= stopped.cost


# Errors ---------------------------------------------------------------------------------------------------------------


def message_of(problem: NamedProblem, **how: Any) -> str:
    with pytest.raises(LayoutError) as caught:
        problem.solve(**how)
    return str(caught.value)


def test_negative_two_ops_that_do_not_agree_are_named_with_their_formats():

    def cost(value: str, source: str, target: str) -> int | None:
        return None if value == "x" else 5

    problem = chain(cost=cost)
    problem.add_op("bad", ("x",), (), [Option(("nhwc",), ())])
    text = message_of(problem)
    assert "op 'input' makes value 'x' in 'nchw', and op 'bad' takes it in 'nhwc'" in text
    assert "conv" not in text and "allow a reorder" in text


def test_negative_a_conflict_of_three_names_them_and_nobody_else():
    problem = NamedProblem(every(None))
    for k in range(6):
        problem.add_op(f"in{k}", (), (f"x{k}",), [Option((), (f,)) for f in "ab"])
        problem.add_op(f"use{k}", (f"x{k}",), (), [Option((f,), ()) for f in "ab"])
    problem.add_op("join", ("x2", "x4"), (), [Option(("a", "b"), ()), Option(("b", "a"), ())])
    problem.add_op("same", ("x2", "x4"), (), [Option((f, f), ()) for f in "ab"])
    text = message_of(problem)
    assert set(re.findall(r"op '(\w+)'", text)) == {"in2", "in4", "join", "same"}


def test_negative_an_unknown_solver_and_a_proof_that_there_is_none_are_refused():
    assert "unknown solver 'best'" in message_of(chain(), solver="best")
    assert "proves nothing" in message_of(chain(), solver="greedy", certificate=True)
    assert "time_limit = -1" in message_of(chain(), time_limit=-1)
    assert "certificate = 'no'" in message_of(chain(), certificate="no")
    assert "lazy = 1" in message_of(chain(), lazy=1)


def test_negative_an_unknown_solver_is_refused_before_the_problem_is_looked_at():
    problem = NamedProblem(every(1))
    problem.add_op("out", ("x",), (), [Option(("a",), ())])
    for solver in ("best", None, ["exact"]):
        assert f"unknown solver {solver!r}" in message_of(problem, solver=solver)


def test_negative_greedy_into_a_dead_end_is_said_to_be_greedy():
    problem = NamedProblem(every(None))
    problem.add_op("in", (), ("x",), [Option((), ("a",), 0), Option((), ("b",), 1)])
    problem.add_op("out", ("x",), (), [Option(("b",), ())])
    assert problem.solve().cost == 1
    assert "solver 'greedy'" in message_of(problem, solver="greedy")


def test_negative_values_without_a_maker_are_named():
    problem = NamedProblem(every(1))
    problem.add_op("out", ("x",), (), [Option(("a",), ())])
    assert "op 'out' uses value 'x', which no op makes" in message_of(problem)
    other = chain()
    other.add_value("z")
    assert "value 'z' was added, and no op makes it" in message_of(other)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("conv", ("x",), ("w",), [Option(("a",), ("a",))]), "two ops 'conv'"),
        (("op", ("x",), ("y",), [Option(("a",), ("a",))]), "made by op 'conv' and by op 'op'"),
        (("op", (), ("z", "z"), [Option((), ("a", "a"))]), "made by op 'op' and by op 'op'"),
        (("op", ("x",), (), []), "op 'op' needs an option to run in: it has none"),
        (("op", ("x",), (), [Option(("a",), (), inf)]), "all of its options cost None or inf"),
        (("op", ("x",), (), [Option(("a", "b"), ())]), "2 formats of operands, and the op has 1 operands"),
        (("op", ("x",), (), [Option(("a",), ("b",))]), "1 formats of results, and the op has 0 results"),
        (("op", (), ("z",), [Option((), (None,))]), "in which format it makes result 0"),
        (("op", ("x",), (), [Option(("a",), ()), Option((None,), ())]), "one option per format"),
        (("op", ("x",), (), [Option((["a"],), ())]), "is not hashable"),  # pyright: ignore
        (("op", ("x",), (), [Option(("a",), (), -1)]), "costs are numbers from 0 on"),
        (("op", ("x",), (), [Option(("a",), (), nan)]), "costs are numbers from 0 on"),
        (("op", ("x",), (), [Option(("a",), (), 0.5)]), "give the problem a resolution"),
        (("op", ("x",), (), [Option(("a",), (), 2**60)]), "count in a larger unit"),
    ],
)
def test_negative_what_does_not_fit_an_op_is_refused(args: Any, text: str):
    with pytest.raises(LayoutError, match=re.escape(text)):
        chain().add_op(*args)


def test_negative_weights_resolutions_and_reorder_costs_are_checked():
    with pytest.raises(LayoutError, match="op 'op' has weight -1"):
        chain().add_op("op", ("x",), (), [Option(("a",), ())], weight=-1)
    with pytest.raises(LayoutError, match="resolution = 0 is no number above 0"):
        chain(resolution=0)
    with pytest.raises(LayoutError, match=r"reorder of value 'x' from 'nchw' to 'nhwc' costs -5"):
        chain(cost=every(-5)).solve()
    with pytest.raises(LayoutError, match="value 'x' was added before"):
        problem = chain()
        problem.add_value("x")
        problem.add_value("x")


JUNK: dict[str, Any] = {
    "None": None, "5": 5, "'x'": "x", "[1]": [1], "{'a': []}": {"a": []}, "object": object, "nan": nan,
    "(None,)": (None,), "b'ab'": b"ab",
}  # fmt: skip
JUNK_CALLS: dict[str, Callable[[Any], object]] = {
    "name": lambda junk: chain().add_op(junk, ["x"], ["w"], [Option(("nchw",), ("nchw",))]),
    "operands": lambda junk: chain().add_op("op", junk, ["w"], [Option(("nchw",), ("nchw",))]),
    "results": lambda junk: chain().add_op("op", ["x"], junk, [Option(("nchw",), ("nchw",))]),
    "options": lambda junk: chain().add_op("op", ["x"], ["w"], junk),
    "option": lambda junk: chain().add_op("op", ["x"], ["w"], [junk]),
    "formats of operands": lambda junk: chain().add_op("op", ["x"], ["w"], [Option(junk, ("nchw",))]),
    "formats of results": lambda junk: chain().add_op("op", ["x"], ["w"], [Option(("nchw",), junk)]),
    "cost": lambda junk: chain().add_op("op", ["x"], ["w"], [Option(("nchw",), ("nchw",), junk)]),
    "weight": lambda junk: chain().add_op("op", ["x"], [], [Option(("nchw",), ())], weight=junk),
    "value": lambda junk: chain().add_value(junk),
    "formats of a value": lambda junk: chain().add_value("z", formats=junk),
    "weight of a value": lambda junk: chain().add_value("z", weight=junk),
    "costs of reorders": lambda junk: NamedProblem(junk),
    "resolution": lambda junk: NamedProblem(every(1), resolution=junk),
    "solver": lambda junk: chain().solve(solver=junk),
    "time limit": lambda junk: chain().solve(time_limit=junk),
}  # fmt: skip
NAMES = {"None", "5", "'x'", "object", "nan", "(None,)", "b'ab'"}
"""Whatever has a hash is a name or a format."""

MEANT: dict[str, set[str]] = {
    "name": NAMES,
    "value": NAMES,
    # Rows of one: the op has one operand, and one result, which is not "x" again.
    "operands": {"'x'", "[1]", "{'a': []}", "(None,)"},
    "results": {"[1]", "{'a': []}", "(None,)"},
    # None is any format of an operand, and none that a result is made in.
    "formats of operands": {"'x'", "[1]", "(None,)"},
    "formats of results": {"'x'", "[1]", "{'a': []}"},
    "formats of a value": {"'x'", "[1]", "{'a': []}", "(None,)", "b'ab'"},
    "cost": {"5"},
    "weight": {"5"},
    "weight of a value": {"5"},
    "costs of reorders": {"object"},  # which can be called
    "resolution": {"None", "5"},
    "time limit": {"None", "5"},
}
"""Where -> what of the junk means something there."""


@pytest.mark.parametrize("place", JUNK_CALLS)
def test_negative_junk_is_refused_by_our_error_and_nothing_else(place: str):
    accepted: set[str] = set()
    for junk, value in JUNK.items():
        with suppress(LayoutError):
            JUNK_CALLS[place](value)
            accepted.add(junk)
    assert accepted <= MEANT.get(place, set())


def test_an_error_of_the_cost_model_is_the_callers():
    def broken(value: str, source: str, target: str) -> int:
        raise KeyError(value)

    with pytest.raises(KeyError, match="x"):
        chain(cost=broken).solve()


def test_ops_that_share_their_options_are_as_if_each_had_its_own():
    def stated(*, shared: bool) -> NamedProblem:
        def options() -> tuple[Option, ...]:
            return Option(("a",), ("a",), 3), Option(("b",), ("b",), 1), Option(("b",), ("b",), 2)

        problem, common = NamedProblem(every(4)), options()
        problem.add_op("input", (), ("v0",), [Option((), ("a",))])
        for k in range(3):
            problem.add_op(
                k, (f"v{k}",), (f"v{k + 1}",), common if shared else options(), weight=1 + 5 * (k == 1)
            )
        problem.add_op("output", ("v3",), (), [Option(("a",), ())])
        return problem

    one, other = stated(shared=True), stated(shared=False)
    assert one.numbers() == other.numbers()
    assert one.solve().cost == other.solve().cost == 4 + 1 + 6 + 1 + 4


def test_negative_shared_options_do_not_fit_an_op_of_more_operands_or_of_too_large_a_weight():
    options = (Option(("a",), ("a",), 1 << 50),)
    problem = NamedProblem(every(1))
    problem.add_op("one", ("x",), ("y",), options)
    with pytest.raises(LayoutError, match="has 1 formats of operands, and the op has 2 operands"):
        problem.add_op("two", ("x", "y"), ("z",), options)
    with pytest.raises(LayoutError, match=r"costs are added up to 2\^56"):
        problem.add_op("often", ("y",), ("z",), options, weight=1 << 10)


@pytest.mark.parametrize(
    "extra, message",
    [
        ({"cost": 0}, "extra has an entry 'cost', which the certificate has itself"),
        ({"seal": ""}, "extra has an entry 'seal'"),
        ({"problem": {}}, "extra has an entry 'problem'"),
        ({"origin": 1}, "extra: origin = 1 is no dict"),
        (3, "extra = 3 is no dict of entries of a certificate"),
        ("cost", "extra = 'cost' is no dict"),
    ],
)
def test_negative_entries_that_a_certificate_has_itself(extra: Any, message: str):
    problem = NamedProblem(lambda value, source, target: 1)
    problem.add_op("maker", [], ["x"], [Option([], ["a"])])
    problem.add_op("user", ["x"], [], [Option(["b"], [])])
    with pytest.raises(LayoutError, match=message):
        problem.solve(certificate=True, extra=extra)
    with pytest.raises(LayoutError, match=message):
        certify(problem.numbers(), extra=extra)
    more = {"omitted": 2, "origin": {"file": "x.mlir"}}
    certificate = problem.solve(certificate=True, extra=more).certificate
    assert certificate is not None and certificate["origin"]["file"] == "x.mlir"
    assert verify(json.loads(json.dumps(certificate))) == Verdict(cost=1, bound=1, omitted=2)


def test_negative_what_a_value_costs_is_a_function():
    problem = NamedProblem(lambda value, source, target: 1)
    problem.add_op("maker", [], ["x"], [Option([], ["a"])])
    wrong: Any = 5
    with pytest.raises(LayoutError, match="reorder_cost of value 'x' is 5, and no function"):
        problem.add_value("x", reorder_cost=wrong)
    problem.add_value("x", reorder_cost=lambda value, source, target: 5)
