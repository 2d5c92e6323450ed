"""What a solution says: it adds up to the cost, and the reasons hold against an integer program."""

from __future__ import annotations

import random

from layout_ir.selection import NamedProblem, Option
from tests.selection.named_problems import Words, random_words


def test_what_a_solution_says_adds_up_to_its_cost():
    rng = random.Random(2)
    for _ in range(100):
        words = random_words(rng, rng.randint(1, 8), rng.randint(2, 5), 1.0)
        solution = words.problem().solve()
        total = sum(weight * (solution.options[name].cost or 0) for name, _, _, _, weight in words.ops)
        made = {
            (v, f)
            for name, _, results, _, _ in words.ops
            for v, f in zip(results, solution.options[name].outs, strict=True)
        }
        assert {(v, solution.formats[v]) for v in solution.formats} == made
        for reorder in solution.reorders:
            assert (reorder.value, reorder.source) in made, "a reorder starts from what is there"
            made.add((str(reorder.value), reorder.target))
            cost = words.costs[reorder.value, reorder.source, reorder.target]
            assert cost is not None
            assert reorder.cost == words.weights[str(reorder.value)] * cost
        by_value = [reorder for v in solution.formats for reorder in solution.reorders_of(v)]
        assert sorted(map(repr, by_value)) == sorted(map(repr, solution.reorders))
        needed = {
            (v, f)
            for name, operands, _, _, _ in words.ops
            for v, f in zip(operands, solution.options[name].ins, strict=True)
        }
        assert needed <= made
        assert solution.cost == total + sum(reorder.cost for reorder in solution.reorders)


def least_without(words: Words, value: object) -> int | None:
    """The optimum, by the integer program, of choices that reorder `value` for nothing or not at all."""
    costs = {key: None if key[0] == value and cost else cost for key, cost in words.costs.items()}
    return Words(words.ops, words.weights, costs).least_cost()


def test_reasons_say_what_an_integer_program_says_of_doing_without():
    rng = random.Random(4)
    forced, extra = 0, 0
    for number in range(60):
        words = random_words(rng, rng.randint(2, 6), 3, 0.9)
        if words.least_cost() is None:
            continue
        solution = words.problem().solve(lazy=bool(number % 2))
        reordered = {reorder.value for reorder in solution.reorders if reorder.cost}
        reasons = list(solution.reasons())
        assert [reason.reorders[0].value for reason in reasons] == sorted(
            reordered, key=lambda v: int(str(v)[1:])
        )
        for reason in reasons:
            (value,) = {reorder.value for reorder in reason.reorders}
            best = least_without(words, value)
            assert reason.is_forced == (best is None)
            if best is None:
                forced += 1
                assert reason.extra is None and not reason.instead
                assert "no choice does without" in str(reason)
            else:
                extra += 1
                assert reason.extra == best - solution.cost >= 0
                assert reason.instead, "doing without means that some op runs in another option"
                assert all(option is not solution.options[name] for name, option in reason.instead.items())
    assert forced > 10 and extra > 10


def test_a_reason_names_both_decisions_and_what_would_run_instead():
    problem = NamedProblem(lambda value, source, target: 5)
    problem.add_op("input", (), ("x",), [Option((), ("nchw",))])
    problem.add_op("conv", ("x",), (), [Option(("nchw",), (), 20, name="direct"), Option(("nhwc",), (), 8)])
    (reason,) = problem.solve().reasons()
    (reorder,) = reason.reorders
    assert (reorder.maker, reorder.users) == ("input", ("conv",))
    assert reason.extra == 7 and reason.instead["conv"].name == "direct"
    assert str(reason) == (
        "value 'x' is reordered from 'nchw' to 'nhwc' at a cost of 5: op 'input' makes it in the one, "
        "op 'conv' takes it in the other; doing without costs 7 more: op 'conv' runs as direct"
    )


def test_a_reorder_that_others_start_from_is_for_their_users_as_well():
    costs = {("a", "b"): 1, ("b", "c"): 1}
    problem = NamedProblem(lambda value, source, target: costs.get((source, target), 9))
    problem.add_op("in", (), ("x",), [Option((), ("a",))])
    for fmt in "bc":
        problem.add_op(f"take {fmt}", ("x",), (), [Option((fmt,), ())])
    users = {(r.source, r.target): r.users for r in problem.solve().reorders}
    assert users == {("a", "b"): ("take b", "take c"), ("b", "c"): ("take c",)}


def test_negative_nothing_is_claimed_of_what_was_not_found_in_time():
    rng = random.Random(6)
    silent = 0
    for _ in range(10):
        words = random_words(rng, 12, 4, 1.0)
        for reason in words.problem().solve().reasons(time_limit=0):
            best = least_without(words, reason.reorders[0].value)
            assert reason.is_forced == (best is None)
            if not reason.is_forced and reason.extra is None:
                silent += 1
                assert "not found in time" in str(reason)
    assert silent > 0


def test_negative_a_value_that_is_not_reordered_has_no_reason():
    problem = NamedProblem(lambda value, source, target: 5)
    problem.add_op("in", (), ("x",), [Option((), ("a",))])
    problem.add_op("out", ("x",), (), [Option(("a",), ())])
    assert list(problem.solve().reasons()) == []
