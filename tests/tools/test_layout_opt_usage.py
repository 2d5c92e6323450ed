"""How `layout-opt` is called: its help, and its answers to arguments that are wrong."""

from __future__ import annotations

import pytest

from layout_ir import registry
from tests.tools.running import PROGRAM, opt, refusal


def test_help_mentions_every_option_and_pass_and_shows_examples():
    run = opt("--help")
    assert run.status == 0
    assert "examples:\n  layout-opt model.mlir" in run.out
    for name in (*registry.PASSES, "canonicalize", "--elide-constants", "--verify-diagnostics"):
        assert name in run.out


@pytest.mark.parametrize(
    ("args", "place", "message"),
    [
        (["-p", "cs"], "-p:1:1", "unknown pass 'cs'"),
        (["-p", "cse,layout-stripp"], "-p:1:5", "did you mean 'layout-strip'"),
        (["-p", "cse,dce{x=1}"], "-p:1:5", "pass 'dce': Provided arguments"),
        (["-p", "cse{"], "-p:1:5", "Expected argument name here"),
        (["-p", "%"], "-p:1:1", "Unknown token"),
        (
            ["-p", "layout-optimize{target=blocked8 target=blocked8}"],
            "-p:1:33",
            "option 'target' is given twice",
        ),
        (
            ["-p", "cse,layout-optimize{time-limit=1 time_limit=2}"],
            "-p:1:34",
            "option 'time_limit' is given twice",
        ),
        (
            ["-t", "mlir{print-debuginfo print-debuginfo}"],
            "-t:1:22",
            "option 'print-debuginfo' is given twice",
        ),
        (["-t", "mlr"], "-t:1:1", "unknown target 'mlr': did you mean 'mlir'?"),
        (["-t", "nope"], "-t:1:1", "unknown target 'nope': expected one of "),
        (["-t", "mlir{"], "-t:1:6", "Expected argument name here"),
        (["-t", "mlir{speed=3}"], "-t:1:1", "target 'mlir': Provided arguments [\"speed\"] not found"),
    ],
)
def test_negative_wrong_pipelines_and_targets_are_pointed_at(args: list[str], place: str, message: str):
    first, shown, caret = refusal(*args, stdin=PROGRAM).splitlines()
    assert first.startswith(f"{place}: error: ")
    assert message in first
    assert shown == args[1]
    assert caret.index("^") == int(place.rpartition(":")[2]) - 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--optimise"], "error: unrecognized arguments: --optimise"),
        (["--elide-constants=few"], "error: argument --elide-constants: 'few' is no whole number"),
        (["--elide-constants=-1"], "error: argument --elide-constants: '-1' is no whole number"),
    ],
)
def test_negative_wrong_options_are_errors(args: list[str], message: str):
    assert refusal(*args, stdin=PROGRAM).startswith(message)


def test_an_option_may_be_given_to_each_of_two_passes():
    passes = "layout-propagate{target=blocked8},layout-explain{target=blocked8}"
    assert opt("-p", passes, stdin=PROGRAM).status == 0
