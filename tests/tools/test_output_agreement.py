"""How equal outputs are: floats up to rounding, all else exactly, NaNs and infinities where they were."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from layout_ir.tools.output_agreement import agreements

F = np.float32
NAN, INF = float("nan"), float("inf")


def _found(before: Any, after: Any) -> Any:
    (found,) = agreements({"y": before}, {"y": after})
    return found


@pytest.mark.parametrize(
    ("before", "after", "difference"),
    [
        (np.array([1, -8], F), np.array([1, -8], F), 0.0),
        (np.array([1, -8], F), np.array([1 + 2**-11, -8], F), 2**-14),
        (np.array([NAN, INF, 4], F), np.array([NAN, INF, 4 + 2**-12], F), 2**-14),
        (np.array([4j, 1]), np.array([4j, 1 + 2**-12 * 1j]), 2**-14),
        (np.array([4], np.float16), np.array([4 + 2**-8], np.float16), 2**-10),
        (np.array([4], ml_dtypes.bfloat16), np.array([4 + 2**-5], ml_dtypes.bfloat16), 2**-7),
        (np.zeros((0, 3), F), np.zeros((0, 3), F), 0.0),
        (np.array(0, F), np.array(2**-20, F), 2**-20),
    ],
)
def test_floats_are_equal_up_to_rounding(before: Any, after: Any, difference: float):
    found = _found(before, after)
    assert found.is_equal
    assert found.difference == difference


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (np.array([1, -8], F), np.array([1, -7.99], F), "they differ by 1.3e-03"),
        (np.array([1, -8], F), np.array([NAN, -8], F), "1.0 became nan at [0]"),
        (np.array([[1, INF]], F), np.array([[1, -INF]], F), "inf became -inf at [0, 1]"),
        (np.array([NAN, 1], F), np.array([0, 1], F), "nan became 0.0 at [0]"),
        (np.array([1j]), np.array([1.01j]), "they differ"),
        (np.array([2**53 + 1]), np.array([2**53]), "1 of 1 elements differ"),
        (np.array([True, False]), np.array([True, True]), "1 of 2 elements differ"),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), "1 of 2 elements differ"),
        (np.ones((2, 3), F), np.ones((3, 2), F), "float32 2x3 became float32 3x2"),
        (np.ones(2, F), np.ones(2), "float32 2 became float64 2"),
        (np.ones(2, F), None, "only one run has a value for it"),
        ([np.ones(2, F)], [], "1 elements became 0"),
    ],
)
def test_negative_what_is_no_rounding_differs(before: Any, after: Any, reason: str):
    found = _found(before, after)
    assert not found.is_equal
    assert reason in found.reason


@pytest.mark.parametrize("array", [np.array([1, 2]), np.array([True]), np.array(["a"], object)])
def test_what_is_no_float_is_equal_exactly(array: Any):
    found = _found(array, array.copy())
    assert found.is_equal
    assert (found.difference, found.limit) == (None, 0.0)


def test_elements_of_sequences_and_maps_are_compared_one_by_one():
    before = {"s": [np.ones(2, F), {"k": 1.0}], "n": None}
    after = {"s": [np.ones(2, F), {"k": 2.0}], "n": None}
    found = agreements(before, after)
    assert [(entry.name, entry.is_equal) for entry in found] == [
        ("s[0]", True),
        ("s[1][k]", False),
        ("n", True),
    ]
