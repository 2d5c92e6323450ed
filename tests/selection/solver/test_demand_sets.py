"""Which values tie their sets to each other, and when they must not."""

from __future__ import annotations

from layout_ir.selection.solver.demand_sets import ALONE, SETS, find_demand_sets

AGREE = (0, 1, 2)


def test_the_last_uses_of_one_value_are_all_uses_of_another():
    uses = {
        0: [(3, AGREE), (5, AGREE), (7, AGREE), (9, AGREE)],
        1: [(5, AGREE), (7, AGREE), (9, AGREE)],
        2: [(9, AGREE)],
    }
    sets = find_demand_sets([0], uses)
    assert sets[0].tail == 1 and sets[0].direct == ((3, (AGREE,)),)
    assert sets[1].tail == 2 and [op for op, _ in sets[1].direct] == [5, 7]
    assert sets[2].tail is None and list(sets) == [2, 1, 0]


def test_formats_may_have_other_names():
    sets = find_demand_sets([0], {0: [(3, (0,)), (5, (2, 0, 1))], 1: [(5, AGREE)]})
    assert sets[0].tail == 1
    assert sets[0].wanted == (2, 0, 1) and sets[1].wanted == AGREE


def test_negative_uses_that_ask_for_other_formats_are_not_shared():
    """The last op wants one format of the first value where it wants two of the second."""
    sets = find_demand_sets([0], {0: [(3, AGREE), (5, (0, 0, 1))], 1: [(5, AGREE)]})
    assert sets[0].tail is None and list(sets) == [0]


def test_negative_an_op_that_uses_a_value_twice_stays_whole():
    sets = find_demand_sets([0], {0: [(3, AGREE), (5, AGREE), (5, (1, 0, 2))], 1: [(5, (1, 0, 2))]})
    assert sets[0].tail is None
    assert sets[0].direct[1] == (5, ((1, 0, 2), AGREE))


def test_negative_values_with_very_many_sets_are_not_tied():
    wishes = tuple(range(10))
    uses = {0: [(op, wishes) for op in range(12)], 1: [(op, wishes) for op in range(2, 12)]}
    assert find_demand_sets([0], uses)[0].tail is None


def test_fewer_sets_are_told_apart_of_a_value_that_shares_no_uses():
    """Of 12 formats there are 4095 sets, and 298 of at most 3."""
    wishes = tuple(range(12))
    sets = find_demand_sets([0], {0: [(op, wishes) for op in range(20)]})
    assert sets[0].more and sets[0].most == 3 and sets[0].states == 299 <= ALONE


def test_negative_all_sets_are_told_apart_of_values_that_share_uses():
    wishes = tuple(range(12))
    uses = {0: [(op, wishes) for op in range(20)], 1: [(op, wishes) for op in range(2, 20)]}
    sets = find_demand_sets([0], uses)
    assert not sets[0].more and not sets[1].more and sets[0].states == sets[1].states == 4095 <= SETS
