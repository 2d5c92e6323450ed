"""Tables as lists of integers have the entries that arrays of those shapes have."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from layout_ir.selection.solver.selection_problem import FORBIDDEN
from layout_ir.selection.solver.small_tables import added, combined, least, limited, spread

SHAPE = (2, 3, 4)


@pytest.mark.parametrize(
    "axes", [axes for n in range(4) for axes in itertools.permutations(range(3), n)], ids=str
)
def test_spread_repeats_a_table_along_the_axes_that_it_does_not_have(axes: tuple[int, ...]):
    table = np.random.default_rng(len(axes)).integers(0, 99, [SHAPE[axis] for axis in axes])
    order = sorted(axes)
    turned = table.transpose([axes.index(axis) for axis in order])
    whole = np.broadcast_to(turned.reshape([SHAPE[k] if k in axes else 1 for k in range(3)]), SHAPE)
    assert list(spread(table.ravel().tolist(), axes, SHAPE)) == whole.ravel().tolist()


def test_least_is_the_first_of_equals():
    rng = random.Random(0)
    for states, rest in itertools.product((1, 2, 5), (1, 3)):
        table = [rng.randrange(3) for _ in range(states * rest)]
        array = np.array(table).reshape(states, rest)
        assert least(table, states) == (array.min(axis=0).tolist(), array.argmin(axis=0).tolist())


def test_sums_and_limits():
    tables = [[1, 2], [10, 20], [100, FORBIDDEN]]
    assert added(tables) == [111, FORBIDDEN + 22]
    assert limited(added(tables)) == [111, FORBIDDEN]
    assert tables[0] == [1, 2]


def test_combined_has_the_bits_of_one_member_per_group():
    assert combined([[0b1, 0b10], [0b1, 0b100, 0]]) == [0b1, 0b101, 0b1, 0b11, 0b110, 0b10]
    assert combined([]) == [0]
