"""Sets of formats stand for what users need, and nothing else passes for them."""

from __future__ import annotations

import random

import pytest

from layout_ir.certificate.checking import recompute
from layout_ir.errors import LayoutError
from layout_ir.selection.solver.certificate import certify
from tests.selection.problems import dense_problem, hub_problem


def test_negative_a_tail_with_other_wishes_proves_nothing():
    certificate = certify(dense_problem(random.Random(4), 8, 3), table_limit=1 << 8)[1]
    entry = next(entry for entry in certificate["sets"] if entry[1] != -1)
    entry[2] = [entry[2][1], entry[2][0], *entry[2][2:]]
    with pytest.raises(LayoutError, match="does not need of value"):
        recompute(certificate)


def test_negative_sets_that_are_not_what_users_need():
    certificate = certify(hub_problem(random.Random(3), 8, 4), table_limit=1 << 10)[1]
    (value, tail, wanted), *_ = certificate["sets"]
    for changed, match in (
        ([[value, tail, wanted[1:]]], f"the formats that value {value} may be needed in are not"),
        ([[value, tail, wanted], [value, tail, wanted]], f"the formats that value {value} may be needed in"),
        ([[value, value, wanted]], f"value {value} stands in no list before value {value}, whose tail it is"),
        ([[99, -1, wanted]], "number 99 is not below"),
    ):
        with pytest.raises(LayoutError, match=match):
            recompute({**certificate, "sets": changed})
