"""Where processes that tests start find what they import."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.processes import ROOT, run_python

WHERE = "import os, tests, layout_ir; os.chdir('/'); import layout_ir.passes; "
PRINT = "print(*[os.path.dirname(m.__file__) for m in (tests, layout_ir, layout_ir.passes)], sep='\\n')"


@pytest.mark.parametrize("path", [None, "theirs"])
def test_a_process_imports_the_tree_that_is_tested(
    path: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("layout_ir", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('of another tree')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if path is not None:
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    printed = run_python("-c", WHERE + PRINT).stdout.splitlines()
    assert printed == [str(ROOT / name) for name in ("tests", "layout_ir", "layout_ir/passes")]


def test_variables_are_those_of_the_tests_and_those_given(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OURS", "kept")
    code = "import os, sys; print(os.environ['OURS'], os.environ['THEIRS'], sys.stdin.read())"
    assert run_python("-c", code, variables={"THEIRS": "given"}).stdout == "kept given \n"
    assert run_python("-c", code, variables={"OURS": "new", "THEIRS": ""}, stdin="x").stdout == "new  x\n"
    assert "OURS" in os.environ and "THEIRS" not in os.environ


def test_negative_a_process_that_fails_says_what_it_wrote():
    code = "import sys; print('to the one'); sys.exit('to the other')"
    with pytest.raises(AssertionError, match=r"^status 1\nto the one\n\nto the other\n$"):
        run_python("-c", code)
    assert run_python("-c", code, check=False).returncode == 1
