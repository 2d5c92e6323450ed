"""Folding never changes what a program computes, never makes it slower, and knows when it is done."""

# Programs have long lines.
# ruff: noqa: E501

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.api.execute import run
from layout_ir.dialects.layout import ReorderOp, is_tensor
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.passes.fold_reorders import REWRITES, RULES, carry_other_layout, fold_reorders, rules_under
from layout_ir.passes.folding.cost_changes import cost_of, is_layout_change
from layout_ir.passes.legalize_pads import legalize_pads
from layout_ir.passes.propagate import propagate
from layout_ir.passes.reorder_report import traffic
from layout_ir.passes.rewriting import insert_after
from layout_ir.passes.selection.costs.cost_table import parse_costs
from layout_ir.passes.strip import strip
from layout_ir.printing import print_module
from tests.passes.programs import random_program
from tests.programs import TARGETS, parse

FORMATS: dict[int, tuple[str, ...]] = {
    1: ("a", "A8a"),
    2: ("ab", "ba", "aB8b"),
    3: ("abc", "acb", "aBc8b"),
    4: (
        "nchw",
        "nhwc",
        "nChw8c",
        "(n, c, h, w) : [n, c, h, w, c:8]",
        "(n, c, h, w) : [n, c, h, w, c:8], pad = 3",
    ),
}


def detour(module: ModuleOp, rng: random.Random) -> None:
    """Sends uses of random values through reorders there and back again, which compute nothing."""
    values = [
        v for op in module.walk() for v in op.results if is_tensor(v.type) and op.parent_op() is not module
    ]
    for value in rng.sample(values, min(len(values), 5)):
        shape = tensor_type(value.type).get_shape()
        tags = FORMATS.get(len(shape), ())
        uses = [use for use in value.uses if rng.random() < 0.7]
        if not tags or not uses:
            continue
        there = Format.of(rng.choice(tags))
        if tensor_type(value.type).element_type != f32 and there.pad == 3:
            there = there.with_pad("zero")  # no truth value is 3
        there = ReorderOp(value, there)
        insert_after(value, there)
        back = ReorderOp(there.result, tensor_type(value.type).encoding)
        insert_after(there.result, back)
        for use in uses:
            use.operation.operands[use.index] = back.result


def random_case(seed: int) -> tuple[ModuleOp, Any, list[Any]]:
    """A program full of reorders, an input, and what it computes."""
    module, shape = random_program(300 + seed, 10)
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    want = run(module, [x], reorders="reference")
    propagate(module, TARGETS[seed % len(TARGETS)], ("naive", "exact")[seed % 2])
    detour(module, random.Random(seed))
    module.verify()
    return module, x, want


def weighed(module: ModuleOp) -> int:
    return sum(cost_of(op) for op in module.walk() if is_layout_change(op))


