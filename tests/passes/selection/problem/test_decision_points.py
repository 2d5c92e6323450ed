"""Which ops and constraints have something to choose."""

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
from layout_ir.dialects.layout import format_of
from layout_ir.interfaces import RegionLink, RegionLinks
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.propagate import propagate
from layout_ir.registry import DIALECTS
from tests.programs import parse

T = "tensor<1x64x8x8xf32, #layout.any>"


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
        propagate(module, "blocked8")


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
    optimize(module, "blocked8")
    assert _inside(module) == ["nChw8c"] * 4


def test_negative_what_crosses_a_region_that_nobody_knows_is_row_major():
    module = _mapped("my.other")
    optimize(module, "blocked8")
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
    optimize(module, "blocked8")
    module.verify()
    (function,) = [op for op in module.walk() if isinstance(op, FuncOp)]
    arguments = [block.args[0] for block in list(function.body.blocks)[1:]]
    formats = [format_of(value.type) for value in arguments]
    assert [None if fmt is None else name_of(fmt) for fmt in formats] == ["nChw8c", "nChw8c"]
