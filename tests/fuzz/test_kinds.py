"""What counts as a failure: every check of a kind can fail, and what is refused by an error is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from layout_ir.algebra.layout import Layout
from layout_ir.certificate.checking import Verdict
from layout_ir.errors import LayoutError, UnforeseenError
from tests.fuzz import certificates, models
from tests.fuzz.certificates import Certificates, optimum
from tests.fuzz.commands import Commands
from tests.fuzz.formats import Formats
from tests.fuzz.kinds import Wrong, failure_of, said_unforeseen
from tests.fuzz.programs import Programs
from tests.fuzz.tools import Called, check
from tests.selection.problems import random_problem

pytest.importorskip("onnxruntime")


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)


def _answering(*answers: Any) -> Callable[..., Any]:
    """A function that gives these answers one after the other, and then the last one for ever."""
    left = list(answers)
    return lambda *_: left.pop(0) if len(left) > 1 else left[0]


def test_exceptions_are_failures_but_for_errors_that_somebody_wrote():
    def what(error: BaseException | None) -> str | None:
        def run(_: bytes) -> None:
            if error is not None:
                raise error

        failure = failure_of(run, b"")
        return failure and failure.what

    assert what(None) is None and what(LayoutError("no")) is None
    assert what(UnforeseenError("op", KeyError(1))) == "unforeseen"
    assert what(IndexError()) == what(SystemExit(3)) == what(MemoryError()) == "raised"
    assert what(Wrong("data")) == "wrong"


def test_what_tools_say_of_others_verifiers_is_let_pass():
    text = "x.mlir:3:8: error: '{}' op its verifier failed: IndexError: no; layout-ir did not foresee this"
    assert not said_unforeseen(text.format("linalg.transpose"))
    for name in ("nn.conv", "layout.reorder", "kernel.plan"):
        assert said_unforeseen(text.format(name))
    assert said_unforeseen(
        text.format("linalg.transpose") + "\nerror: KeyError: 3; layout-ir did not foresee this"
    )


@pytest.mark.parametrize(
    "called",
    [
        Called(3, "", "error: no"),
        Called(1, "", ""),
        Called(1, "", "Traceback (most recent call last):"),
        Called(0, "", "error: ValueError: x; layout-ir did not foresee this"),
        Called(1, "", "/a/.k.h.2417.part: error: No such file or directory"),
    ],
)
def test_negative_ends_that_no_tool_may_have(called: Called):
    with pytest.raises(Wrong):
        check("tool", called)


def test_the_optimum_of_a_problem_is_what_the_solver_proves():
    rng = Random(7)
    for _ in range(20):
        _, certificate = certificates.certify(random_problem(rng, 3, 3))
        assert optimum(certificate["problem"]) == certificate["cost"]


def test_negative_a_checker_that_proves_too_much_is_noticed(monkeypatch: pytest.MonkeyPatch):
    _, certificate = certificates.certify(random_problem(Random(3), 3, 3))
    data = json.dumps({"claim": False, "certificate": certificate}).encode()
    Certificates().run(data)
    more = Verdict(certificate["cost"] + 1, certificate["cost"] + 1)
    certificate |= {"cost": more.cost, "bound": more.bound}
    monkeypatch.setattr(certificates, "verify", _answering(more))
    with pytest.raises(Wrong, match=r"the choice costs \d+, the checker says \d+"):
        Certificates().run(json.dumps({"claim": False, "certificate": certificate}).encode())


def test_negative_another_address_is_noticed(monkeypatch: pytest.MonkeyPatch):
    made = {"source": None, "text": "nChw8c", "shape": [1, 9, 2, 2], "dtype": "f32", "command": None}
    data = json.dumps(made).encode()
    Formats().run(data)
    right = Layout.addresses

    def wrong(self: Layout, *, padded: bool = False) -> Any:
        return right(self, padded=padded) + 1

    monkeypatch.setattr(Layout, "addresses", wrong)
    with pytest.raises(Wrong, match="by definition"):
        Formats().run(data)


def test_negative_another_result_is_noticed(monkeypatch: pytest.MonkeyPatch):
    number = next(k for k in range(50) if _is_compared(k))
    data = models.valid_model(Random(number)).SerializeToString()
    models.Models().run(data)
    for name in ("_runtime", "_evaluator"):
        monkeypatch.setattr(models, name, _answering([np.float32(12345)]))
    with pytest.raises(Wrong, match="expected float32"):
        models.Models().run(data)


def _is_compared(number: int) -> bool:
    model = models.valid_model(Random(number))
    return {node.op_type for node in model.graph.node} <= {"Relu", "Conv", "Sigmoid", "Add", "Mul", "Exp"}


def test_negative_half_a_result_is_noticed(monkeypatch: pytest.MonkeyPatch):
    def leaves(*_: Any) -> Called:
        Path("out.o").write_text("half")
        return Called(1, "", "error: no")

    monkeypatch.setattr("tests.fuzz.commands.call", leaves)
    with pytest.raises(Wrong, match=r"leaves \['out.o'\]"):
        Commands().run(b'{"tool": "layout-ir", "args": [], "how": "call", "stdin": ""}')


def test_negative_a_text_that_changes_as_it_is_read_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.fuzz.programs.call", _answering(Called(0, "one", ""), Called(0, "two", "")))
    with pytest.raises(Wrong, match="changed the text"):
        Programs().run(b"// layout-opt \nx")
