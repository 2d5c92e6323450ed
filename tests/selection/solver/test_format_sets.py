"""Numbers of sets against a list of all of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from layout_ir.selection.solver.format_sets import count_sets, members_of, set_numbers, sets_of


def test_sets_come_by_size_and_in_lexicographic_order():
    listed = [chosen for size in (1, 2, 3) for chosen in combinations(range(4), size)]
    assert list(sets_of(4, 3)) == listed
    assert count_sets(4, 3) == len(listed)
    assert [tuple(np.flatnonzero(row)) for row in members_of(4, 3)] == listed


@pytest.mark.parametrize("uses", [1, 2, 3, 4])
def test_sets_of_many_formats_have_the_numbers_of_sets_of(uses: int):
    # Of 13 formats, 1 to 3 uses are listed and 4 are counted.
    rng = np.random.default_rng(uses)
    number = {chosen: k for k, chosen in enumerate(sets_of(13, uses))}
    used = [rng.integers(0, 13, 50) for _ in range(uses)]
    asked = [tuple(sorted({int(formats[k]) for formats in used})) for k in range(50)]
    assert set_numbers(used, 13).tolist() == [number[chosen] for chosen in asked]
