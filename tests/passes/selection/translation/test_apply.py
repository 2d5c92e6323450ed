"""Any choice that the problem has, the cheapest or not, becomes a program that computes the same."""

from __future__ import annotations

import random

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.api.execute import run
from layout_ir.dialects.layout import CastOp, FillPadsOp, ReorderOp, is_any
from layout_ir.passes.folding.cost_changes import cost_of
from layout_ir.passes.selection.options.in_place import ATTRIBUTE as IN_PLACE
from layout_ir.passes.selection.options.targets import target_named
from layout_ir.passes.selection.problem.selection import Selection
from layout_ir.passes.selection.translation.apply import apply
from layout_ir.passes.selection.translation.from_ir import build
from layout_ir.passes.strip import strip
from layout_ir.printing import print_module
from layout_ir.selection.solver.greedy import solve_preferred
from layout_ir.selection.solver.selection_problem import FORBIDDEN, demands, evaluate, tree_edges
from tests.passes.programs import random_program
from tests.programs import TARGETS, parse

ANY = "tensor<1x16x8x8xf32, #layout.any>"


def _random_choices(selection: Selection, rng: random.Random) -> tuple[int, ...]:
    """Options drawn at random, as far as reorders between them are possible."""
    choices = list(solve_preferred(selection.problem).choices)
    assert evaluate(selection.problem, choices) < FORBIDDEN
    for number in rng.sample(range(len(choices)), len(choices)):
        old = choices[number]
        choices[number] = rng.randrange(len(selection.problem.ops[number].choices))
        if evaluate(selection.problem, choices) >= FORBIDDEN:
            choices[number] = old
    return tuple(choices)


def _count(module: ModuleOp, *kinds: type) -> int:
    return sum(isinstance(op, kinds) for op in module.walk())


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_any_choice_computes_the_same(seed: int, share: bool):
    module, shape = random_program(seed, 8)
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    want = run(module, [x], reorders="reference")
    original = module.clone()
    selection = build(module, target_named(TARGETS[seed % len(TARGETS)]))
    apply(module, selection, _random_choices(selection, random.Random(seed)), share=share)
    module.verify()
    values = [v for op in module.walk() for v in (*op.operands, *op.results)]
    assert not any(is_any(value.type) for value in values)
    for got, expected in zip(run(module, [x], reorders="reference"), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    strip(module)
    strip(original)
    assert print_module(module) == print_module(original)


def _reader(*tags: str) -> str:
    """One value in nchw, and one use of it in each of these formats."""
    lines = [f'%x = "test.op"() {{layout.options = [{_option("", "nchw")}]}} : () -> {ANY}']
    lines += [f'"test.op"(%x) {{layout.options = [{_option(tag, "")}]}} : ({ANY}) -> ()' for tag in tags]
    return "func.func @f() {\n" + "\n".join(lines) + "\nfunc.return }"


def _option(takes: str, makes: str) -> str:
    sides = [f"[#layout.tag<{tag}>]" if tag else "[]" for tag in (takes, makes)]
    return f"#layout.option<ins = {sides[0]}, outs = {sides[1]}, cost = 1>"


def test_uses_that_need_the_same_share_one_reorder():
    module = parse(_reader("nhwc", "nChw8c", "nhwc", "nchw", "nhwc"))
    selection = build(module, target_named("blocked8"))
    choices = (0,) * len(selection.decisions)
    apply(module, selection, choices)
    module.verify()
    assert _count(module, ReorderOp) == 2


def test_negative_without_sharing_every_use_has_its_own():
    module = parse(_reader("nhwc", "nChw8c", "nhwc", "nchw", "nhwc"))
    selection = build(module, target_named("blocked8"))
    apply(module, selection, (0,) * len(selection.decisions), share=False)
    module.verify()
    assert _count(module, ReorderOp) >= 4


@pytest.mark.parametrize("seed", range(5))
def test_reorders_put_in_are_those_of_the_trees(seed: int):
    """Of unpadded tensors, as many reorders as edges, and together as dear as the problem says."""
    rng = random.Random(seed)
    tags = [rng.choice(["nchw", "nhwc", "nChw8c", "nChw16c", "chwn"]) for _ in range(6)]
    module = parse(_reader(*tags))
    selection = build(module, target_named("blocked8"))
    choices = (0,) * len(selection.decisions)
    edges = [
        edge
        for value, (produced, needed) in zip(
            selection.problem.values, demands(selection.problem, choices), strict=True
        )
        for edge in tree_edges(value.reorder, produced, needed)
    ]
    apply(module, selection, choices)
    assert _count(module, ReorderOp) == len(edges) and not _count(module, CastOp, FillPadsOp)
    spent = sum(cost_of(op) for op in module.walk() if isinstance(op, ReorderOp))
    assert spent + len(tags) + 1 == evaluate(selection.problem, choices)


@pytest.mark.parametrize("over", ["nchw", "nhwc"])
def test_the_buffers_that_the_chosen_option_shares_are_named(over: str):
    """One option writes over its operand, in one format, the other does not, in another; either may be chosen."""
    both = [_option(tag, tag).replace("cost = 1", "cost = 1, in_place = [0 -> 0]" if tag == over else "cost = 1")
            for tag in ("nchw", "nhwc")]  # fmt: skip
    module = parse(f"""func.func @f() {{
      %x = "test.op"() {{layout.options = [{_option("", "nchw")}]}} : () -> {ANY}
      %y = "test.op"(%x) {{layout.options = [{", ".join(both)}]}} : ({ANY}) -> {ANY}
      func.return }}""")
    selection = build(module, target_named("blocked8"))
    apply(module, selection, (0,) * len(selection.decisions))
    first, second = (op.attributes.get(IN_PLACE) for op in module.walk() if op.name == "test.op")
    assert first is None and (second is not None) == (over == "nchw")
