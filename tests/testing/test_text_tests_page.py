"""docs/text_tests.md: what it shows of the example stands there, and everything else is executed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lit")

import layout_ir.testing

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "text_tests.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "third_party_text_tests"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)


def code(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def of_file(kind: str, body: str) -> str | None:
    """The file of the example that a block is a part of; None for one that stands for itself."""
    if kind == "mlir":
        return "filecheck/lowering.mlir"
    named = re.match(r"# (\S+\.py)\n", body)
    return named[1] if named else None


@pytest.mark.parametrize(("kind", "body"), BLOCKS)
def test_what_the_page_shows_of_the_example_stands_there(kind: str, body: str):
    if (name := of_file(kind, body)) is not None:
        lines = (EXAMPLE / name).read_text(encoding="utf-8").splitlines()
        shown = [line for line in code(body) if not line.startswith("// RUN")]
        assert set(shown) <= {line.strip() for line in lines}


def run(body: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(body, "text_tests.md", "exec"), names)
    return names


def test_the_other_blocks_run():
    own = [body for kind, body in BLOCKS if of_file(kind, body) is None]
    collected, same, drawn = own
    with pytest.raises(AssertionError, match=r"differs at index \(0, 1\): -0.1321048\d* after, 0.0 before"):
        run(same)
    run(drawn)["test_choosing_layouts_keeps_what_programs_compute"]()

    def passes(text: str, file: str) -> None:
        from layout_ir.diagnostics import Diagnostic, Location, Severity, emit

        emit(Diagnostic(Severity.REMARK, "kept: no use", Location(file, 1, 1)))

    unmet = run(collected)["unmet"]
    assert unmet("op // expected-remark {{kept}}", passes) == []
    assert [str(wrong) for wrong in unmet("op", passes)] == [
        "input.mlir:1:1: error: unexpected remark: kept: no use"
    ]


def test_the_page_names_what_there_is():
    for name in layout_ir.testing.__all__:
        assert name in PAGE, name
    for name in re.findall(r"from layout_ir\.testing import (.+)", PAGE):
        assert set(name.split(", ")) <= set(layout_ir.testing.__all__)
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link


def test_importing_the_package_needs_neither_lit_nor_hypothesis():
    lines = [
        "import sys, layout_ir.testing",
        "layout_ir.testing.assert_same_program",
        "print(sorted({'lit', 'hypothesis'} & set(sys.modules)))",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert printed.stdout.strip() == "[]"