@pytest.mark.parametrize("seed", range(60))
def test_folding_keeps_results_and_never_costs_more(seed: int):
    module, x, want = random_case(seed)
    before = traffic(module).time_ns
    original = module.clone()
    fold_reorders(module)
    module.verify()
    # The reference poisons every pad that no type promises, so an op on pads it must not see shows here.
    for got, expected in zip(run(module, [x], reorders="reference"), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert traffic(module).time_ns <= before
    text = print_module(module)
    assert fold_reorders(module) == 0
    assert print_module(module) == text
    strip(module)
    strip(original)
    assert print_module(module) == print_module(original)


@pytest.mark.parametrize("seed", [4, 6, 10, 12, 14, 18, 20, 24, 34, 36, 40, 46])
def test_every_single_rule_lowers_the_measure(seed: int, monkeypatch: pytest.MonkeyPatch):
    module, _, _ = random_case(seed)
    moved: list[str] = []

    def watched(rule: Callable[[Operation], Any]) -> Callable[[Operation], Any]:
        def apply(op: Operation) -> Any:
            before = weighed(module)
            made = rule(op)
            if made is True:
                moved.append(rule.__name__)
                assert weighed(module) <= before, f"{rule.__name__} made the program worse"
            return made

        return apply

    moves = {rule: watched(rule) for rule in REWRITES}
    # Which of them moved is asked by its name in the module.
    monkeypatch.setattr("layout_ir.passes.fold_reorders.carry_other_layout", moves[carry_other_layout])
    assert fold_reorders(module, rewrites=tuple(moves.values())) > 0
    assert moved, "no move: nothing is tested"


def test_a_detour_is_found_and_gone():
    module, _ = random_program(5, 10)
    propagate(module, "blocked8")
    fold_reorders(module)
    before = traffic(module).time_ns
    detour(module, random.Random(1))
    assert traffic(module).time_ns > before, "nothing was inserted: nothing is tested"
    fold_reorders(module)
    assert traffic(module).time_ns <= before


LOOP = """
#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>
func.func @main(%x : tensor<1x16x8x8xf32, #nchw>) -> tensor<1x16x8x8xf32, #nchw> {
  %low = arith.constant 0 : index
  %high = arith.constant HIGH : index
  %step = arith.constant 1 : index
  %r = scf.for %k = %low to %high step %step iter_args(%a = %x) -> (tensor<1x16x8x8xf32, #nchw>) {
    %b = layout.reorder %a : tensor<1x16x8x8xf32, #nchw> -> tensor<1x16x8x8xf32, #nChw8c>
    %y = layout.reorder %x : tensor<1x16x8x8xf32, #nchw> -> tensor<1x16x8x8xf32, #nChw8c>
    %c = nn.matmul_like
    %e = layout.reorder %c : tensor<1x16x8x8xf32, #nChw8c> -> tensor<1x16x8x8xf32, #nchw>
    scf.yield %e : tensor<1x16x8x8xf32, #nchw>
  }
  func.return %r : tensor<1x16x8x8xf32, #nchw>
}
"""
BODY = """%w = nn.constant dense<0.01> : tensor<16x16x3x3xf32, #layout.tag<OIhw8i8o>>
    %s = nn.add %b, %y : tensor<1x16x8x8xf32, #nChw8c>
    %c = nn.conv %s, %w pads = [1, 1, 1, 1] : (tensor<1x16x8x8xf32, #nChw8c>, tensor<16x16x3x3xf32, #layout.tag<OIhw8i8o>>) -> tensor<1x16x8x8xf32, #nChw8c>"""


def _loop(high: int) -> ModuleOp:
    return parse(LOOP.replace("HIGH", str(high)).replace("%c = nn.matmul_like", BODY))


def test_a_loop_carries_what_its_body_wants():
    module = _loop(5)
    x = np.random.default_rng(0).standard_normal((1, 16, 8, 8)).astype(np.float32)
    want = run(module, [x], reorders="reference")
    before = weighed(module)
    fold_reorders(module)
    module.verify()
    (loop,) = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    assert not any(isinstance(op, ReorderOp) for op in loop.walk())
    assert sum(isinstance(op, ReorderOp) for op in module.walk()) == 2
    assert weighed(module) < before
    np.testing.assert_allclose(run(module, [x], reorders="reference")[0], want[0], rtol=1e-5, atol=1e-5)


def test_negative_a_loop_that_runs_once_keeps_its_reorders():
    module = _loop(1)
    fold_reorders(module)
    (loop,) = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    assert any(isinstance(op, ReorderOp) for op in loop.walk())


DIVISION = """
#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>
func.func @main(%x : tensor<1xCx9x9xi32, #nChw8c>, %y : tensor<1xCx9x9xi32, #nChw8c>) -> tensor<1xCx9x9xi32, #nChw8c> {
  %a = layout.reorder %x : tensor<1xCx9x9xi32, #nChw8c> -> tensor<1xCx9x9xi32, #nchw>
  %b = layout.reorder %y : tensor<1xCx9x9xi32, #nChw8c> -> tensor<1xCx9x9xi32, #nchw>
  %c = nn.div %a, %b : tensor<1xCx9x9xi32, #nchw>
  %d = layout.reorder %c : tensor<1xCx9x9xi32, #nchw> -> tensor<1xCx9x9xi32, #nChw8c>
  func.return %d : tensor<1xCx9x9xi32, #nChw8c>
}"""


@pytest.mark.parametrize(("channels", "left"), [(16, 0), (17, 3)])
def test_integers_are_divided_in_blocks_only_without_pads(channels: int, left: int):
    module = parse(DIVISION.replace("C", str(channels)).replace(f"n{channels}", "nC"))
    shape = (1, channels, 9, 9)
    a, b = (np.random.default_rng(k).integers(1, 50, shape).astype(np.int32) for k in (1, 2))
    fold_reorders(module)
    module.verify()
    assert sum(isinstance(op, ReorderOp) for op in module.walk()) == left
    with np.errstate(divide="raise"):
        assert np.array_equal(run(module, [a, b], reorders="reference")[0], a // b)


def test_folding_behind_legalization_leaves_right_pads_alone():
    module, x, want = random_case(3)
    fold_reorders(module)
    legalize_pads(module)
    fold_reorders(module)
    module.verify()
    for got, expected in zip(run(module, [x], reorders="reference"), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_the_tables_name_each_rule_once():
    names = [rule.__name__ for rule in (*RULES, *REWRITES)]
    assert len(set(names)) == len(names)
    assert all(rule.__doc__ for rule in (*RULES, *REWRITES))


def test_a_loop_that_changes_its_layout_twice_settles():
    """Carrying the other layout and running the body in it do not undo each other for ever."""
    module = parse("""
#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>
func.func @main(%x : tensor<1x8x5x4xf32, #nhwc>) -> (tensor<1x8x5x4xf32, #nhwc>, tensor<1x8x5x4xf32, #nchw>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %0 = layout.reorder %x : tensor<1x8x5x4xf32, #nhwc> -> tensor<1x8x5x4xf32, #nchw>
  %r = scf.for %i = %zero to %three step %one iter_args(%a = %x) -> (tensor<1x8x5x4xf32, #nhwc>) {
    %b = layout.reorder %a : tensor<1x8x5x4xf32, #nhwc> -> tensor<1x8x5x4xf32, #nchw>
    %c = math.exp %b : tensor<1x8x5x4xf32, #nchw>
    %d = layout.reorder %c : tensor<1x8x5x4xf32, #nchw> -> tensor<1x8x5x4xf32, #nhwc>
    scf.yield %d : tensor<1x8x5x4xf32, #nhwc>
  }
  func.return %r, %0 : tensor<1x8x5x4xf32, #nhwc>, tensor<1x8x5x4xf32, #nchw>
}""")
    assert 0 < fold_reorders(module) < 20
    (loop,) = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    assert not [op for op in loop.walk() if isinstance(op, ReorderOp)]


@pytest.mark.parametrize(("frequency", "inside"), [(1, True), (3, False)])
def test_a_reorder_does_not_go_where_it_runs_more_often(frequency: int, inside: bool):
    module = parse(f"""
#nchw = #layout.tag<nchw>
#nhwc = #layout.tag<nhwc>
func.func @main(%p : i1, %x : tensor<1x8x5x4xf32, #nhwc>) -> tensor<1x8x5x4xf32, #nchw> {{
  %0 = layout.reorder %x : tensor<1x8x5x4xf32, #nhwc> -> tensor<1x8x5x4xf32, #nchw>
  %e = nn.constant dense<1.0> : tensor<1x8x5x4xf32, #nchw>
  %r = scf.if %p -> (tensor<1x8x5x4xf32, #nchw>) {{
    %k = nn.constant dense<0.5> : tensor<4x4xf32>
    %a = nn.matmul %0, %k : (tensor<1x8x5x4xf32, #nchw>, tensor<4x4xf32>) -> tensor<1x8x5x4xf32, #nchw>
    scf.yield %a : tensor<1x8x5x4xf32, #nchw>
  }} else {{
    scf.yield %e : tensor<1x8x5x4xf32, #nchw>
  }} {{layout.frequency = {frequency}}}
  func.return %r : tensor<1x8x5x4xf32, #nchw>
}}""")
    fold_reorders(module)
    (reorder,) = [op for op in module.walk() if isinstance(op, ReorderOp)]
    assert isinstance(reorder.parent_op(), scf.IfOp) == inside


CHAIN = """
#nchw = #layout.format<(n, c, h, w) : [n, c, h, w]>
#nhwc = #layout.format<(n, c, h, w) : [n, h, w, c]>
#nChw8c = #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>
func.func @main(%x: tensor<1x16x4x4xf32, #nchw>) -> tensor<1x16x4x4xf32, #nhwc> {
  %a = layout.reorder %x : tensor<1x16x4x4xf32, #nchw> -> tensor<1x16x4x4xf32, #nChw8c>
  %b = layout.reorder %a : tensor<1x16x4x4xf32, #nChw8c> -> tensor<1x16x4x4xf32, #nhwc>
  func.return %b : tensor<1x16x4x4xf32, #nhwc>
}
"""


def _left_of_the_chain(direct: int) -> int:
    """Reorders that are left of two which cost 10 each, where one in their place costs `direct`."""
    steps = (("nchw", "nChw8c", 10), ("nChw8c", "nhwc", 10), ("nchw", "nhwc", direct))
    costs = parse_costs({"reorder": [{"from": a, "to": b, "cost": c} for a, b, c in steps]}, "costs")
    module = parse(CHAIN)
    fold_reorders(module, rules_under(costs))
    return sum(isinstance(op, ReorderOp) for op in module.walk())


def test_a_chain_is_merged_where_that_is_no_dearer_by_the_costs():
    assert _left_of_the_chain(20) == 1


def test_negative_a_chain_stays_where_one_reorder_is_dearer():
    assert _left_of_the_chain(21) == 2


def test_negative_a_constant_whose_bytes_are_in_a_resource_is_not_written_in_another_layout():
    module = parse("""
func.func @f() -> tensor<2x3xf32, #layout.tag<ba>> {
  %c = arith.constant dense_resource<far> : tensor<2x3xf32>
  %r = layout.reorder %c : tensor<2x3xf32> -> tensor<2x3xf32, #layout.tag<ba>>
  func.return %r : tensor<2x3xf32, #layout.tag<ba>>
}""")
    fold_reorders(module)
    module.verify()
    assert any(isinstance(op, ReorderOp) for op in module.walk())
