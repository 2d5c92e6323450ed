"""Maps of formats are taken where no choice becomes dearer by them, and nowhere else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from layout_ir.certificate.stated_maps import mapped_problem
from layout_ir.certificate.stated_problem import StatedProblem
from layout_ir.errors import LayoutError


def _given() -> dict[str, Any]:
    """Op 0 makes value 0 in any of three formats, op 1 takes it and makes value 1 in the same, which op 2 takes in
    format 0 alone."""
    same = [[[], [f], 1] for f in range(3)]
    through = [[[f], [f], int(f > 0)] for f in range(3)]
    uniform = [[5 * (f != g) for g in range(3)] for f in range(3)]
    return {
        "ops": [
            {"operands": [], "results": [0], "weight": 1, "choices": same},
            {"operands": [0], "results": [1], "weight": 2, "choices": through},
            {"operands": [1], "results": [], "weight": 1, "choices": [[[0], [], 0]]},
        ],
        "values": [{"reorder": uniform, "weight": 1}, {"reorder": uniform, "weight": 3}],
    }


def test_options_stay_whose_formats_the_maps_leave_as_they_are():
    given = _given()
    before = copy.deepcopy(given)
    mapped = mapped_problem(StatedProblem(given), [(0, [0, 0, 0]), (1, [0, 0, 0])])
    assert [op["choices"] for op in mapped.ops] == [[[[], [0], 1]], [[[0], [0], 0]], [[[0], [], 0]]]
    assert given == before


def test_values_without_a_map_keep_their_formats():
    through = [[[f], [0], int(f > 0)] for f in range(3)]
    given = _given()
    given["ops"][1]["choices"] = through
    mapped = mapped_problem(StatedProblem(given), [(0, [0, 1, 1])])
    assert [len(op["choices"]) for op in mapped.ops] == [2, 2, 1]
    assert mapped_problem(StatedProblem(given), []).ops == given["ops"]


@pytest.mark.parametrize(
    "maps, match",
    [
        ([(2, [0, 0, 0])], "number 2 is not below 2"),
        ([(0, [0, 0])], "one of 2 formats where it has 3"),
        ([(0, [0, 0, 0]), (0, [0, 0, 0])], "value 0 has a second map"),
        ([(0, [0, 3, 0])], "number 3 is not below 3"),
        ([(0, [0, -1, 0])], "number -1 is not below 3"),
        ([(0, [1, 2, 2]), (1, [1, 2, 2])], "maps formats that it maps others to"),
        # The op in between ties both values together.
        ([(0, [0, 0, 0])], "op 1 has no option at no more than 1"),
        # Option 0 costs less than that of format 1.
        ([(0, [1, 1, 2]), (1, [1, 1, 2])], "op 1 has no option at no more than 0"),
        # Value 1 is taken in format 0 alone.
        ([(1, [1, 1, 1])], "op 1 has no option"),
    ],
)
def test_negative_maps_that_make_some_choice_cost_more(maps: Any, match: str):
    with pytest.raises(LayoutError, match=match):
        mapped_problem(StatedProblem(_given()), maps)


def test_negative_maps_that_make_some_reorder_cost_more():
    given = _given()
    given["values"][0]["reorder"] = [[0, 5, 5], [5, 0, 1], [5, 1, 0]]
    with pytest.raises(LayoutError, match="makes some reorder from format 1 cost more"):
        mapped_problem(StatedProblem(given), [(0, [0, 0, 2]), (1, [0, 0, 2])])
