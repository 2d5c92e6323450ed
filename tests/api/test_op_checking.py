"""What `check_op` says of ops that are wrong in one way each, and that it says nothing of those that are right."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# Registered functions take any arrays: a type checker knows nothing of the parameters of lambdas.
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects import arith
from xdsl.ir import Operation

import layout_ir as li
from layout_ir.extend import (
    CostModel,
    LayoutOption,
    PadBehaviour,
    PadRead,
    Severity,
    Target,
    check_op,
    elementwise_options,
    elementwise_pads,
    register_op,
    row_major,
)
from layout_ir.interfaces import ARRAY_SEMANTICS, PAD_BEHAVIOURS
from layout_ir.passes.selection.options.models import MODELS

EXAMPLES = Path(__file__).parents[2] / "examples"
BLOCKED = li.Format.from_tag("nChw8c")


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with MODELS.isolated(), ARRAY_SEMANTICS.isolated(), PAD_BEHAVIOURS.isolated():
        yield


def op(name: str = '"theirs.op"', type: str = "tensor<1x12x4x4xf32, #layout.any>") -> Operation:
    line = f"%y = {name}(%x) : ({type}) -> {type}" if name[0] == '"' else f"%y = {name} : {type}"
    text = f"func.func @f(%x: {type}) -> {type} {{\n{line}\nfunc.return %y : {type}\n}}"
    (function,) = li.parse(text, allow_unregistered=True).ops
    return function.body.block.first_op  # pyright: ignore


def said(
    options: Callable[..., Any] | None = elementwise_options,
    *,
    pads: PadBehaviour | None = None,
    semantics: Any = lambda op, x: x,
    **arguments: Any,
) -> list[str]:
    """The messages about an op that is registered so."""
    register_op("theirs.op", options=options, pads=pads, semantics=semantics)
    found = check_op(op(), **arguments)
    assert all(diagnostic.severity is Severity.ERROR for diagnostic in found)
    assert all(diagnostic.location is not None and diagnostic.location.line == 2 for diagnostic in found)
    return [diagnostic.message for diagnostic in found]


def test_negative_nothing_is_wrong_with_an_elementwise_op():
    assert said() == []
    assert said(pads=elementwise_pads(lambda x: x)) == []


@pytest.mark.parametrize("text", ["nn.relu %x", "arith.negf %x", "math.tanh %x", "nn.softmax %x axis = 1"])
def test_negative_nothing_is_wrong_with_ops_that_are_known(text: str):
    assert check_op(op(text)) == []


def test_what_is_not_known_of_an_op_is_no_error():
    found = check_op(op('"theirs.other"'))
    assert [diagnostic.severity for diagnostic in found] == [Severity.WARNING, Severity.REMARK]
    assert "no options are known" in found[0].message
    assert "no semantics are known" in found[1].message


def model(*options: Any) -> Callable[..., Any]:
    return lambda op, candidates, target: list(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (model(LayoutOption((BLOCKED, BLOCKED), (BLOCKED,), 1)), r"has 2 ins, the op has 1 such tensors"),
        (model(LayoutOption((li.Format.from_tag("ab"),), (BLOCKED,), 1)), r"ins: rank mismatch"),
        (model(LayoutOption((BLOCKED,), (BLOCKED,), -1)), r"cost = -1 is not in"),
        (model(LayoutOption((BLOCKED,), (BLOCKED,), float("inf"))), r"cost = inf is no int"),  # pyright: ignore
        (model(LayoutOption((BLOCKED,), (BLOCKED,), 1, name=5)), r"name = 5 is no str"),  # pyright: ignore
        (model("nchw"), r"is no LayoutOption"),
        (model(), r"no option on target blocked8, whatever formats are known"),
        (lambda op, candidates, target: None, r"gives None: expected LayoutOptions"),
        (lambda op, candidates, target: op.missing, r"AttributeError: .*missing"),
    ],
)
def test_options_that_do_not_fit_the_op(options: Callable[..., Any], message: str):
    (found,) = said(options, target="blocked8")
    assert re.search(message, found), found


def test_a_model_that_fails_for_formats_of_its_neighbours():
    def rows_only(op: Any, candidates: Any, target: Target) -> Iterator[LayoutOption]:
        for fmt in (row_major(op.results[0]), *candidates(op.operands[0])):
            assert not any(block > 1 for block in fmt.blocks()), "blocks"
            yield LayoutOption((fmt,), (fmt,), 1)

    (found,) = said(rows_only)
    assert "model " in found and "AssertionError: blocks" in found


def test_a_model_that_answers_differently():
    number = count()

    def changing(op: Any, candidates: Any, target: Target) -> Iterator[LayoutOption]:
        yield LayoutOption((BLOCKED,), (BLOCKED,), next(number))

    assert any("options differ between two calls" in message for message in said(changing))


def test_the_costs_of_a_target():
    class Wrong(CostModel):
        def op(self, name: str, option: LayoutOption, shapes: Any) -> Any:
            return 0.5

    assert "cost model Wrong: op(theirs.op) = 0.5 is no int" in said(target=Target("theirs", costs=Wrong()))


@pytest.mark.parametrize(
    ("pads", "message"),
    [
        (
            PadBehaviour(reads=lambda op, k: (PadRead(4, 0.0),)),
            "pad_reads of operand 0 of theirs.op: dim 4 is none of the 4",
        ),
        (
            PadBehaviour(reads=lambda op, k: (PadRead(1, float("nan")),)),
            "is no number that pads can be promised to hold",
        ),
        (PadBehaviour(leaves=lambda op: "zero"), "'zero' is no number"),  # pyright: ignore
        (
            PadBehaviour(reads=lambda op, k: (PadRead(1, 0.0), PadRead(3, 1.0))),
            "needs 0 in those of dim 1 and 1 in those of dim 3 of operand 0",
        ),
    ],
)
def test_what_an_op_says_of_pads(pads: PadBehaviour, message: str):
    both = li.Format.parse("(n, c, h, w) : [n, c, h, w, c:8, w:8], pad = zero")
    found = said(pads=pads, formats=[both])
    assert found and all(message in each for each in found), found


def test_a_verifier_that_takes_layouts_for_a_mismatch():
    def transposing(op: Any, candidates: Any, target: Target) -> Iterator[LayoutOption]:
        yield LayoutOption((row_major(op.operands[0]),), (BLOCKED,), 1, name="t")

    register_op(arith.NegfOp, options=transposing)
    (found,) = check_op(op("arith.negf %x"))
    assert found.severity is Severity.ERROR
    assert "(t) its verifier says: " in found.message


@pytest.mark.parametrize(
    ("semantics", "message"),
    [
        (lambda op, x: x[0], "give 12x4x4 of float32 for result 0"),
        (lambda op, x: x.missing, "AttributeError"),
    ],
)
def test_semantics_that_do_not_fit_the_types(semantics: Any, message: str):
    (found,) = said(semantics=semantics)
    assert message in found


def test_negative_an_unknown_target_or_format_is_no_diagnostic():
    with pytest.raises(li.LayoutError, match="unknown target 'sparc'"):
        check_op(op(), target="sparc")
    with pytest.raises(li.LayoutError):
        check_op(op(), formats=["no format"])
    with pytest.raises(li.LayoutError, match="an op is an Operation of xDSL, not of type str"):
        check_op("nn.relu")  # pyright: ignore


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.mlir")), ids=lambda path: path.stem)
def test_negative_nothing_is_wrong_with_any_op_of_the_examples(path: Path):
    for each in li.parse(path).walk():
        found = [
            diagnostic
            for diagnostic in check_op(each, target="blocked8")
            if diagnostic.severity is Severity.ERROR
        ]
        assert found == []


def test_the_op_is_as_it_was():
    relu = op("nn.relu %x")
    module = relu.parent_op().parent_op()  # pyright: ignore
    before = li.to_text(module)  # pyright: ignore
    check_op(relu)
    assert li.to_text(module) == before  # pyright: ignore
