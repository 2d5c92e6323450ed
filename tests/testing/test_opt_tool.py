"""A tool with dialects and passes of one's own, and what it checks as `layout-opt` does."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def
from xdsl.passes import ModulePass
from xdsl.traits import Pure
from xdsl.universe import Universe

from layout_ir.diagnostics import PassError, collect, remark
from layout_ir.errors import LayoutError
from layout_ir.frontends.mlir.locations import LocatedParser
from layout_ir.testing import OptTool, check_diagnostics

Capture = pytest.CaptureFixture[str]


@irdl_op_definition
class TickOp(IRDLOperation):
    """An op that does nothing."""

    name = "clock.tick"
    traits = traits_def(Pure())
    assembly_format = "attr-dict"


class CountTicks(ModulePass):
    """Remarks on each tick, and fails on a program of more than two."""

    name = "clock-count"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ticks = [tick for tick in op.walk() if isinstance(tick, TickOp)]
        for number, tick in enumerate(ticks):
            remark(tick, f"tick number {number}")
        if len(ticks) > 2:
            raise PassError(f"{len(ticks)} ticks are more than 2", ticks[2])


UNIVERSE = Universe(
    all_dialects={"clock": lambda: Dialect("clock", [TickOp])}, all_passes={"clock-count": lambda: CountTicks}
)
main = OptTool("clock-opt", UNIVERSE)

TICKS = (
    "// expected-remark@+1 {{tick number 0}}\nclock.tick\n// expected-remark@+1 {{number 1}}\nclock.tick\n"
)
MORE = (
    "// expected-remark@+2 {{tick number 2}}\n// expected-error@+1 {{3 ticks are more than 2}}\nclock.tick\n"
)


def run(tmp_path: Path, text: str, *args: str) -> int:
    path = tmp_path / "ticks.mlir"
    path.write_text(text)
    return main([str(path), *args])


def test_own_and_our_dialects_and_passes_work_together(tmp_path: Path, capsys: Capture):
    open_type = "tensor<2x3xf32, #layout.any>"
    text = (
        f"clock.tick\n%x = nn.constant dense<1.0> : {open_type}\n" + f'"test.op"(%x) : ({open_type}) -> ()\n'
    )
    assert run(tmp_path, text, "-p", "clock-count,layout-strip") == 0
    printed = capsys.readouterr()
    assert "clock.tick" in printed.out
    assert "%x = nn.constant dense<1.000000e+00> : tensor<2x3xf32>\n" in printed.out
    assert "ticks.mlir:1:1: remark: tick number 0" in printed.err


def test_remarks_and_errors_of_own_passes_are_verified(tmp_path: Path, capsys: Capture):
    args = ("-p", "clock-count", "--verify-diagnostics", "--split-input-file")
    assert run(tmp_path, TICKS, *args) == 0
    assert run(tmp_path, f"{TICKS}// -----\n{TICKS}{MORE}", *args) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TICKS.replace("number 1", "number 7"), 'ticks.mlir:3:4: error: expected remark "number 7" was not produced'),
        (TICKS.replace("expected-remark@+1 {{number 1}}", ""),
         "ticks.mlir:4:1: error: unexpected remark: tick number 1"),
        (TICKS.replace("remark@+1 {{number 1", "error@+1 {{number 1"), 'expected error "number 1" was not produced'),
        (TICKS.replace("+1 {{number 1", "+2 {{number 1"), 'expected remark "number 1" was not produced'),
    ],
)  # fmt: skip
def test_negative_remarks_that_are_missing_unexpected_or_elsewhere(
    tmp_path: Path, capsys: Capture, text: str, message: str
):
    assert run(tmp_path, text, "-p", "clock-count", "--verify-diagnostics") == 1
    assert message in capsys.readouterr().err


def test_messages_call_the_tool_by_its_name(tmp_path: Path, capsys: Capture):
    assert run(tmp_path, TICKS, "--no-such-option") == 1
    assert "clock-opt --help lists the options" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    assert "usage: clock-opt" in printed
    assert "clock-count" in printed


def test_negative_a_name_that_is_taken_is_refused():
    with pytest.raises(LayoutError, match="toy: dialect 'nn' is one of layout-ir as well"):
        OptTool("toy", Universe(all_dialects={"nn": lambda: Dialect("nn")}))
    with pytest.raises(LayoutError, match="pass 'layout-optimize'"):
        OptTool("toy", Universe(all_passes={"layout-optimize": lambda: CountTicks}))


def test_diagnostics_of_a_run_without_the_tool_are_checked():
    """What a driver of another make does: read with places, collect, compare."""

    def found(text: str) -> list[str]:
        context = Context()
        context.load_dialect(Builtin)
        context.register_dialect("clock", UNIVERSE.all_dialects["clock"])
        module = LocatedParser(context, text, "ticks").parse_program(True)
        with collect() as diagnostics:
            CountTicks().apply(context, module)
        return [str(wrong) for wrong in check_diagnostics(text, "ticks", diagnostics)]

    assert found(TICKS) == []
    assert found(TICKS.replace("tick number 0", "tock")) == [
        "ticks:2:1: error: unexpected remark: tick number 0",
        'ticks:1:4: error: expected remark "tock" was not produced',
    ]
