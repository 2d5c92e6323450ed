"""What is malformed in a certificate is named with its place."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from layout_ir.certificate.checking import recompute
from layout_ir.certificate.schema import fault
from layout_ir.errors import LayoutError
from layout_ir.selection.solver.certificate import certify
from tests.selection.problems import random_problem, tangled_problem


def test_certificates_of_the_solver_have_no_fault():
    rng = random.Random(5)
    problems = [(random_problem(rng, 3, 3), 1 << 20), *((tangled_problem(rng, 6, 2), 4) for _ in range(5))]
    for problem, limit in problems:
        assert fault(certify(problem, table_limit=limit)[1]) is None


WRONG: list[tuple[tuple[Any, ...], Any, str]] = [
    (("scale",), [], r"scale = \[\] is not a number"),
    (("problem",), [], r"problem = \[\] is not an object"),
    (("problem", "ops"), 7, "problem.ops = 7 is not a list"),
    (("problem", "ops", 0), {}, r"problem.ops\[0\].operands is missing"),
    (
        ("problem", "ops", 0, "choices", 0),
        [[]],
        r"problem.ops\[0\].choices\[0\] = \[\[\]\] is not a list of 3",
    ),
    (
        ("problem", "ops", 0, "choices", 0, 2),
        [1] * 99,
        r"problem.ops\[0\].choices\[0\]\[2\] = \[1, 1, .*\.\.\. is not a number",
    ),
    (("clusters", 0, "factors", 0, 0), [], r"clusters\[0\].factors\[0\]\[0\] = \[\] is not a word"),
    (("messages",), 3, "messages = 3 is not a list"),
    (("choices", 0), {}, r"choices\[0\] = \{\} is not a number"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_negative_a_place_with_something_else_is_named(path: tuple[Any, ...], value: Any, message: str):
    certificate = copy.deepcopy(certify(random_problem(random.Random(11), 3, 3))[1])
    node = certificate
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    with pytest.raises(LayoutError, match=f"malformed certificate: {message}"):
        recompute(certificate)


def test_negative_what_is_no_integer_is_named_with_its_entry():
    certificate = {**certify(random_problem(random.Random(11), 3, 3))[1], "choices": [None]}
    with pytest.raises(LayoutError, match="choices: None is not an integer"):
        recompute(certificate)
