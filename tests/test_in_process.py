"""The lit format that calls the tools instead of starting them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("lit")
pytest.importorskip("filecheck")

ROOT = Path(__file__).parents[1]


def load() -> ModuleType:
    # The folder of the text tests is no package: lit finds the module beside its configuration.
    spec = importlib.util.spec_from_file_location("in_process", ROOT / "filecheck" / "in_process.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["in_process"] = module
    spec.loader.exec_module(module)
    return module


in_process: Any = load()


def stages(command: str) -> list[tuple[str, list[str], bool, bool]] | None:
    pipe = in_process.parse_pipe(command)
    return None if pipe is None else [(s.tool, s.args, s.negated, s.merged) for s in pipe]


def test_a_pipe_of_known_tools_is_taken_apart():
    assert stages(
        "layout-opt /a/b.mlir -p 'x{a=b c=1,2},cse' | layout-opt | filecheck \"/a b\" --check-prefix=X"
    ) == [
        ("layout-opt", ["/a/b.mlir", "-p", "x{a=b c=1,2},cse"], False, False),
        ("layout-opt", [], False, False),
        ("filecheck", ["/a b", "--check-prefix=X"], False, False),
    ]


@pytest.mark.parametrize(
    "command", ["not layout-opt a 2>&1 | filecheck b", "not layout-opt a 2>&1|filecheck b"]
)
def test_failures_and_their_messages_are_understood(command: str):
    assert stages(command) == [("layout-opt", ["a"], True, True), ("filecheck", ["b"], False, False)]


@pytest.mark.parametrize(
    "command",
    [
        "layout-opt a > b",
        "layout-opt < a",
        "layout-opt a 2> b",
        "layout-opt a && layout-opt b",
        "layout-opt a; layout-opt b",
        "layout-opt a || true",
        "layout-opt a | sed s/a/b/ | filecheck b",
        "mlir-opt a",
        "layout-opt $HOME/a",
        "layout-opt a --disable-verify",
        "layout-opt 'a",
        "layout-opt a | ",
        "",
    ],
)
def test_negative_whatever_needs_a_shell_goes_to_one(command: str):
    assert stages(command) is None


GOOD = "// RUN: layout-opt %s | filecheck %s\n// CHECK: test.op\n"
SUITE = {
    "good.mlir": GOOD + '"test.op"() : () -> ()\n',
    "failing.mlir": "// RUN: not layout-opt %s\n}\n",
    "messages.mlir": "// RUN: not layout-opt %s 2>&1 | filecheck %s\n// CHECK: error: expected an operation\n}\n",
    "wrong-text.mlir": GOOD.replace("CHECK: test.op", "CHECK: other.op") + '"test.op"() : () -> ()\n',
    "wrong-program.mlir": GOOD + "}\n",
    "wrongly-right.mlir": '// RUN: not layout-opt %s\n"test.op"() : () -> ()\n',
    "silent.mlir": "// RUN: layout-opt %s --verify-diagnostics\n// expected-error@+1 {{no}}\n"
    '"test.op"() : () -> ()\n',
    "shell.mlir": '// RUN: layout-opt %s > %t && filecheck %s < %t\n// CHECK: test.op\n"test.op"() : () -> ()\n',
}
FAILING = {"wrong-text.mlir", "wrong-program.mlir", "wrongly-right.mlir", "silent.mlir"}


@pytest.mark.parametrize("params", [[], ["--param", "shell=1"]], ids=["called", "started"])
def test_called_tools_pass_and_fail_as_started_ones_do(params: list[str], tmp_path: Path):
    suite = tmp_path / "suite"
    suite.mkdir()
    for name, text in SUITE.items():
        (suite / name).write_text(text)
    (suite / "lit.cfg.py").write_text(
        f"lit_config.load_config(config, {str(ROOT / 'filecheck' / 'lit.cfg.py')!r})\n"
        f"config.test_source_root = {str(suite)!r}\n"
        f"config.test_exec_root = {str(tmp_path / 'out')!r}\n"
    )
    lit = [sys.executable, "-c", "from lit.main import main; main()", "-v", "-j1", *params, str(suite)]
    run = subprocess.run(lit, capture_output=True, text=True, check=False, cwd=tmp_path)
    verdicts = {
        name: verdict for verdict, name in re.findall(r"^(PASS|FAIL): layout-ir :: (\S+)", run.stdout, re.M)
    }
    assert {name for name, verdict in verdicts.items() if verdict == "FAIL"} == FAILING, run.stdout
    assert {name for name, verdict in verdicts.items() if verdict == "PASS"} == SUITE.keys() - FAILING, (
        run.stdout
    )
