"""The policy holds inside of the function or context it was given to, and nowhere else."""

from __future__ import annotations

import threading

import pytest

from layout_ir.symbolic.guarding import Policy, policy, size_oblivious, under, unguarded


def test_guarding_is_the_rule():
    assert policy() == "guarding"


def test_the_innermost_policy_holds():
    @size_oblivious
    def outer() -> tuple[Policy, Policy, Policy]:
        before = policy()
        return before, inner(), policy()

    @unguarded
    def inner() -> Policy:
        return policy()

    assert outer() == ("size-oblivious", "unguarded", "size-oblivious")
    assert policy() == "guarding"


def test_a_marked_function_keeps_its_name_arguments_and_result():
    @unguarded
    def added(x: int, *, y: int) -> int:
        """The sum."""
        return x + y

    assert (added.__name__, added.__doc__, added(3, y=4)) == ("added", "The sum.", 7)


def test_negative_an_exception_leaves_no_policy_behind():
    @size_oblivious
    def fails() -> None:
        raise ValueError(policy())

    with pytest.raises(ValueError, match="size-oblivious"):
        fails()
    with pytest.raises(ValueError, match="inside"), under("unguarded"):
        raise ValueError("inside")
    assert policy() == "guarding"


def test_negative_other_threads_have_their_own():
    seen: list[Policy] = []
    with under("unguarded"):
        thread = threading.Thread(target=lambda: seen.append(policy()))
        thread.start()
        thread.join()
    assert seen == ["guarding"]
