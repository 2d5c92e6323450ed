"""A bound is of the problem only if every factor is in one cluster, and messages stay between clusters."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from layout_ir.certificate.checking import FORMAT, recompute
from layout_ir.errors import LayoutError
from layout_ir.selection.solver.certificate import certify
from tests.selection.problems import random_problem


def test_negative_clusters_and_messages_must_belong_together():
    _, certificate = certify(random_problem(random.Random(2), 5, 3))
    without = copy.deepcopy(certificate)
    without["clusters"][0]["factors"] = []
    with pytest.raises(LayoutError, match=r"factor .* is in no cluster"):
        recompute(without)
    twice = copy.deepcopy(certificate)
    twice["clusters"][0]["factors"] *= 2
    with pytest.raises(LayoutError, match="is in two clusters"):
        recompute(twice)
    strange = copy.deepcopy(certificate)
    source, _, scope, table = strange["messages"][0]
    strange["messages"][0] = [source, 0, scope, table]
    with pytest.raises(LayoutError, match="does not belong in a cluster over"):
        recompute(strange)
    fraction = copy.deepcopy(certificate)
    fraction["messages"][0][3][0] = 0.5
    with pytest.raises(LayoutError, match=r"0\.5 is not an integer"):
        recompute(fraction)


def _stranger(formats: int, uses: int) -> dict[str, Any]:
    """A certificate that says little, about one value of many formats and uses."""
    choices = range(formats)
    make = {"operands": [], "results": [0], "weight": 1, "choices": [[[], [f], 0] for f in choices]}
    use = {"operands": [0], "results": [], "weight": 1, "choices": [[[f], [], 0] for f in choices]}
    reorder = [[int(f != g) for g in choices] for f in choices]
    problem = {"ops": [make, *[use] * uses], "values": [{"reorder": reorder, "weight": 1}]}
    empty: dict[str, Any] = {"sets": [], "clusters": [], "messages": [], "proofs": []}
    return {"format": FORMAT, "problem": problem, **empty, "scale": 1, "choices": [0] * (uses + 1)}


def _cluster(uses: int, *functions: list[Any]) -> dict[str, Any]:
    scope = list(range(uses + 1))
    return {"scope": scope, "factors": list(functions)}


_TOO_LARGE: list[tuple[int, int, dict[str, Any]]] = [
    (10, 8, {"clusters": [_cluster(8)]}),
    (6, 7, {"clusters": [_cluster(7, ["value", 0, 0])]}),
    (40, 40, {"sets": [[0, -1, list(range(40))]]}),
    (64, 64, {"sets": [[0, -1, list(range(64))]]}),
    (10, 5, {"clusters": [_cluster(5)] * 100}),
    (30, 20, {"choices": [0, *range(20)], "clusters": [{"scope": [], "factors": []}] * 2}),
]


@pytest.mark.parametrize(("formats", "uses", "more"), _TOO_LARGE)
def test_negative_tables_that_few_numbers_ask_for_are_refused_before_they_are_made(
    formats: int, uses: int, more: dict[str, Any]
):
    with pytest.raises(LayoutError, match=r"too large to check: .* (entries|steps)|is in no cluster"):
        recompute({**_stranger(formats, uses), **more})


def test_negative_numbers_of_any_length_are_refused():
    certificate = certify(random_problem(random.Random(2), 3, 3))[1]
    for number in (1 << 100, -(10**4000)):
        with pytest.raises(LayoutError, match="bits is more than any cost"):
            recompute({**certificate, "scale": number})


def test_negative_weights_are_not_below_zero():
    certificate = certify(random_problem(random.Random(2), 3, 3))[1]
    for kind in ("ops", "values"):
        changed = copy.deepcopy(certificate)
        changed["problem"][kind][0]["weight"] = -1
        with pytest.raises(LayoutError, match="weight -1, at least 0"):
            recompute(changed)
