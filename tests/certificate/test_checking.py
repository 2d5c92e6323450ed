"""What passes for a certificate is true; the checker and the solver share no code."""

from __future__ import annotations

import ast
import copy
import functools
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from layout_ir import certificate as checker
from layout_ir.certificate.checking import seal, verify
from layout_ir.errors import LayoutError
from layout_ir.selection.solver.certificate import certify
from tests.selection.problems import (
    hub_problem,
    problem_of,
    random_problem,
    tangled_problem,
    tied_problem,
    two_format_problem,
)


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


@functools.cache
def _certificates() -> dict[str, dict[str, Any]]:
    """A certificate of each kind of proof."""
    rng = random.Random(11)
    eliminated = certify(random_problem(rng, 3, 3))[1]
    hub = certify(hub_problem(rng, 7, 3), table_limit=1 << 10)[1]
    found = (certify(tangled_problem(rng, 4, 2), table_limit=4)[1] for _ in range(100))
    # Of those that have both steps, the shortest: each of its numbers is changed, and the whole is checked for each.
    searched = min((text for text in map(json.dumps, found) if "split" in text and "drop" in text), key=len)
    cut = certify(two_format_problem(rng, 6), table_limit=2)[1]
    tied = (certify(tied_problem(rng), table_limit=1)[1] for _ in range(40))
    mapped = min((text for text in map(json.dumps, tied) if '"maps"' in text), key=len)
    return {
        "elimination": eliminated, "hub": hub, "search": json.loads(searched), "cut": cut, "maps": json.loads(mapped)
    }  # fmt: skip


@pytest.mark.parametrize("proof", ["elimination", "hub", "search", "cut", "maps"])
def test_negative_one_changed_number_is_rejected(proof: str):
    """Every number, up and down. With the seal made anew, what still passes is true of the problem it then states."""
    certificate = _certificates()[proof]
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
                problem = problem_of(changed)
                assert verdict.bound <= certify(problem)[0].cost <= verdict.cost
            else:
                assert verdict.bound == certificate["cost"]
    assert passed < 2 * len(places) * 0.6


def test_negative_an_entry_that_is_missing_or_of_another_type():
    _, certificate = certify(random_problem(random.Random(3), 3, 3))
    for name in certificate.keys() - {"omitted", "origin"}:
        with pytest.raises(LayoutError, match=name):
            verify({key: value for key, value in certificate.items() if key != name})
        for wrong in (None, "x", 1.5, -1):
            other = {**certificate, name: wrong}
            if name != "seal":
                other["seal"] = seal(other)
            with pytest.raises(LayoutError):
                verify(other)


def test_negative_wrong_numbers_are_told_with_both_sides():
    _, certificate = certify(random_problem(random.Random(2), 5, 3))
    cost = certificate["cost"]
    for name in ("cost", "bound"):
        with pytest.raises(LayoutError, match=f"states {name} {cost + 1}, its numbers give {cost}"):
            verify({**certificate, name: cost + 1})
    with pytest.raises(LayoutError, match=r"the certificate was altered: its seal is 0+, its content has"):
        verify({**certificate, "seal": "0" * 64})


@pytest.mark.parametrize("text", ["{}", "[]", "7", '{"format": "layout-ir selection certificate 2"}'])
def test_negative_something_else_is_not_a_certificate(text: str):
    with pytest.raises(LayoutError, match="certificate"):
        verify(json.loads(text))


def test_checker_imports_nothing_of_the_solver():
    folder = Path(checker.__file__).parent
    own = {f"layout_ir.certificate.{file.stem}" for file in folder.glob("*.py")}
    nodes = [node for file in folder.glob("*.py") for node in ast.walk(ast.parse(file.read_text()))]
    modules = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    ours = {name for name in modules if name.split(".")[0] not in sys.stdlib_module_names}
    assert ours - own == {"layout_ir.errors"} and len(own) > 3
