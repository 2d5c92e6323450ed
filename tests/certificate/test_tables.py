"""Sums and least entries of tables, compared with NumPy's broadcasting over all variables at once."""

from __future__ import annotations

from itertools import combinations
from math import inf, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_ir.certificate.stated_problem import STEPS, STEPS_PER_NUMBER, Budget
from layout_ir.certificate.tables import Table, Tables
from layout_ir.errors import LayoutError


@st.composite
def _parts(draw: st.DrawFn) -> tuple[list[int], list[Table]]:
    """The states of up to five variables, and tables over some of them each, in any order."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    parts: list[Table] = []
    for _ in range(draw(st.integers(0, 5))):
        scope = draw(st.lists(st.integers(0, len(sizes) - 1), unique=True))
        count = prod(sizes[x] for x in scope)
        entries = draw(st.lists(st.integers(-(1 << 40), 1 << 40), min_size=count, max_size=count))
        parts.append(Table(tuple(scope), entries))
    return sizes, parts


def _dense(sizes: list[int], table: Table) -> np.ndarray:
    """The table over all variables, in their order."""
    own = np.array(table.entries, dtype=np.int64).reshape([sizes[x] for x in table.scope])
    own = own.transpose(np.argsort(table.scope)) if table.scope else own
    return own.reshape([size if x in table.scope else 1 for x, size in enumerate(sizes)])


def _summed(sizes: list[int], parts: list[Table]) -> np.ndarray:
    return sum((_dense(sizes, part) for part in parts), np.zeros(sizes, dtype=np.int64))


@given(_parts())
def test_sums_are_those_of_numpy(given: tuple[list[int], list[Table]]):
    sizes, parts = given
    total = Tables(sizes.__getitem__, Budget(0)).sum(parts, range(len(sizes)))
    assert sorted(total.scope) == list(range(len(sizes)))
    np.testing.assert_array_equal(_dense(sizes, total), _summed(sizes, parts))


@given(_parts())
def test_a_table_is_added_to_one_that_has_its_variables(given: tuple[list[int], list[Table]]):
    sizes, parts = given
    tables = Tables(sizes.__getitem__, Budget(0))
    total = Table(tuple(range(len(sizes))), [0] * prod(sizes))
    for part in parts:
        total = tables.plus(total, part.negated)
    np.testing.assert_array_equal(_dense(sizes, total), -_summed(sizes, parts))


@given(_parts(), st.integers(-5, 5))
def test_the_least_entry_is_that_of_numpy_also_with_a_constant_more(
    given: tuple[list[int], list[Table]], more: int
):
    sizes, parts = given
    tables = Tables(sizes.__getitem__, Budget(0))
    least = tables.least(parts)
    assert least == _summed(sizes, parts).min()
    shifted = [Table(part.scope, [entry + more for entry in part.entries]) for part in parts]
    assert tables.least(shifted) == least + more * len(parts)


@given(_parts(), st.data())
def test_states_are_kept_and_compared_as_numpy_takes_them(
    given: tuple[list[int], list[Table]], data: st.DataObject
):
    sizes, parts = given
    tables = Tables(sizes.__getitem__, Budget(0))
    table = tables.sum(parts, range(len(sizes)))
    x = data.draw(st.integers(0, len(sizes) - 1))
    others = tuple(y for y in range(len(sizes)) if y != x)
    assert tables.least_by_state(table, x) == _dense(sizes, table).min(axis=others).tolist()
    kept = data.draw(st.lists(st.integers(0, sizes[x] - 1), min_size=1, unique=True).map(sorted))
    fewer = [len(kept) if y == x else size for y, size in enumerate(sizes)]
    rest = _dense(fewer, tables.keeping(table, x, kept))
    np.testing.assert_array_equal(rest, _dense(sizes, table).take(kept, axis=x))


def test_negative_tables_alike_in_all_but_their_variables_are_not_the_same():
    sizes = [2, 2, 3]
    tables = Tables(sizes.__getitem__, Budget(0))
    ascending, descending = [0, 1], [1, 0]
    assert tables.least([Table((0,), ascending), Table((0,), descending)]) == 1
    assert tables.least([Table((0,), ascending), Table((1,), descending)]) == 0
    six = [0, 5, 1, 1, 0, 5]
    assert tables.least([Table((0, 2), six), Table((2,), [9, 0, 9])]) == 0
    assert tables.least([Table((2, 0), six), Table((2,), [9, 0, 9])]) == 1


def test_many_tables_over_the_same_variables_are_added_one_by_one():
    tables = Tables([3, 4].__getitem__, Budget(0))
    many = [Table((0, 1), list(range(12))) for _ in range(20_000)]
    assert tables.least(many) == 0
    assert tables.sum(many).entries == [20_000 * k for k in range(12)]


def test_negative_looks_at_very_many_tables_are_refused():
    steps = Budget((1 << 20) / STEPS_PER_NUMBER - STEPS / STEPS_PER_NUMBER)
    few = [Table(scope, [0] * 8) for scope in combinations(range(40), 3)]
    with pytest.raises(LayoutError, match=r"too large to check: the least entry of 9880 tables"):
        Tables(lambda _: 2, steps).least(few)
    alone = [Table((x,), [0]) for x in range(5_000)]
    with pytest.raises(LayoutError, match=r"too large to check: the least entry of 5000 tables"):
        Tables(lambda _: 1, Budget(0)).least(alone)


def test_negative_work_above_the_budget_is_refused_before_it_is_done():
    tables = Tables(lambda _: 64, Budget(-inf))
    with pytest.raises(LayoutError, match="too large to check: a cluster over 2 variables, 4096 entries"):
        tables.sum([Table((0,), [0] * 64), Table((1,), [0] * 64)], (0, 1))
    with pytest.raises(
        LayoutError, match="too large to check: a cluster over 4 variables has 16777216 entries"
    ):
        Tables(lambda _: 64, Budget(inf)).sum([Table((x,), [0] * 64) for x in range(4)])
