"""All that is wrong with a program."""

from typing import ClassVar

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.dialects.cf import Cf
from xdsl.dialects.func import Func
from xdsl.dialects.scf import Scf
from xdsl.dialects.test import Test
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.utils.exceptions import VerifyException

from layout_ir.diagnostics import Location
from layout_ir.errors import LayoutError
from layout_ir.frontends.mlir.locations import LocatedParser
from layout_ir.frontends.mlir.verify_module import verify_module


def parse(text: str) -> ModuleOp:
    ctx = Context(allow_unregistered=True)
    for dialect in (Arith, Builtin, Cf, Func, Scf, Test):
        ctx.load_dialect(dialect)
    return LocatedParser(ctx, text, "f").parse_program()


def errors(text: str) -> list[str]:
    return [f"{error.location}: {error.message}" for error in verify_module(parse(text))]


FUNCTION = "func.func @f(%x: f32, %c: i1) {{\n{}\n}}\n"

RIGHT = {
    "a straight line": FUNCTION.format("  %a = arith.addf %x, %x : f32\n  func.return"),
    "a loop of blocks": FUNCTION.format(
        "  cf.br ^a(%x : f32)\n^a(%y: f32):\n  %z = arith.addf %y, %y : f32\n  cf.cond_br %c, ^a(%z : f32), ^b\n"
        "^b:\n  func.return"
    ),
    "a value used in a region": FUNCTION.format(
        '  %a = arith.addf %x, %x : f32\n  "test.op"() ({\n    "test.termop"(%a) : (f32) -> ()\n  }) : () -> ()\n'
        "  func.return"
    ),
    "a value of a block that every way leads through": FUNCTION.format(
        "  cf.br ^b\n^a:\n  %z = arith.addf %y, %y : f32\n  cf.br ^c\n^b:\n  %y = arith.addf %x, %x : f32\n"
        "  cf.cond_br %c, ^a, ^c\n^c:\n  %w = arith.addf %y, %y : f32\n  func.return"
    ),
    "a block that never runs": FUNCTION.format(
        "  func.return\n^a:\n  %z = arith.addf %y, %y : f32\n  %y = arith.addf %z, %z : f32\n  func.return"
    ),
    "the body of an op that is not known": FUNCTION.format(
        '  "their.op"() ({\n    "their.use"(%y) : (f32) -> ()\n    %y = arith.addf %x, %x : f32\n'
        '    "their.end"() : () -> ()\n  }) : () -> ()\n  func.return'
    ),
    "a graph": '"test.op"(%b) : (f32) -> ()\n%b = "test.op"() : () -> f32\n',
    "a body that needs no terminator": "builtin.module {\n}\n",
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT.keys())
def test_a_right_program_has_no_errors(text: str):
    parse(text).verify()
    assert errors(text) == []


WRONG = {
    "verifier": ('  %a = "arith.addf"(%x) : (f32) -> f32\n  func.return', "f:2:8: 'arith.addf' op "),
    "terminator": ("  %a = arith.addf %x, %x : f32", "f:2:8: 'arith.addf' op ends the body of 'func.func'"),
    "empty": ('  "scf.for"(%x) ({\n  ^a:\n  }) : (f32) -> ()\n  func.return', "f:2:3: 'scf.for' op"),
    "order": (
        "  %a = arith.addf %b, %b : f32\n  %b = arith.addf %x, %x : f32\n  func.return",
        "f:2:8: 'arith.addf' op operand #0 does not dominate this use: %b is defined later",
    ),
    "itself": (
        "  %a = arith.addf %x, %a : f32\n  func.return",
        "f:2:8: 'arith.addf' op operand #1 does not dominate this use: %a is defined later",
    ),
    "later than the op around": (
        "  scf.if %c {\n    %a = arith.addf %b, %b : f32\n  }\n  %b = arith.addf %x, %x : f32\n  func.return",
        "f:3:10: 'arith.addf' op operand #0 does not dominate this use: %b is defined later",
    ),
    "another way": (
        (
            "  cf.cond_br %c, ^a, ^b\n^a:\n  %a = arith.addf %x, %x : f32\n  cf.br ^b\n^b:\n"
            "  %b = arith.addf %x, %a : f32\n  func.return"
        ),
        "f:7:8: 'arith.addf' op operand #1 does not dominate this use: %a is defined in a block that not every way",
    ),
    "an argument of another way": (
        (
            "  cf.cond_br %c, ^a(%x : f32), ^b\n^a(%a: f32):\n  cf.br ^b\n^b:\n"
            "  %b = arith.addf %x, %a : f32\n  func.return"
        ),
        "f:6:8: 'arith.addf' op operand #1 does not dominate this use: %a is defined in a block that not every way",
    ),
    "branch": (
        "  cf.br ^a\n^a:\n  %a = arith.addf %x, %x : f32\n^b:\n  func.return",
        "f:4:8: 'arith.addf' op ends a block and is no terminator",
    ),
    "early": (
        "  cf.br ^a\n  func.return\n^a:\n  func.return",
        "f:2:3: 'cf.br' op has successors and must end its block",
    ),
}


