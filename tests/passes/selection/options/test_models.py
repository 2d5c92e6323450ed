"""Models that others register: one path with the options that an op carries, and errors that name op and model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.diagnostics import PassError
from layout_ir.dialects.layout import FillPadsOp, ReorderOp, format_of
from layout_ir.interfaces import PAD_BEHAVIOURS, LayoutOption, PadBehaviour, PadRead
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.selection.options.models import MODELS
from layout_ir.printing import print_module
from tests.programs import parse

ANY = "tensor<1x17x5x4xf32, #layout.any>"
PLAIN = "tensor<1x17x5x4xf32>"
BLOCKED = "#layout.tag<nChw8c>"
ONES = "#layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = 1>"
PACKED = "#layout.tag<OIhw8i8o>"


@pytest.fixture(autouse=True)
def forget():
    """What a test registers is forgotten after it."""
    with MODELS.isolated(), PAD_BEHAVIOURS.isolated():
        yield


def _program(options: str = "") -> ModuleOp:
    """A convolution that only its model (or its options) knows, behind an exp, which makes ones of zeros."""
    return parse(f"""
func.func @main(%x : {PLAIN}, %w : tensor<17x17x1x1xf32>) -> {PLAIN} {{
  %a = layout.reorder %x : {PLAIN} -> {ANY}
  %e = nn.exp %a {{layout.options = [#layout.option<ins = [{BLOCKED}], outs = [{ONES}], cost = 1>]}} : {ANY}
  %v = layout.reorder %w : tensor<17x17x1x1xf32> -> tensor<17x17x1x1xf32, #layout.any>
  %y = "test.op"(%e, %v) {options} : ({ANY}, tensor<17x17x1x1xf32, #layout.any>) -> {ANY}
  %r = layout.reorder %y : {ANY} -> {PLAIN}
  func.return %r : {PLAIN}
}}""")


def _blocked(op: Operation, candidates: Any, target: Any) -> Iterator[LayoutOption]:
    fmt, weights = Format.from_tag("nChw8c"), Format.from_tag("OIhw8i8o")
    yield LayoutOption((fmt, weights), (fmt,), 7)


def test_pad_policies_of_a_model_are_those_of_carried_options():
    carried = _program(
        f"{{layout.options = [#layout.option<ins = [{BLOCKED}, {PACKED}], outs = [{BLOCKED}], cost = 7>]}}"
    )
    modelled = _program()
    MODELS.register(test.TestOp, _blocked)
    first, second = optimize(carried, "blocked8"), optimize(modelled, "blocked8")
    assert first is not None and second is not None and first.cost == second.cost
    assert print_module(modelled) == print_module(carried)
    (op,) = [op for op in modelled.walk() if isinstance(op, test.TestOp)]
    formats = [format_of(value.type) for value in (*op.operands, *op.results)]
    assert all(fmt is not None and fmt.pad == "zero" for fmt in formats)
    assert isinstance(op.operands[0].owner, FillPadsOp | ReorderOp)


def test_negative_an_op_that_states_its_padding_is_taken_at_its_word():
    module = _program()
    MODELS.register(test.TestOp, _blocked)
    PAD_BEHAVIOURS.register(
        test.TestOp, PadBehaviour(lambda op, operand: (PadRead(1, 5.0),), lambda op: None)
    )
    optimize(module, "blocked8")
    (op,) = [op for op in module.walk() if isinstance(op, test.TestOp)]
    formats = [format_of(value.type) for value in (*op.operands, *op.results)]
    assert [None if fmt is None else fmt.pad for fmt in formats] == [5.0, 5.0, "undef"]


FMT, OIHW = Format.from_tag("nchw"), Format.from_tag("oihw")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (LayoutOption((FMT,), (FMT,), 1), r"has 1 ins, the op has 2 such tensors"),
        (LayoutOption((FMT, OIHW), (FMT, FMT), 1), r"has 2 outs, the op has 1 such tensors"),
        (LayoutOption((FMT, OIHW), (Format.from_tag("nc"),), 1), r"outs: rank mismatch .*: 2 != 4"),
        (LayoutOption((FMT, OIHW), (FMT,), -1), r"cost = -1 is not in \[0, 2\^48\)"),
        (LayoutOption((FMT, OIHW), (FMT,), 1 << 48), r"cost = 281474976710656 is not in \[0, 2\^48\)"),
        (LayoutOption((FMT, OIHW), (FMT,), cast("int", 1.5)), r"cost = 1.5 is no int"),
        (LayoutOption((FMT, OIHW), (FMT,), True), r"cost = True is no int"),
        (LayoutOption((FMT, OIHW), (FMT,), cast("int", "1")), r"cost = '1' is no int"),
        (
            LayoutOption((FMT, OIHW), (cast("Format", "nchw"),), 1),
            r"outs: 'nchw' is no Format: Format.from_tag\('nchw'\) may be meant",
        ),
        (LayoutOption((FMT, OIHW), (cast("Format", None),), 1), r"outs: None is no Format"),
        (LayoutOption(cast("Any", "nchw"), (FMT,), 1), r"ins = 'nchw' is no tuple of Formats"),
        (LayoutOption((FMT, OIHW), (FMT,), 1, ((1, 0),)), r"in_place pairs tensor<17x17x1x1xf32, .*"),
        (LayoutOption((FMT, OIHW), (FMT,), 1, cast("Any", (0,))), r"in_place: 0 is no pair"),
        (LayoutOption((FMT, OIHW), (FMT,), 1, cast("Any", 0)), r"in_place = 0 is no tuple of pairs"),
        ((FMT, OIHW), r"= \(.*\) is no LayoutOption"),
    ],
)
def test_options_of_models_are_checked(option: Any, message: str):
    def my_model(op: Operation, candidates: Any, target: Any) -> list[LayoutOption]:
        return [LayoutOption((FMT, OIHW), (FMT,), 3), option]

    MODELS.register("test.op", my_model)
    start = r"^model .*my_model of test.op: options(\[1\] )?"
    with pytest.raises(PassError, match=start + message) as caught:
        optimize(_program(), "blocked8")
    assert str(caught.value).count("my_model") == 1


def _raises(op: Operation, candidates: Any, target: Any) -> list[LayoutOption]:
    raise IndexError("list index out of range")


def _nothing(op: Operation, candidates: Any, target: Any) -> Any:
    return None


def _number(op: Operation, candidates: Any, target: Any) -> Any:
    return 3


def _late(op: Operation, candidates: Any, target: Any) -> Iterator[LayoutOption]:
    yield LayoutOption((FMT, OIHW), (FMT,), 3)
    raise KeyError("late")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (_raises, "model _raises of test.op: IndexError: list index out of range"),
        (_nothing, "model _nothing of test.op: gives None: expected LayoutOptions"),
        (_number, "model _number of test.op: gives 3: expected LayoutOptions"),
        (_late, "model _late of test.op: KeyError: 'late'"),
    ],
)
def test_a_model_that_fails_is_named_with_its_op(model: Any, message: str):
    MODELS.register(test.TestOp, model)
    with pytest.raises(PassError, match=message):
        optimize(_program(), "blocked8")


def _behaviour(reads: Callable[[Operation, int], Any], leaves: Callable[[Operation], Any]) -> PadBehaviour:
    return PadBehaviour(reads, leaves)


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (_behaviour(lambda op, k: (PadRead(9, 0.0),), lambda op: None), "dim 9 is none of the 4 dims of"),
        (
            _behaviour(lambda op, k: (PadRead(1, cast("float", "zero")),), lambda op: None),
            "neutral = 'zero' is no",
        ),
        (_behaviour(lambda op, k: (1,), lambda op: None), "1 is no PadRead"),
        (
            _behaviour(lambda op, k: (PadRead(1, 0.0),), lambda op: "zero"),
            "pad_result of test.op: 'zero' is no number",
        ),
        (
            _behaviour(lambda op, k: 1 / 0, lambda op: None),
            "pad_reads of operand . of test.op: ZeroDivisionError",
        ),
    ],
)
def test_what_an_op_says_of_pads_is_checked(behaviour: PadBehaviour, message: str):
    MODELS.register(test.TestOp, _blocked)
    PAD_BEHAVIOURS.register(test.TestOp, behaviour)
    with pytest.raises(PassError, match=message):
        optimize(_program(), "blocked8")


def test_negative_pads_that_must_hold_two_numbers_at_once():
    """Zeros along one dim and fives along another: no type promises that, so no such option is there."""
    two = Format.parse("(n, c, h, w) : [n, c, h, w, c:8, w:3], pad = zero")

    def both(op: Operation, candidates: Any, target: Any) -> list[LayoutOption]:
        return [LayoutOption((two, OIHW), (FMT,), 1), LayoutOption((FMT, OIHW), (FMT,), 50_000)]

    MODELS.register(test.TestOp, both)
    PAD_BEHAVIOURS.register(test.TestOp, PadBehaviour(lambda op, k: (PadRead(1, 0.0), PadRead(3, 5.0))))
    module = _program()
    optimize(module, "blocked8")
    (op,) = [op for op in module.walk() if isinstance(op, test.TestOp)]
    assert format_of(op.operands[0].type) == FMT


def test_in_place_options_of_models_ask_whether_the_operand_may_go():
    def in_place(op: Operation, candidates: Any, target: Any) -> list[LayoutOption]:
        return [LayoutOption((FMT, OIHW), (FMT,), 1, ((0, 0),)), LayoutOption((FMT, OIHW), (FMT,), 5)]

    MODELS.register(test.TestOp, in_place)
    module = _program()
    optimize(module, "blocked8")
    (op,) = [op for op in module.walk() if isinstance(op, test.TestOp)]
    assert "layout.in_place" in op.attributes
