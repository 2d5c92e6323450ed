"""Certificates of the solver prove what it says, and nothing else passes for one."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any, cast

import pytest

from layout_ir.certificate import recompute, seal, verify
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.certificate import certify
from layout_ir.passes.selection.problem import Choice, OpNode, Problem, ValueNode
from layout_ir.tools.layout_ir import main
from tests.passes.selection.problems import (
    brute_force,
    cyclic_problem,
    dense_problem,
    hub_problem,
    random_problem,
    tangled_problem,
    two_format_problem,
)


def _problem_of(certificate: dict[str, Any]) -> Problem:
    """The problem that a certificate is about, read without the checker."""
    ops = tuple(
        OpNode(
            tuple(op["operands"]),
            tuple(op["results"]),
            tuple(Choice(tuple(ins), tuple(outs), cost) for ins, outs, cost in op["choices"]),
            op["weight"],
        )
        for op in certificate["problem"]["ops"]
    )
    values = tuple(
        ValueNode(tuple(map(tuple, value["reorder"])), value["weight"])
        for value in certificate["problem"]["values"]
    )
    return Problem(ops, values)


def test_certificate_of_elimination_proves_the_optimum():
    rng = random.Random(1)
    for _ in range(1000):
        problem = random_problem(rng, rng.randint(1, 5), rng.randint(2, 6))
        solution, certificate = certify(problem)
        verdict = verify(json.loads(json.dumps(certificate)))
        assert verdict.cost == verdict.bound == solution.cost == brute_force(problem)
        assert _problem_of(certificate) == problem


@pytest.mark.parametrize("limit", [1, 8, 16])
def test_certificate_of_search_proves_the_optimum(limit: int):
    rng = random.Random(limit)
    searched = 0
    for _ in range(150):
        problem = random_problem(rng, rng.randint(1, 5), rng.randint(2, 6))
        _, certificate = certify(problem, table_limit=limit)
        verdict = verify(certificate)
        assert verdict.cost == verdict.bound == brute_force(problem)
        searched += bool(certificate["proofs"])
    assert searched > 20


@pytest.mark.parametrize("limit", [1, 12, 1 << 20])
def test_certificate_of_programs_with_loops(limit: int):
    rng = random.Random(limit)
    for _ in range(150):
        problem = cyclic_problem(rng, rng.randint(1, 5), rng.randint(1, 6))
        solution, certificate = certify(problem, table_limit=limit)
        assert verify(certificate).bound == solution.bound == solution.cost == brute_force(problem)


def test_certificate_of_a_search_that_was_stopped_proves_its_gap():
    rng = random.Random(7)
    gaps = 0
    for _ in range(40):
        problem = tangled_problem(rng, 9, 3)
        solution, certificate = certify(problem, time_limit=0, table_limit=8)
        verdict = verify(certificate)
        assert verdict.bound == solution.bound
        assert verdict.bound <= _optimum(problem) <= verdict.cost
        gaps += not verdict.is_optimal
    assert gaps > 5


def _optimum(problem: Problem) -> int:
    return brute_force(problem) if len(problem.ops) < 8 else certify(problem)[0].cost


def test_certificate_of_a_dense_block():
    rng = random.Random(4)
    tails = 0
    for _ in range(20):
        problem = dense_problem(rng, 8, 3)
        solution, certificate = certify(problem, table_limit=1 << 8)
        verdict = verify(json.loads(json.dumps(certificate)))
        assert verdict.cost == verdict.bound == solution.cost
        tails += sum(entry[1] != -1 for entry in certificate["sets"])
    assert tails, "no set is part of another: nothing is tested"


def test_certificate_of_an_elimination_without_time_proves_its_bound():
    problem = dense_problem(random.Random(4), 8, 3)
    solution, certificate = certify(problem, time_limit=0)
    verdict = verify(json.loads(json.dumps(certificate)))
    optimum = certify(problem)[0].cost
    assert solution.bound is not None
    assert solution.bound <= verdict.bound < optimum <= verdict.cost == solution.cost


def test_negative_a_tail_with_other_wishes_proves_nothing():
    certificate = certify(dense_problem(random.Random(4), 8, 3), table_limit=1 << 8)[1]
    entry = next(entry for entry in certificate["sets"] if entry[1] != -1)
    entry[2] = [entry[2][1], entry[2][0], *entry[2][2:]]
    with pytest.raises(LayoutError, match="does not need of value"):
        recompute(certificate)


def test_certificate_of_a_hub():
    solution, certificate = certify(hub_problem(random.Random(3), 40, 4))
    assert [v for v, _, _ in certificate["sets"]] == [0]
    assert verify(certificate).bound == solution.cost


def _places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all numbers in a certificate."""
    if isinstance(node, dict):
        for key, child in cast(dict[str, Any], node).items():
            yield from _places(child, (*path, key))
    elif isinstance(node, list):
        for key, child in enumerate(cast(list[Any], node)):
            yield from _places(child, (*path, key))
    elif isinstance(node, int):
        yield path