@pytest.mark.parametrize(("body", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_program_has_an_error_at_the_op(body: str, message: str):
    found = errors(FUNCTION.format(body))
    assert found
    assert found[0].startswith(message)
    assert "\n" not in "".join(found)


def test_a_symbol_of_two_ops_is_an_error_at_the_second():
    text = FUNCTION.format("  func.return")
    assert errors(text + text) == ["f:4:1: 'func.func' op Redefinition of symbol \"f\""]
    assert errors(text + text.replace("@f", "@g")) == []


def test_negative_a_value_of_a_region_that_is_left():
    module = parse(FUNCTION.format("  scf.if %c {\n    %a = arith.addf %x, %x : f32\n  }\n  func.return"))
    inner = next(op for op in module.walk() if op.name == "arith.addf")
    end = next(op for op in module.walk() if op.name == "func.return")
    end.operands = inner.results
    (error,) = (each for each in verify_module(module) if "dominate" in each.message)
    assert error.message.endswith("%a is defined in a region that is not around it")


def test_errors_come_in_the_order_of_the_program_and_from_all_depths():
    wrong = '"arith.addf"(%x) : (f32) -> f32'
    body = f'  %a = {wrong}\n  "test.op"() ({{\n    %b = {wrong}\n    "test.termop"() : () -> ()\n  }}) : () -> ()\n'
    found = errors(FUNCTION.format(f"{body}  %d = {wrong}\n  func.return"))
    assert [error.partition(": ")[0] for error in found] == ["f:2:8", "f:4:10", "f:7:8"]


@irdl_op_definition
class RefusingOp(IRDLOperation):
    """An op that is never right."""

    name = "test.refusing"
    ERROR: ClassVar[Exception]

    def verify_(self) -> None:
        raise self.ERROR


@pytest.mark.parametrize("kind", [VerifyException, LayoutError])
def test_both_kinds_of_errors_of_verifiers_are_caught(kind: type[Exception], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(RefusingOp, "ERROR", kind("2 != 3"), raising=False)
    assert [error.message for error in verify_module(ModuleOp([RefusingOp()]))] == [
        "'test.refusing' op 2 != 3"
    ]


def test_negative_a_defect_of_a_verifier_is_not_taken_for_a_wrong_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(RefusingOp, "ERROR", KeyError("x"), raising=False)
    op = RefusingOp()
    op.location = FileLineColLoc(StringAttr("p.mlir"), IntAttr(3), IntAttr(5))
    (found,) = verify_module(ModuleOp([op]))
    assert found.location == Location("p.mlir", 3, 5)
    assert "its verifier failed: KeyError: 'x'; layout-ir did not foresee this" in found.message
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("LAYOUT_IR_TRACEBACK", "1")
    verify_module(ModuleOp([op.clone()]))
    assert "in verify_" in capsys.readouterr().err
