"""The driver: what goes in, what comes out, and what a wrong input leads to."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import AddfOp, MulfOp
from xdsl.dialects.builtin import ModuleOp, f64
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from layout_ir import registry
from layout_ir.diagnostics import PassError, note, remark, warning
from layout_ir.errors import LayoutError
from tests.processes import environment
from tests.tools.running import PLACED, PROGRAM, Run, opt, refusal

ROOT = Path(__file__).parents[2]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM)
    return path


# What goes in and comes out --------------------------------------------------------------------------------------


def test_a_program_is_read_by_path(program: Path):
    assert opt(str(program)) == Run(0, PROGRAM, "")


def test_standard_input_is_read_for_a_dash_and_for_no_name():
    assert opt("-", stdin=PROGRAM).out == opt(stdin=PROGRAM).out == PROGRAM


def test_a_name_without_an_extension_is_that_of_a_pipe(tmp_path: Path):
    pipe = tmp_path / "pipe"
    pipe.write_text(PROGRAM)
    assert opt(str(pipe)) == Run(0, PROGRAM, "")


def test_negative_a_model_in_a_pipe_is_no_text(tmp_path: Path):
    pipe = tmp_path / "pipe"
    pipe.write_bytes(b"\x08\x08\xb2\xff")
    assert "not UTF-8 text" in refusal(str(pipe))


def test_passes_run_in_order_with_their_options(monkeypatch: pytest.MonkeyPatch):
    seen: list[tuple[str, int]] = []

    @dataclass(frozen=True)
    class Recording(ModulePass):
        name = "record"
        how_often: int = 1

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            seen.append((self.name, self.how_often))

    monkeypatch.setitem(registry.PASSES, "record", lambda: Recording)
    run = opt("-p", "record{how-often=3},cse,record", stdin=PROGRAM)
    assert run.status == 0
    assert seen == [("record", 3), ("record", 1)]
    assert run.out.count("arith.addf") == 1
    assert PROGRAM.count("arith.addf") == 2


def test_programs_of_a_split_input_are_processed_one_by_one():
    run = opt("--split-input-file", stdin=f"{PROGRAM}// -----\n{PROGRAM}")
    assert run == Run(0, f"{PROGRAM}// -----\n{PROGRAM}", "")


def test_negative_a_longer_rule_of_dashes_does_not_split():
    run = opt("--split-input-file", stdin=f"// ------ part one\n{PROGRAM}// -----------\n")
    assert run == Run(0, PROGRAM, "")


def test_other_targets_take_over_the_output():
    assert opt("-t", "wat", stdin='"wasm.module"() : () -> ()') == Run(0, "(module)\n", "")


def test_what_passes_do_is_told_on_the_error_stream():
    run = opt("-p", "cse,canonicalize", "--print-between-passes", "--time-passes", stdin=PROGRAM)
    assert run.status == 0
    assert run.out.startswith("#nchw = ")
    assert "IR after cse:\n#nchw = " in run.err
    assert "Pass canonicalize took" in run.err


# What a wrong input leads to -------------------------------------------------------------------------------------

WRONG = {
    "nothing at all": "",
    "only a comment": "// a program is missing\n",
    "a stray bracket": "}\n",
    "an unknown op": "nn.convolve\n",
    "an unknown dialect": '"stranger.op"() : () -> ()\n',
    "an unknown attribute": '"test.op"() {a = #layout.nothing} : () -> ()\n',
    "a bad format": '"test.op"() {a = #layout.format<(n) : [m]>} : () -> ()\n',
    "a bad tag": '"test.op"() {a = #layout.tag<nChw>} : () -> ()\n',
    "an unfinished format": '"test.op"() {a = #layout.format<(n) : [n]\n',
    "an undefined alias": '"test.op"() {a = #nchw} : () -> ()\n',
    "an undefined value": '"test.op"(%a) : (f32) -> ()\n',
    "a value with two types": '%a = "test.op"() : () -> f32\n"test.op"(%a) : (f64) -> ()\n',
    "a bad string": '"test.op"() {a = "unfinished} : () -> ()\n',
    "an attribute that cannot be": '"test.op"() {a = 300 : i8} : () -> ()\n',
    "an op that does not verify": '%0 = "arith.addf"() : () -> f32\n',
    "a wrong terminator": "func.func @f() {\n  %0 = arith.constant 1 : i32\n}\n",
    "a use before its definition": (
        "func.func @f(%x: f32) {\n  %a = arith.addf %b, %x : f32\n  %b = arith.addf %x, %x : f32\n  func.return\n}\n"
    ),
    "brackets a thousand deep": '"test.op"() {a = ' + "[" * 5000 + "]" * 5000 + "} : () -> ()\n",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_negative_a_wrong_program_is_one_error_with_a_place_and_no_output(text: str):
    said = refusal(stdin=text)
    assert len(PLACED.findall(said)) == 1, said
    assert said.startswith("<stdin>:")


def test_all_wrong_ops_are_reported_in_order():
    text = (
        "func.func @f(%x: f32) {\n"
        '  %a = "arith.addf"(%x) : (f32) -> f32\n'
        "  %b = arith.addf %x, %x : f32\n"
        '  %c = "arith.mulf"(%x) : (f32) -> f32\n'
        "  func.return\n"
        "}\n"
    )
    places = [line.partition(": error: ") for line in refusal(stdin=text).splitlines() if "error" in line]
    assert [place for place, _, _ in places] == ["<stdin>:2:8", "<stdin>:4:8"]
    assert places[0][2].startswith("'arith.addf' op ")
    assert places[1][2].startswith("'arith.mulf' op ")


def test_errors_of_a_split_input_have_the_lines_of_the_whole():
    wrong = '%0 = "arith.addf"() : () -> f32\n'
    said = refusal("--split-input-file", stdin=f"\n{wrong}// -----\n{PROGRAM}// -----\n\n\nnn.nothing\n")
    lines = said.splitlines()
    assert lines[0].startswith("<stdin>:2:6: error: ")
    assert lines[1] == wrong.rstrip()
    expected = 3 + PROGRAM.count("\n") + 1 + 3
    assert lines[3].startswith(f"<stdin>:{expected}:1: error: ")
    assert lines[4] == "nn.nothing"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nowhere.mlir"], "nowhere.mlir: error: No such file or directory"),
        (["."], ".: error: Is a directory"),
        (
            ["pyproject.toml"],
            "pyproject.toml: error: unknown kind of file '.toml': expected one of .mlir, .onnx",
        ),
        (["-o", "/nowhere/out.mlir"], "/nowhere/out.mlir: error: No such file or directory"),
    ],
)
def test_negative_files_that_cannot_be_read_or_written(
    monkeypatch: pytest.MonkeyPatch, args: list[str], message: str
):
    monkeypatch.chdir(ROOT)
    assert refusal(*args, stdin=PROGRAM).startswith(message)


def test_a_byte_that_is_no_text_is_pointed_at():
    said = refusal(stdin=b"// \xc3\xa4\n//\xff")
    assert said.startswith("<stdin>:2:3: error: not UTF-8 text: byte 0xff")


def test_any_cut_or_scrambled_program_is_read_or_refused():
    draw = random.Random(0)
    texts = [PROGRAM[:end] for end in range(0, len(PROGRAM), 19)]
    for _ in range(80):
        where, what = (
            draw.randrange(len(PROGRAM)),
            draw.choice(["", "(", ">", '"', "#x", "0", "%y", "-", "\n}"]),
        )
        texts.append(PROGRAM[:where] + what + PROGRAM[where + draw.randrange(4) :])
    for text in texts:
        run = opt(stdin=text)
        assert run.status in (0, 1)
        assert (run.status == 1) == bool(PLACED.search(run.err)), text
        assert (run.out == "") == (run.status == 1), text
        assert "Traceback" not in run.err
        assert "defect" not in run.err, text


# Passes that speak -----------------------------------------------------------------------------------------------


def _add_pass(monkeypatch: pytest.MonkeyPatch, apply_to: Callable[[ModuleOp], None]) -> None:
    """Register a pass `act` that hands the program to `apply_to`."""

    @dataclass(frozen=True)
    class Acting(ModulePass):
        name = "act"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            apply_to(op)

    monkeypatch.setitem(registry.PASSES, "act", lambda: Acting)


def _adds(module: ModuleOp) -> list[AddfOp]:
    return [op for op in module.walk() if isinstance(op, AddfOp)]


def test_remarks_and_warnings_go_to_the_error_stream(monkeypatch: pytest.MonkeyPatch):
    def act(module: ModuleOp) -> None:
        first, second = _adds(module)
        remark(first, "this stays", note(second, "because of this"))
        warning(second, "this is odd")

    _add_pass(monkeypatch, act)
    run = opt("-p", "act", stdin=PROGRAM)
    assert (run.status, run.out) == (0, PROGRAM)
    assert [line for line in run.err.splitlines() if "<stdin>" in line] == [
        "<stdin>:5:10: remark: this stays",
        "<stdin>:6:10: note: because of this",
        "<stdin>:6:10: warning: this is odd",
    ]
    assert run.err.splitlines()[1:3] == ["    %b = arith.addf %a, %a : f32", "         ^"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PassError("cannot do this"), "<stdin>: error: cannot do this\n"),
        (PassFailedException("cannot do that"), "<stdin>: error: cannot do that\n"),
        (LayoutError("rank mismatch: 2 != 3"), "<stdin>: error: rank mismatch: 2 != 3\n"),
        (KeyError("x"), "<stdin>:3:1: error: pass 'act' failed at 'builtin.module' op: KeyError: 'x'; "),
    ],
    ids=["PassError", "PassFailedException", "LayoutError", "defect"],
)
def test_a_pass_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch, error: Exception, message: str):
    def act(module: ModuleOp) -> None:
        raise error

    _add_pass(monkeypatch, act)
    assert refusal("-p", "act", stdin=PROGRAM).startswith(message)


def test_a_pass_error_points_at_the_op_to_blame(monkeypatch: pytest.MonkeyPatch):
    def act(module: ModuleOp) -> None:
        raise PassError("cannot do this", _adds(module)[0])

    _add_pass(monkeypatch, act)
    said = refusal("-p", "act", stdin=PROGRAM)
    assert said == "<stdin>:5:10: error: cannot do this\n    %b = arith.addf %a, %a : f32\n         ^\n"


def test_a_pass_that_leaves_a_wrong_program_is_named(monkeypatch: pytest.MonkeyPatch):
    def act(module: ModuleOp) -> None:
        add = _adds(module)[0]
        add.result._type = f64  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]

    _add_pass(monkeypatch, act)
    said = refusal("-p", "cse,act,canonicalize", stdin=PROGRAM)
    assert said.startswith("<stdin>:5:10: error: 'arith.addf' op ")
    assert "note: the program was right before pass 'act'" in said


def test_ops_made_by_a_pass_are_blamed_on_their_function(monkeypatch: pytest.MonkeyPatch):
    def act(module: ModuleOp) -> None:
        add = _adds(module)[0]
        new = MulfOp(add.lhs, add.rhs)
        assert add.parent is not None
        add.parent.insert_op_before(new, add)
        remark(new, "made here")

    _add_pass(monkeypatch, act)
    assert opt("-p", "act", stdin=PROGRAM).err.startswith("<stdin>:4:3: remark: made here\n")


def test_expected_remarks_are_not_printed(monkeypatch: pytest.MonkeyPatch):
    _add_pass(monkeypatch, lambda module: remark(_adds(module)[0], "this stays"))
    text = PROGRAM.replace("    %b =", "    // expected-remark@+1 {{this stays}}\n    %b =")
    assert opt("-p", "act", "--verify-diagnostics", stdin=text) == Run(0, PROGRAM, "")
    said = refusal("-p", "act", "--verify-diagnostics", stdin=PROGRAM)
    assert "error: unexpected remark: this stays" in said


# Files -----------------------------------------------------------------------------------------------------------


def test_the_output_file_is_replaced_only_by_a_whole_result(program: Path, tmp_path: Path):
    target = tmp_path / "out.mlir"
    target.write_text("what was there")
    wrong = tmp_path / "wrong.mlir"
    wrong.write_text("}")
    assert opt(str(wrong), "-o", str(target)).status == 1
    assert target.read_text() == "what was there"
    assert opt(str(program), "-o", str(target)) == Run(0, "", "")
    assert target.read_text() == PROGRAM
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.mlir", "program.mlir", "wrong.mlir"]


def test_a_program_can_replace_itself(program: Path):
    assert opt(str(program), "-p", "cse", "-o", str(program)).status == 0
    assert program.read_text().count("arith.addf") == 1


def _import_with(monkeypatch: pytest.MonkeyPatch, from_onnx: Callable[[object], ModuleOp]) -> None:
    """Let `from_onnx` take the place of the importer."""
    importer = types.SimpleNamespace(from_onnx=from_onnx)
    monkeypatch.setitem(sys.modules, "layout_ir.frontends.onnx", cast("types.ModuleType", importer))


def test_onnx_models_are_imported_by_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    given: list[object] = []

    def from_onnx(source: object, shapes: object = None) -> ModuleOp:
        given.append(source)
        return ModuleOp([])

    _import_with(monkeypatch, from_onnx)
    model = tmp_path / "model.onnx"
    model.write_bytes(b"\x08\x01")
    assert opt(str(model)) == Run(0, "builtin.module {\n}\n", "")
    assert opt("-f", "onnx", stdin=b"\x08\x02").status == 0
    assert given == [str(model), b"\x08\x02"]


@pytest.mark.parametrize("frontend", ["foo", "mlir{no-implicit-module=true}", "mlir{"])
def test_negative_a_frontend_is_a_name_alone(frontend: str):
    run = opt("-f", frontend, stdin="builtin.module {}")
    assert (run.status, run.out) == (1, "")
    assert "error: " in run.err and all(word in run.err for word in (frontend, "mlir", "onnx"))


def test_a_shipped_network_is_found_by_name():
    pytest.importorskip("onnx")
    run = opt("onnx:squeezenet", "--elide-constants=16")
    assert run.status == 0
    assert "nn.conv" in run.out
    said = refusal("onnx:squeezenets")
    assert said.startswith("error: no network 'squeezenets' ships with the package onnx: it has ")


def test_an_op_of_a_model_is_named_by_its_node(monkeypatch: pytest.MonkeyPatch):
    def act(module: ModuleOp) -> None:
        (op,) = [op for op in module.walk() if isinstance(op, AddfOp)]
        remark(op, "this stays")

    _add_pass(monkeypatch, act)
    text = 'func.func @f(%a: f32) {\n  %b = arith.addf %a, %a : f32 loc("add_1")\n  func.return\n}\n'
    assert opt("-p", "act", stdin=text).err == "<stdin>: add_1: remark: this stays\n"


def test_a_model_that_cannot_be_imported_is_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def from_onnx(source: object, shapes: object = None) -> ModuleOp:
        raise LayoutError("no ONNX model: the file is empty")

    _import_with(monkeypatch, from_onnx)
    model = tmp_path / "model.onnx"
    model.write_bytes(b"")
    assert opt(str(model)) == Run(1, "", f"{model}: error: no ONNX model: the file is empty\n")


def test_a_missing_onnx_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "layout_ir.frontends.onnx", None)
    model = tmp_path / "model.onnx"
    model.write_bytes(b"\x08\x01")
    assert "pip install 'layout-ir[onnx]'" in refusal(str(model))


@pytest.mark.skipif(os.name != "posix", reason="pipes end otherwise elsewhere")
def test_a_reader_that_goes_away_ends_the_tool_silently(tmp_path: Path):
    big = tmp_path / "big.mlir"
    big.write_text("".join(f'%{k} = "test.op"() {{text = "{"x" * 100}"}} : () -> f32\n' for k in range(2000)))
    command = f"'{sys.executable}' -m layout_ir.tools.layout_opt '{big}' | head -n 1"
    run = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, cwd=ROOT, env=environment(), check=False
    )
    assert run.stdout == "builtin.module {\n"
    assert run.stderr == ""
