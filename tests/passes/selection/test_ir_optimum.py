"""The selection of a program costs what trying everything says, with regions, calls and pads; and its proof holds."""

from __future__ import annotations

import copy
import json
import random

import pytest

from layout_ir.certificate.checking import verify
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.costs.cost_table import parse_costs
from layout_ir.passes.selection.options.targets import target_named
from layout_ir.passes.selection.translation.apply import apply
from layout_ir.passes.selection.translation.from_ir import build
from layout_ir.selection.solver.certificate import certify
from layout_ir.selection.solver.selection_problem import Infeasible
from tests.passes.selection.ilp import optimum_of
from tests.passes.selection.ir_programs.drawing import random_ir
from tests.passes.selection.ir_programs.optimum import priced
from tests.programs import parse
from tests.seeds import seeds

PROGRAMS = 50
"""In each part."""


@pytest.mark.parametrize("part", seeds(2, 10))
def test_optimum_of_programs_equals_brute_force(part: int):
    rng = random.Random(part)
    for _ in range(PROGRAMS):
        text, costs = random_ir(rng)
        module = parse(text)
        _, optimum = optimum_of(module, costs)
        selection = build(module, target_named("blocked8"), parse_costs(costs.to_json(), "costs"))
        if optimum is None:
            with pytest.raises(Infeasible):
                certify(selection.problem)
            continue
        solution, certificate = certify(selection.problem)
        assert solution.cost == optimum, text
        verdict = verify(json.loads(json.dumps(certificate)))
        assert verdict.cost == verdict.bound == optimum
        apply(module, selection, solution.choices)
        module.verify()
        assert priced(module, parse(text), costs) == optimum, "what was inserted is not what was paid for"
        forged = copy.deepcopy(certificate)
        forged[rng.choice(["cost", "bound"])] += rng.choice([-1, 1])
        with pytest.raises(LayoutError):
            verify(forged)