def _changed(certificate: dict[str, Any], path: tuple[Any, ...], by: int) -> dict[str, Any]:
    result = copy.deepcopy(certificate)
    node = result
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] += by
    return result


def _certificates() -> list[tuple[str, dict[str, Any]]]:
    rng = random.Random(11)
    eliminated = certify(random_problem(rng, 3, 3))[1]
    hub = certify(hub_problem(rng, 7, 3), table_limit=1 << 10)[1]
    searched = next(
        found
        for found in (certify(tangled_problem(rng, 6, 2), table_limit=4)[1] for _ in range(100))
        if "split" in json.dumps(found) and "drop" in json.dumps(found)
    )
    cut = certify(two_format_problem(rng, 6), table_limit=2)[1]
    return [("elimination", eliminated), ("hub", hub), ("search", searched), ("cut", cut)]


@pytest.mark.parametrize(
    ("name", "certificate"), _certificates(), ids=lambda v: v if isinstance(v, str) else ""
)
def test_negative_one_changed_number_is_rejected(name: str, certificate: dict[str, Any]):
    """Every number, up and down. With the seal made anew, what still passes is true of the problem it then states."""
    verify(certificate)
    places = list(_places(certificate))
    assert len(places) > 100
    passed = 0
    for path in places:
        for by in (1, -1):
            changed = _changed(certificate, path, by)
            with pytest.raises(LayoutError):
                verify(changed)
            changed["seal"] = seal(changed)
            try:
                verdict = verify(changed)
            except LayoutError:
                continue
            passed += 1
            assert path[0] not in ("cost", "bound")
            if path[0] == "problem":
                problem = _problem_of(changed)
                assert verdict.bound <= certify(problem)[0].cost <= verdict.cost
            else:
                assert verdict.bound == certificate["cost"]
    assert passed < 2 * len(places) * 0.6


def test_negative_wrong_numbers_are_told_with_both_sides():
    _, certificate = certify(random_problem(random.Random(2), 5, 3))
    cost = certificate["cost"]
    for name in ("cost", "bound"):
        with pytest.raises(LayoutError, match=f"states {name} {cost + 1}, its numbers give {cost}"):
            verify({**certificate, name: cost + 1})
    with pytest.raises(LayoutError, match=r"the certificate was altered: its seal is 0+, its content has"):
        verify({**certificate, "seal": "0" * 64})


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


@pytest.mark.parametrize("text", ["{}", "[]", "7", '{"format": "layout-ir selection certificate 2"}'])
def test_negative_something_else_is_not_a_certificate(text: str):
    with pytest.raises(LayoutError, match="certificate"):
        verify(json.loads(text))


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


def test_checker_imports_nothing_of_the_solver():
    import ast
    import sys
    from pathlib import Path

    from layout_ir import certificate

    tree = ast.parse(Path(certificate.__file__).read_text())
    modules = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    modules |= {alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
    ours = {name for name in modules if name.split(".")[0] not in sys.stdlib_module_names}
    assert ours == {"layout_ir.errors"}
