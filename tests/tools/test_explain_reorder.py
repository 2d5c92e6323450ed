"""`layout-ir explain-reorder`: words for people, an object for programs."""

from __future__ import annotations

import json

import pytest
from xdsl.context import Context
from xdsl.parser import Parser

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import plan_reorder
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.dialects.kernel.ops import KernelDialect, PlanOp
from layout_ir.tools.layout_ir import main


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    status = main(["explain-reorder", *args])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_object_holds_the_plan(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "nchw", "nChw8c", "--shape", "2x17x5x4", "--cpu", "haswell", "--json")
    assert status == 0
    found = json.loads(out)
    assert found["shape"] == [2, 17, 5, 4]
    assert (found["source_bytes"], found["destination_bytes"]) == (2 * 17 * 20 * 4, 2 * 24 * 20 * 4)
    assert [step["kernel"] for step in found["steps"]] == ["tile", "tile"]
    ctx = Context()
    ctx.load_dialect(KernelDialect)
    (op,) = Parser(ctx, found["ir"]).parse_module().ops
    assert isinstance(op, PlanOp)
    layouts = [Format.of(name).bind((2, 17, 5, 4)) for name in ("nchw", "nChw8c")]
    assert op.plan.data == plan_reorder(layouts[0], layouts[1], target=machine_named("haswell"))


@pytest.mark.parametrize("dtype", ["i8", "f16", "f32", "f64"])
def test_this_machine_is_the_default(capsys: pytest.CaptureFixture[str], dtype: str):
    status, out, _ = run(capsys, "nchw", "nhwc", "--shape", "1x64x56x56", "--dtype", dtype)
    assert status == 0
    assert f"for {machine_named('host').cpu}: registers" in out
    assert "64 rows" in out


def test_foreign_notations_are_read(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(
        capsys, "nhwc", "htp:R4Crouton", "--shape", "1x9x20x50", "--cpu", "haswell", "--dtype", "i8"
    )
    assert status == 0, out
    assert "[n, h, w, c | h:8, w:8, c:32]" in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nchw", "nhwc"], "'nchw' says no extents: give 4 of them"),
        (["nchw", "nhwc", "--shape", "1x2x3x4", "--cpu", "z80"], "unknown cpu 'z80': known are host"),
        (["nc", "cn", "--shape", "2x3", "--to-dtype", "f16", "--saturate"], "becomes infinity"),
        (["ab", "abc", "--shape", "2x3"], "rank"),
    ],
)
def test_negative_what_has_no_plan(capsys: pytest.CaptureFixture[str], args: list[str], message: str):
    status, out, err = run(capsys, *args)
    assert (status, out) == (1, "")
    assert message in err


def test_two_notations_with_their_own_order_of_the_shape(capsys: pytest.CaptureFixture[str]):
    assert main(["explain-reorder", "tvm:NHWC", "nchw", "--shape", "1x8x8x16", "--dims", "nhwc"]) == 0
    out, err = capsys.readouterr()
    assert "1x16x8x8 f32" in out and err.count("note: --shape 1x8x8x16 is n=1 h=8 w=8 c=16\n") == 2


@pytest.mark.parametrize("shape", ["1x8x8x16", "1x?x8x16"])
def test_negative_two_notations_that_read_the_shape_differently(
    capsys: pytest.CaptureFixture[str], shape: str
):
    assert main(["explain-reorder", "tvm:NHWC", "nchw", "--shape", shape]) == 1
    assert "the shape" in (err := capsys.readouterr().err) or "different orders" in err
