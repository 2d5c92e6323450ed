"""`layout-ir verify-certificate` says whether a choice is proven, with both numbers where it is not."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from layout_ir.passes.selection.certificate import certify
from layout_ir.tools.layout_ir import main
from tests.passes.selection.problems import random_problem, tangled_problem


def test_command_says_optimal(tmp_path: Any, capsys: pytest.CaptureFixture[str]):
    solution, certificate = certify(random_problem(random.Random(2), 5, 3))
    file = tmp_path / "proof.json"
    file.write_text(json.dumps(certificate))
    assert main(["verify-certificate", str(file)]) == 0
    assert f"optimal: cost {solution.cost} = bound {solution.cost}" in capsys.readouterr().out
    assert main(["verify-certificate", "--json", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["optimal"] is True


def test_negative_command_refuses_with_both_numbers(tmp_path: Any, capsys: pytest.CaptureFixture[str]):
    solution, certificate = certify(random_problem(random.Random(2), 5, 3))
    file = tmp_path / "proof.json"
    file.write_text(json.dumps({**certificate, "cost": solution.cost - 1}))
    assert main(["verify-certificate", str(file)]) == 1
    error = capsys.readouterr().err
    assert f"states cost {solution.cost - 1}, its numbers give {solution.cost}" in error
    file.write_text("{")
    assert main(["verify-certificate", str(file)]) == 1
    assert "is not JSON" in capsys.readouterr().err


def test_negative_command_does_not_take_a_gap_for_a_proof(tmp_path: Any, capsys: pytest.CaptureFixture[str]):
    rng = random.Random(7)
    certificate = next(
        found
        for found in (certify(tangled_problem(rng, 9, 3), 0, 8)[1] for _ in range(100))
        if found["bound"] < found["cost"]
    )
    file = tmp_path / "proof.json"
    file.write_text(json.dumps(certificate))
    assert main(["verify-certificate", str(file)]) == 1
    error = capsys.readouterr().err
    assert f"cost {certificate['cost']} is above bound {certificate['bound']}" in error
