"""Whatever a pass meets, its user gets a located error or remark, in our tool and in the stock one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import AddfOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from layout_ir import registry
from layout_ir.api.program_text import context
from layout_ir.diagnostics import Location, PassError, UnforeseenPassError, collect
from layout_ir.errors import LayoutError
from layout_ir.frontends.mlir.locations import LocatedParser
from layout_ir.passes.explain_reorders import LayoutExplainPass
from layout_ir.passes.layout_pass import LayoutPass

ROOT = Path(__file__).parents[2]

PROGRAM = """\
func.func @f(%a: f32) -> f32 {
  %b = arith.addf %a, %a : f32
  func.return %b : f32
}
"""

REORDER = """\
func.func @f(%x: tensor<2x8x3x3xf32>) -> tensor<2x8x3x3xf32, #layout.tag<nChw8c>> {
  %y = layout.reorder %x : tensor<2x8x3x3xf32> -> tensor<2x8x3x3xf32, #layout.tag<nChw8c>>
  func.return %y : tensor<2x8x3x3xf32, #layout.tag<nChw8c>>
}
"""


def _module(text: str = PROGRAM) -> ModuleOp:
    return LocatedParser(context(), text, "p.mlir").parse_program()


def _pass(work: Callable[[ModuleOp], None]) -> LayoutPass:
    class Acting(LayoutPass):
        name = "act"

        def rewrite(self, module: ModuleOp) -> None:
            work(module)

    return Acting()


def _visit_adds(error: Exception) -> Callable[[ModuleOp], None]:
    def rule(op: AddfOp) -> None:
        raise error

    def work(module: ModuleOp) -> None:
        for candidate in module.walk():
            if isinstance(candidate, AddfOp):
                rule(candidate)

    return work


@pytest.mark.parametrize(
    "error", [KeyError("x"), IndexError(), MemoryError(), VerifyException("no such attribute")]
)
def test_what_nobody_foresaw_names_the_pass_the_op_and_its_place(error: Exception):
    with pytest.raises(UnforeseenPassError, match=r"^pass 'act' failed at 'arith.addf' op: ") as caught:
        _pass(_visit_adds(error)).apply(Context(), _module())
    assert caught.value.location == Location("p.mlir", 2, 8)
    assert caught.value.__cause__ is error
    assert isinstance(caught.value, LayoutError)


def test_an_op_in_the_making_is_not_blamed():
    def work(module: ModuleOp) -> None:
        add = next(op for op in module.walk() if isinstance(op, AddfOp))
        _remake(add)

    def _remake(old: AddfOp) -> None:
        op = AddfOp(old.lhs, old.rhs)
        raise KeyError(op.name)

    with pytest.raises(UnforeseenPassError) as caught:
        _pass(work).apply(Context(), _module())
    assert caught.value.location == Location("p.mlir", 2, 8)


def test_what_a_pass_foresaw_is_said_of_the_whole_program():
    with pytest.raises(PassError, match=r"^no such machine$") as caught:
        _pass(_visit_adds(LayoutError("no such machine"))).apply(Context(), _module())
    assert caught.value.location == Location("p.mlir", 1, 1)


@pytest.mark.parametrize(
    "error", [PassError("cannot do this"), OSError(28, "disk full"), KeyboardInterrupt()]
)
def test_negative_errors_with_a_name_pass_through(error: Exception):
    with pytest.raises(type(error)) as caught:
        _pass(_visit_adds(error)).apply(Context(), _module())
    assert caught.value is error


@pytest.mark.parametrize("name", registry.PASSES)
def test_every_pass_has_the_net(name: str):
    assert issubclass(registry.PASSES[name](), LayoutPass)


# The stock tool ------------------------------------------------------------------------------------------------------


def _stock(*args: str, patch: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """xDSL's own tool, which is told of our passes without an installation."""
    lines = [
        "import sys",
        "from xdsl import xdsl_opt_main as tool",
        "from layout_ir.universe import LAYOUT_UNIVERSE as ours",
        "class Tool(tool.xDSLOptMain):",
        "    def register_all_dialects(self):",
        "        super().register_all_dialects()",
        "        for name, factory in ours.all_dialects.items():",
        "            if name not in self.ctx.registered_dialect_names: self.ctx.register_dialect(name, factory)",
        "    def register_all_passes(self):",
        "        super().register_all_passes(); self.available_passes.update(ours.all_passes)",
        "    def register_all_targets(self):",
        "        super().register_all_targets(); self.available_targets.update(ours.all_targets)",
        patch,
        "Tool().run()",
    ]
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines), *args],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), **environment},
        input=REORDER,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_stock_tool_prints_remarks():
    run = _stock("-p", "layout-explain")
    assert run.returncode == 0
    assert run.stderr.startswith("remark: ")
    assert "1152 bytes" in run.stderr  # 2x8x3x3 of four bytes, read and written
    assert "layout.reorder" in run.stdout


def test_the_stock_tool_prints_pass_errors():
    run = _stock("-p", "layout-explain{target=nope}")
    assert run.returncode == 1
    assert run.stderr.startswith("error: unknown target 'nope'")
    assert run.stderr.count("\n") == 1


def test_the_stock_tool_prints_errors_of_targets():
    run = _stock("-t", "llvm-ir")
    assert run.returncode == 1
    assert run.stderr.startswith("error: there is no kernel.plan to make LLVM IR from: ")
    assert run.stderr.count("\n") == 1


_BREAK = """\
import layout_ir.passes.strip as passes
def strip(module):
    op = module.body.block.first_op
    op.nothing
passes.strip = strip"""


def test_the_stock_tool_prints_what_nobody_foresaw():
    run = _stock("-p", "layout-strip", patch=_BREAK)
    assert run.returncode == 1
    assert run.stderr.startswith("error: pass 'layout-strip' failed at 'func.func' op: AttributeError: ")
    assert run.stderr.count("\n") == 1


def test_negative_the_traceback_is_there_for_who_asks():
    run = _stock("-p", "layout-strip", patch=_BREAK, LAYOUT_IR_TRACEBACK="1")
    assert run.returncode == 1
    assert "Traceback" in run.stderr
    assert "in strip" in run.stderr


def test_negative_a_program_that_calls_a_pass_is_not_printed_at(capfd: pytest.CaptureFixture[str]):
    with collect() as found:
        registry.PASSES["layout-explain"]()().apply(context(), _module(REORDER))
    assert found
    hook = sys.excepthook
    with pytest.raises(PassError):
        LayoutExplainPass(target="nope").apply(context(), _module(REORDER))
    registry.PASSES["layout-explain"]()().apply(context(), _module(REORDER))
    assert sys.excepthook is hook
    assert capfd.readouterr() == ("", "")
