"""Changes of layout are made by the cheapest op there is, and a draft that is dropped was never there."""

from __future__ import annotations

import itertools

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from layout_ir.dialects.layout import CastOp, FillPadsOp, ReorderOp, dtype_of, layout_of
from layout_ir.passes.folding.cost_changes import (
    Draft,
    change_layout,
    change_ns,
    cost_of,
    erase_unused,
    is_layout_change,
)
from layout_ir.printing import print_module
from tests.programs import parse

FORMATS = [
    "#layout.tag<nchw>",
    "#layout.tag<nhwc>",
    "#layout.tag<nChw8c>",
    "#layout.format<(n, c, h, w) : [n, c, h, w, c:8]>",
    "#layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = 3>",
]
X = [f"tensor<1x17x4x4xf32, {fmt}>" for fmt in FORMATS]


def _values() -> tuple[ModuleOp, list[Operation]]:
    """A program with one value in each of the formats, made by an op."""
    module = parse(
        "func.func @f() {\n"
        + "\n".join(f'%{k} = "test.op"() : () -> {x}' for k, x in enumerate(X))
        + "\nfunc.return }"
    )
    (func,) = module.ops
    return module, list(func.regions[0].block.ops)


def test_a_change_verifies_and_costs_what_it_is_said_to():
    module, ops = _values()
    *makers, end = ops
    assert end.parent is not None
    kinds: set[type[Operation]] = set()
    for here, there in itertools.permutations([op.results[0] for op in makers], 2):
        op = change_layout(here, there.type)
        assert op is not None
        end.parent.insert_op_before(op, end)
        assert op.results[0].type == there.type and is_layout_change(op)
        assert cost_of(op) == change_ns(layout_of(here.type), layout_of(there.type), dtype_of(here.type))
        assert (cost_of(op) == 0) == isinstance(op, CastOp)
        kinds.add(type(op))
    module.verify()
    assert kinds == {CastOp, FillPadsOp, ReorderOp}


def test_a_fill_is_cheaper_than_the_reorder_it_is_in_place_of():
    """Both change pads alone, from any to zeros; a reorder of as many bytes moves them all."""
    _, ops = _values()
    undef, zero, other = (layout_of(ops[k].results[0].type) for k in (3, 2, 1))
    assert 0 < change_ns(undef, zero, "f32") < change_ns(other, zero, "f32")
    assert change_ns(zero, undef, "f32") == 0


def test_negative_a_value_of_the_type_needs_no_op():
    _, ops = _values()
    assert change_layout(ops[0].results[0], ops[0].results[0].type) is None


@pytest.mark.parametrize(
    "text",
    [
        f"%r = nn.relu %x : {X[0]}",
        f"%r = layout.reorder %x : {X[0]} -> tensor<1x17x4x4xi8, {FORMATS[0]}>",
        f"%r = layout.reorder %x : {X[0]} -> tensor<1x17x4x4xf32, #layout.any>",
    ],
)
def test_negative_what_computes_or_is_open_is_no_change_of_layout(text: str):
    module = parse(f"func.func @f(%x : {X[0]}) {{\n{text}\nfunc.return }}")
    assert not any(is_layout_change(op) for op in module.walk())


def test_a_loop_costs_as_often_as_it_runs():
    body = f"%r = layout.reorder %x : {X[0]} -> {X[1]}"
    loop = parse(f"""func.func @f(%x : {X[0]}) {{
      {body.replace("%r", "%s")}
      %low = arith.constant 0 : index
      %high = arith.constant 50 : index
      %step = arith.constant 1 : index
      scf.for %i = %low to %high step %step {{
        {body}
      }}
      func.return }}""")
    once, often = (cost_of(op) for op in loop.walk() if is_layout_change(op))
    assert often == 50 * once > 0


def test_a_draft_makes_each_change_once_and_adds_up_its_cost():
    module, ops = _values()
    value, wanted, end = ops[0].results[0], ops[1].results[0].type, ops[-1]
    draft = Draft()
    first = draft.change_layout(value, wanted, end)
    assert draft.change_layout(value, wanted, end) is first and draft.changes == 1
    assert draft.change_layout(value, value.type, end) is value and draft.changes == 1
    (op, _) = draft.ops[0]
    draft.commit()
    module.verify()
    assert op.parent is end.parent and draft.cost == cost_of(op)


def test_negative_a_draft_that_is_dropped_leaves_the_program_as_it_was():
    module, ops = _values()
    before = print_module(module)
    draft = Draft()
    changed = draft.change_layout(ops[0].results[0], ops[1].results[0].type, ops[-1])
    draft.change_layout(changed, ops[2].results[0].type, ops[-1])
    draft.drop()
    assert print_module(module) == before and not draft.ops and not ops[0].results[0].uses


def test_what_nothing_uses_goes_with_all_it_used_and_negative_what_computes_stays():
    module = parse(f"""func.func @f(%x : {X[0]}) {{
      %a = nn.relu %x : {X[0]}
      %b = layout.reorder %a : {X[0]} -> {X[1]}
      %c = layout.reorder %b : {X[1]} -> {X[2]}
      func.return }}""")
    *_, last = (op for op in module.walk() if isinstance(op, ReorderOp))
    erase_unused([last.result])
    names = [op.name for op in module.walk()]
    assert "layout.reorder" not in names and "nn.relu" in names
