"""How often ops run, and which ops have something to choose."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    region_def,
    result_def,
)
from xdsl.parser import Parser

from layout_ir.algebra.tag import name_of
from layout_ir.diagnostics import PassError
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, format_of
from layout_ir.interfaces import RegionLink, RegionLinks
from layout_ir.passes.optimize import optimize
from layout_ir.passes.propagate import propagate
from layout_ir.passes.selection.problem.decision_points import MOST, Weights, calls_of, sites
from layout_ir.registry import DIALECTS
from tests.programs import parse

T = "tensor<1x64x8x8xf32, #layout.any>"


def _weights(module: ModuleOp) -> dict[str, int]:
    weights = Weights(calls_of(module))
    return {
        str(op.results[0].name_hint): weights.of(op) for op in module.walk() if isinstance(op, nn.UnaryOp)
    }


def _loops(trips: int) -> str:
    return f"""
  %low = arith.constant 0 : index
  %high = arith.constant {trips} : index
  %step = arith.constant 1 : index
  %r = scf.for %i = %low to %high step %step iter_args(%a = %x) -> ({T}) {{
    %q = scf.for %j = %low to %high step %step iter_args(%b = %a) -> ({T}) {{
      %c = BODY : ({T}) -> {T}
      scf.yield %c : {T}
    }}
    scf.yield %q : {T}
  }}"""


def test_a_function_runs_as_often_as_it_is_called():
    module = parse(f"""
func.func @main(%x : {T}) -> {T} {{
  %one = func.call @f(%x) : ({T}) -> {T}
  {_loops(5).replace("BODY", "func.call @f(%b)")}
  func.return %r : {T}
}}
func.func private @f(%x : {T}) -> {T} {{
  %f = nn.relu %x : {T}
  %y = func.call @g(%f) : ({T}) -> {T}
  func.return %y : {T}
}}
func.func private @g(%x : {T}) -> {T} {{
  %g = nn.relu %x : {T}
  func.return %g : {T}
}}
func.func @alone(%x : {T}) -> {T} attributes {{layout.frequency = 7}} {{
  %h = nn.relu %x : {T}
  func.return %h : {T}
}}""")
    assert _weights(module) == {"f": 26, "g": 26, "h": 7}


def test_what_a_called_function_needs_is_reordered_outside_of_the_loop_that_calls_it():
    kind = "layout.options = [#layout.option<ins = [#nChw8c], outs = [#nchw], cost = 1>]"
    module = parse(f"""
#nchw = #layout.tag<nchw>
#nChw8c = #layout.tag<nChw8c>
func.func @main(%x : tensor<1x64x8x8xf32, #nchw>) -> {T} {{
  %low = arith.constant 0 : index
  %high = arith.constant 5 : index
  %step = arith.constant 1 : index
  %s = nn.constant dense<0.0> : {T}
  %r = scf.for %i = %low to %high step %step iter_args(%a = %s) -> ({T}) {{
    %x1 = layout.reorder %x : tensor<1x64x8x8xf32, #nchw> -> {T}
    %c = func.call @f(%x1) : ({T}) -> {T}
    scf.yield %c : {T}
  }}
  func.return %r : {T}
}}
func.func private @f(%x : {T}) -> {T} {{
  %f = nn.relu %x {{{kind}}} : {T}
  func.return %f : {T}
}}""")
    propagate(module, "avx2")
    moves = [op for op in module.walk() if isinstance(op, ReorderOp) and op.source_type != op.result_type]
    assert [op.parent_op() for op in moves] == [module.body.block.first_op]


@pytest.mark.parametrize("trips", [10**6, 2**63 - 1])
def test_loops_that_hardly_end_leave_room_for_costs(trips: int):
    module = parse(f"""
func.func @main(%x : {T}) -> {T} {{
  {_loops(trips).replace("BODY", "nn.relu %b").replace(f": ({T}) -> {T}", f": {T}")}
  func.return %r : {T}
}}""")
    assert _weights(module) == {"c": MOST}
    solution = propagate(module, "avx2")
    assert solution is not None and solution.bound is None and solution.omitted


@pytest.mark.parametrize("place", ["func.func", "nn.relu"])
def test_negative_a_frequency_that_is_no_count(place: str):
    on_function = "attributes {layout.frequency = -3}" if place == "func.func" else ""
    on_op = '{layout.frequency = "often"}' if place == "nn.relu" else ""
    module = parse(
        f"func.func @f(%x : {T}) -> {T} {on_function} {{ %y = nn.relu %x {on_op} : {T} func.return %y : {T} }}"
    )
    with pytest.raises(PassError, match="is no count: a whole number from 0 on"):
        sites(module)


@pytest.mark.parametrize("op", ["func.call", "func.return"])
def test_negative_options_of_an_op_that_chooses_nothing(op: str):
    options = "{layout.options = [#layout.option<ins = [#layout.tag<nchw>], outs = [], cost = 3>]}"
    call, back = (options if op == name else "" for name in ("func.call", "func.return"))
    module = parse(f"""
