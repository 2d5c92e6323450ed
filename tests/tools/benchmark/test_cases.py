"""The table: every case binds, and lies in the memory that its size names."""

from __future__ import annotations

import pytest

from layout_ir.errors import LayoutError
from layout_ir.tools.benchmark.cases import CASES, SIZES, Case, chosen

SPANS = {"L2": (0.05, 1.1), "L3": (1.5, 10), "DRAM": (12, 80)}
"""MiB of the source."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_has_the_size_it_says(case: Case):
    for size in case.shapes:
        src, dst = case.bound(size)
        low, high = SPANS[size]
        assert src.shape == dst.shape
        assert low <= src.nbytes(case.dtype) / (1 << 20) <= high


def test_names_are_unique_and_both_groups_are_there():
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.group for case in CASES} == {"table", "peers"}


def test_words_and_sizes_choose():
    found = chosen(["crouton", "T 5"], ["L2"])
    assert [(case.name, size) for case, size in found] == [
        ("T 512", "L2"),
        ("s8 nhwc->crouton 56,56,64", "L2"),
    ]
    assert len(chosen([], [])) == sum(len(case.shapes) for case in CASES)
    assert {size for _, size in chosen([], [])} == set(SIZES)


def test_negative_words_and_sizes_that_nothing_has():
    with pytest.raises(LayoutError, match="no case is named like 'nchx'"):
        chosen(["nchw", "nchx"], [])
    with pytest.raises(LayoutError, match="unknown size 'L4': known are L2, L3, DRAM"):
        chosen([], ["L4"])
