"""A bound is of the problem only if every factor is in one cluster, and messages stay between clusters."""

from __future__ import annotations

import copy
import random

import pytest

from layout_ir.certificate.checking import recompute
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.certificate import certify
from tests.passes.selection.problems import random_problem


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
