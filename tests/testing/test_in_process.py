"""The lit format that calls the tools instead of starting them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lit")
pytest.importorskip("filecheck")

from layout_ir.errors import LayoutError
from layout_ir.testing import InProcessShTest, stand_ins

ROOT = Path(__file__).parents[2]
FORMAT: Any = InProcessShTest({"layout-opt": "layout_ir.tools.layout_opt:main"})


def stages(command: str) -> list[tuple[str, list[str], bool, bool]] | None:
    pipe = FORMAT.parse_pipe(command)
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


def run_lit(suite: Path, *params: str, path: Path | None = None) -> tuple[dict[str, str], str]:
    """The verdict of each test of a suite, and all that lit prints."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *([] if path is None else [str(path)])]),
    }
    lit = [sys.executable, "-c", "from lit.main import main; main()", "-v", "-j1", *params, str(suite)]
    run = subprocess.run(lit, capture_output=True, text=True, check=False, cwd=suite.parent, env=environment)
    found = re.findall(r"^(PASS|FAIL|TIMEOUT): [\w-]+ :: (\S+)", run.stdout, re.M)
    return {name: verdict for verdict, name in found}, run.stdout + run.stderr


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
    verdicts, printed = run_lit(suite, *params)
    assert {name for name, verdict in verdicts.items() if verdict == "FAIL"} == FAILING, printed
    assert {name for name, verdict in verdicts.items() if verdict == "PASS"} == SUITE.keys() - FAILING, (
        printed
    )


TOOL = """\
import os, sys, time

def main(args):
    if args == ["sleep"]:
        time.sleep(60)
    print("args", args, os.environ.get("COLOUR"), os.path.basename(os.getcwd()))
    return 3 if args == ["fail"] else 0

def old_main():
    print("argv", sys.argv)
    sys.exit("no good" if "bad" in sys.argv else 0)
"""
OTHERS = {
    "arguments.test": "RUN: toy one 'two three' | filecheck %s\nCHECK: args ['one', 'two three'] blue cases\n",
    "failure.test": "RUN: not toy fail | filecheck %s\nCHECK: args ['fail'] blue cases\n",
    "unforeseen-failure.test": "RUN: toy fail\n",
    "argv.test": "RUN: old-toy x y | filecheck %s\nCHECK: argv ['old-toy', 'x', 'y']\n",
    "message.test": "RUN: not old-toy bad 2>&1 | filecheck %s\nCHECK: no good\n",
    "shell.test": "RUN: toy a > %t && filecheck %s < %t\nCHECK: args ['a'] blue cases\n",
}


@pytest.mark.parametrize("params", [[], ["--param", "shell=1"]], ids=["called", "started"])
def test_tools_of_other_packages_are_called_in_the_surroundings_that_lit_states(
    params: list[str], tmp_path: Path
):
    (tmp_path / "toy_tools.py").write_text(TOOL)
    suite = tmp_path / "suite"
    (suite / "cases").mkdir(parents=True)
    for name, text in OTHERS.items():
        (suite / "cases" / name).write_text(text)
    (suite / "lit.cfg.py").write_text(
        "import os\n"
        "from layout_ir.testing import InProcessShTest, stand_ins\n"
        "tools = {'toy': 'toy_tools:main', 'old-toy': 'toy_tools:old_main'}\n"
        "config.name, config.suffixes = 'toys', ['.test']\n"
        "config.test_format = InProcessShTest(tools)\n"
        f"config.test_exec_root = {str(tmp_path / 'out')!r}\n"
        f"programs = stand_ins({{**tools, 'filecheck': 'layout_ir.testing.in_process:filecheck'}}, "
        f"{str(tmp_path / 'bin')!r}, {[str(tmp_path), str(ROOT)]!r})\n"
        "config.environment.update(COLOUR='blue', PATH=programs + os.pathsep + os.environ['PATH'])\n"
    )
    verdicts, printed = run_lit(suite, *params, path=tmp_path)
    wrong = {"cases/unforeseen-failure.test"}
    assert {name for name, verdict in verdicts.items() if verdict == "FAIL"} == wrong, printed
    assert {name for name, verdict in verdicts.items() if verdict == "PASS"} == {
        f"cases/{name}" for name in OTHERS
    } - wrong, printed


def test_a_called_tool_that_takes_too_long_is_stopped(tmp_path: Path):
    (tmp_path / "toy_tools.py").write_text(TOOL)
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "slow.test").write_text("RUN: toy sleep\n")
    (suite / "quick.test").write_text("RUN: toy x\n")
    (suite / "lit.cfg.py").write_text(
        "from layout_ir.testing import InProcessShTest\n"
        "config.name, config.suffixes = 'toys', ['.test']\n"
        "config.test_format = InProcessShTest({'toy': 'toy_tools:main'})\n"
        # What --timeout sets, which asks for psutil: ending started programs needs that, this does not.
        "lit_config._maxIndividualTestTime = 2\n"
        f"config.test_exec_root = {str(tmp_path / 'out')!r}\n"
    )
    verdicts, printed = run_lit(suite, path=tmp_path)
    assert verdicts == {"slow.test": "TIMEOUT", "quick.test": "PASS"}, printed


def test_a_function_that_a_worker_can_import_is_an_entry_point():
    from layout_ir.tools.layout_opt import main

    assert InProcessShTest({"layout-opt": main}).tools["layout-opt"] == "layout_ir.tools.layout_opt:main"


def local() -> Any:
    """A function that exists in this process only, as one that is defined in a `lit.cfg.py` does."""

    def main(args: list[str]) -> int:
        return len(args)

    return main


@pytest.mark.parametrize("main", [local(), "layout_ir.tools.layout_opt", "a:b:c", ""])
def test_negative_an_entry_point_that_no_worker_can_import(main: Any, tmp_path: Path):
    with pytest.raises(LayoutError, match="module:function"):
        InProcessShTest({"toy": main})
    with pytest.raises(LayoutError, match="module:function"):
        stand_ins({"toy": main}, tmp_path)
