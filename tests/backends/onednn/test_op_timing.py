"""Ops and reorders as calls that are timed: what runs is what the executor would run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.runtime.timing import Limits
from layout_ir.backends.onednn import op_timing
from layout_ir.backends.onednn.execution_plan import ExecutionPlan, plan_execution
from layout_ir.backends.onednn.library import Library, library
from layout_ir.backends.onednn.op_timing import (
    Call,
    OpCall,
    measured,
    op_call,
    price_source,
    prices_of,
    reorder_call,
    rounds_of,
)
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.dialects import nn
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.costs.calibration import machine_name
from layout_ir.passes.selection.costs.price_keys import PriceKey, op_key, reorder_key
from layout_ir.passes.selection.costs.price_table import Price
from layout_ir.passes.selection.translation.priced_selection import OpQuestion, Question, ReorderQuestion
from tests.backends.onednn.small_programs import needs_library
from tests.programs import parse

pytestmark = needs_library

PROGRAM = """
func.func @main(%x : tensor<1x17x8x8xf32, #layout.any>) -> tensor<1x16x8x8xf32, #layout.any> {
  %w = nn.constant dense<0.5> : tensor<16x17x3x3xf32, #layout.any>
  %a = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x17x8x8xf32, #layout.any>, tensor<16x17x3x3xf32, #layout.any>) -> tensor<1x16x8x8xf32, #layout.any>
  %b = nn.mul %a, %a : tensor<1x16x8x8xf32, #layout.any>
  %c = nn.cum_sum %b axis = 1 : tensor<1x16x8x8xf32, #layout.any>
  func.return %c : tensor<1x16x8x8xf32, #layout.any>
}
"""  # noqa: E501

NCHW, BLOCKED, LAST, WEIGHT = (Format.of(tag) for tag in ("nchw", "nChw8c", "nhwc", "oihw"))


def _op(kind: type[Operation]) -> Operation:
    return next(op for op in parse(PROGRAM).walk() if isinstance(op, kind))


@pytest.mark.parametrize("fmt", [NCHW, BLOCKED, LAST])
def test_an_op_runs_in_each_format_that_the_library_has(fmt: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = _planned(monkeypatch)
    call = op_call(_op(nn.ConvOp), LayoutOption((fmt, WEIGHT), (fmt,), 0), library(), 1)
    assert call is not None
    call()
    plan, *_ = plans
    steps = plan.steps
    assert type(steps[-1]).__name__ == "PrimitiveStep"
    assert [place.layout.format.with_pad("undef") for place in plan.inputs] == [
        fmt.bind((1, 17, 8, 8)).format.with_pad("undef")
    ]


def test_an_operand_that_is_used_twice_is_one_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = _planned(monkeypatch)
    call = op_call(_op(nn.MulOp), LayoutOption((LAST, LAST), (LAST,), 0), library(), 1)
    assert call is not None
    call()
    assert len(plans[0].inputs) == 1


def test_what_the_library_lacks_is_timed_as_the_reference_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = _planned(monkeypatch)
    call = op_call(_op(nn.CumSumOp), LayoutOption((NCHW,), (NCHW,), 0), library(), 1)
    assert call is not None
    call()
    assert len(plans[0].steps) == 1


def _planned(monkeypatch: pytest.MonkeyPatch) -> list[ExecutionPlan]:
    """The plans that are made from now on."""
    plans: list[ExecutionPlan] = []

    def watched(function: FuncOp, library: Library, *, threads: int) -> ExecutionPlan:
        plans.append(plan_execution(function, library, threads=threads))
        return plans[-1]

    monkeypatch.setattr(op_timing, "plan_execution", watched)
    return plans


def test_a_reorder_is_the_compiled_kernel_and_writes_pads() -> None:
    shape = (1, 17, 8, 8)
    for source, destination in ((NCHW, BLOCKED), (BLOCKED, LAST), (BLOCKED, BLOCKED)):
        call = reorder_call(source.bind(shape), destination.bind(shape), "f32", 1)
        assert call is not None
        call()


def test_the_source_says_machine_library_release_and_threads() -> None:
    source = price_source(library(), 2)
    assert source.machine == machine_name() and source.threads == 2
    assert source.runtime.startswith(f"oneDNN {library().version} (") and ", layout-ir " in source.runtime
    assert f", {library().instruction_set}, " in source.runtime


def test_what_takes_turns_is_one_op_and_each_answer_comes_with_its_key() -> None:
    groups: list[int] = []

    def times(calls: Sequence[Call]) -> list[Price]:
        groups.append(len(calls))
        return [Price(k, k, k) for k in range(len(calls))]

    found = dict(measured(_questions(), library(), 1, times))
    assert groups == [3, 1, 1]
    assert [price for price in found.values() if price is not None] == [
        Price(0, 0, 0), Price(1, 1, 1), Price(2, 2, 2), Price(0, 0, 0), Price(0, 0, 0)
    ]  # fmt: skip


def _questions() -> list[tuple[PriceKey, Question]]:
    conv, mul = _op(nn.ConvOp), _op(nn.MulOp)
    options = [(conv, LayoutOption((fmt, WEIGHT), (fmt,), 0)) for fmt in (NCHW, BLOCKED, LAST)]
    options.append((mul, LayoutOption((LAST, LAST), (LAST,), 0)))
    found: list[tuple[PriceKey, Question]] = []
    for op, option in options:
        key = op_key(op, option)
        assert key is not None
        found.append((key, OpQuestion(op, option)))
    sides = NCHW.bind((1, 4, 2, 2)), LAST.bind((1, 4, 2, 2))
    key = reorder_key(*sides, "f32")
    assert key is not None
    return [*found, (key, ReorderQuestion(*sides, "f32"))]


@pytest.mark.parametrize(("constant_bytes", "is_cold"), [(1 << 20, True), (0, False)])
def test_what_evicts_weights_brings_operands_and_code_back_before_every_call(
    constant_bytes: int, is_cold: bool
) -> None:
    events: list[str] = []

    class Watched(np.ndarray):
        def max(self, *args: Any, **options: Any) -> Any:
            events.append("read")
            return super().max(*args, **options)

    operand = Tensor(np.zeros(4, np.float32).view(Watched), NCHW.bind((1, 1, 2, 2)), "f32")
    call = OpCall(lambda: events.append("call"), [operand], constant_bytes, lambda: events.append("twin"))
    (own,) = rounds_of([call], Limits(precision=0.0, seconds=0.0, fewest=3, most=3))
    assert len(own) == 3
    if is_cold:
        assert events == ["call", *(3 * ["read", "twin", "call"])]
    else:
        assert set(events) == {"call"}


def test_nothing_takes_no_rounds() -> None:
    assert rounds_of([], Limits()) == [] and prices_of([]) == []


def test_negative_what_does_not_run_has_no_price() -> None:
    swizzled = Format.parse("(h, w) : [h, w], swizzle = (3, 4, 3)")
    plain = Format.of("(h, w) : [h, w]")
    shape = (64, 128)
    op = _op(nn.MulOp)
    key = op_key(op, LayoutOption((LAST, LAST), (LAST,), 0))
    assert key is not None
    questions: list[tuple[PriceKey, Question]] = [
        (key, ReorderQuestion(plain.bind(shape), swizzled.bind(shape), "f32")),
    ]
    assert list(measured(questions, library(), 1, lambda calls: [Price(1, 1, 1) for _ in calls])) == [
        (key, None)
    ]


def test_prices_are_intervals_around_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    (price,) = prices_of([lambda: sum(range(100))])
    assert 0 < price.low <= price.ns <= price.high
    now = iter(x / 10 for x in range(100))
    monkeypatch.setattr(op_timing, "perf_counter", lambda: next(now))
    (slow,) = prices_of([lambda: None])  # a tenth of a second each
    assert slow.low == round(0.1e9 / 1.5) and slow.ns == round(0.1e9) and slow.high == round(0.1e9 * 1.5)