func.func private @g(%x : {T}) -> {T} {{
  func.return %x : {T}
}}
func.func @f(%x : {T}) -> {T} {{
  %y = func.call @g(%x) {call} : ({T}) -> {T}
  func.return {back} %y : {T}
}}""")
    with pytest.raises(
        PassError, match=f"layout.options on {op}, whose tensors have the layouts of the ops around it"
    ):
        propagate(module, "avx2")


# Regions and branches -----------------------------------------------------------------------------------------------

OPEN = "tensor<1x64x8x8xf32, #layout.any>"
CONV = "tensor<64x64x3x3xf32, #layout.any>"


@irdl_op_definition
class MapOp(IRDLOperation, RegionLinks):
    """Its block takes %x, what ends the block is its result."""

    name = "my.map"

    x = operand_def(TensorType)
    result = result_def(TensorType)
    body = region_def()

    def links(self) -> list[RegionLink]:
        end = self.body.block.last_op
        assert end is not None
        return [
            RegionLink([(self, 0)], [self.body.block.args[0]]),
            RegionLink([(end, 0)], [self.result]),
        ]


def _mapped(name: str) -> ModuleOp:
    context = Context(allow_unregistered=True)
    for dialect, load in {**get_all_dialects(), **DIALECTS}.items():
        context.register_dialect(dialect, load)
    context.load_op(MapOp)
    text = f"""
func.func @main(%x : {OPEN}, %w : {CONV}) -> {OPEN} {{
  %c = nn.conv %x, %w pads = [1, 1, 1, 1] : ({OPEN}, {CONV}) -> {OPEN}
  %m = "{name}"(%c) ({{
  ^bb0(%a : {OPEN}):
    %b = nn.relu %a : {OPEN}
    "my.yield"(%b) : ({OPEN}) -> ()
  }}) : ({OPEN}) -> {OPEN}
  %r = nn.conv %m, %w pads = [1, 1, 1, 1] : ({OPEN}, {CONV}) -> {OPEN}
  func.return %r : {OPEN}
}}"""
    return Parser(context, text).parse_module()


def _inside(module: ModuleOp) -> list[str]:
    """The tags of what the op with a region takes, what its block takes, what ends that, and what the op gives."""
    (op,) = [op for op in module.walk() if op.regions and not isinstance(op, FuncOp | ModuleOp)]
    block = op.regions[0].block
    last = block.last_op
    assert last is not None
    formats = [format_of(v.type) for v in (*op.operands, *block.args, *last.operands, *op.results)]
    return ["?" if fmt is None else name_of(fmt) or str(fmt) for fmt in formats]


def test_links_carry_a_layout_through_a_region():
    module = _mapped("my.map")
    optimize(module, "avx2")
    assert _inside(module) == ["nChw8c"] * 4


def test_negative_what_crosses_a_region_that_nobody_knows_is_row_major():
    module = _mapped("my.other")
    optimize(module, "avx2")
    assert _inside(module) == ["nchw"] * 4


def test_branches_agree_with_the_arguments_of_their_blocks():
    module = parse(f"""
func.func @main(%x : {OPEN}, %w : {CONV}, %p : i1) -> {OPEN} {{
  %c = nn.conv %x, %w pads = [1, 1, 1, 1] : ({OPEN}, {CONV}) -> {OPEN}
  cf.cond_br %p, ^a(%c : {OPEN}), ^b(%c : {OPEN})
^a(%y : {OPEN}):
  %d = nn.relu %y : {OPEN}
  cf.br ^b(%d : {OPEN})
^b(%z : {OPEN}):
  %r = nn.conv %z, %w pads = [1, 1, 1, 1] : ({OPEN}, {CONV}) -> {OPEN}
  func.return %r : {OPEN}
}}""")
    optimize(module, "avx2")
    module.verify()
    (function,) = [op for op in module.walk() if isinstance(op, FuncOp)]
    arguments = [block.args[0] for block in list(function.body.blocks)[1:]]
    formats = [format_of(value.type) for value in arguments]
    assert [None if fmt is None else name_of(fmt) for fmt in formats] == ["nChw8c", "nChw8c"]
