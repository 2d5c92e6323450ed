"""Ops of other dialects with equal bodies and scalars are alike, and nothing that their options follow from is lost."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.ops import GenericOp

from layout_ir.api.program_text import parse as parse_program
from layout_ir.passes.selection.options.foreign.class_keys import class_key
from layout_ir.passes.selection.options.foreign.derived_extension import class_key_of
from tests.programs import parse

TYPE = "tensor<4x6xf32>"


def _generic(name: str, body: str, result: str) -> str:
    maps = "affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>"
    return f"""
  {name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}}
    ins(%x : {TYPE}) outs(%y : {TYPE}) {{
  ^bb0(%a : f32, %b : f32):
    {body}
    linalg.yield {result} : f32
  }} -> {TYPE}"""


def _module(*bodies: tuple[str, str]) -> ModuleOp:
    generics = "".join(_generic(f"%{k}", body, result) for k, (body, result) in enumerate(bodies))
    return parse(f"""func.func @f(%x : {TYPE}, %y : {TYPE}, %s : f32, %t : f32) {{
  %one = arith.constant 1.0 : f32
  %uno = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32 {generics}
  func.return
}}""")


def _alike(first: tuple[str, str], second: tuple[str, str]) -> bool:
    a, b = (class_key(op) for op in _module(first, second).walk() if isinstance(op, GenericOp))
    assert (a == b) == (hash(a) == hash(b))
    return a == b


def test_equal_bodies_are_alike_whatever_their_values_are_called():
    assert _alike(("%m = math.exp %a : f32", "%m"), ("%k = math.exp %a : f32", "%k"))
    assert _alike(("%m = arith.addf %a, %one : f32", "%m"), ("%k = arith.addf %a, %uno : f32", "%k"))
    assert _alike(("%m = arith.addf %a, %s : f32", "%m"), ("%k = arith.addf %a, %t : f32", "%k"))


def test_negative_other_ops_operands_constants_or_attributes_are_not_alike():
    add = ("%m = arith.addf %a, %b : f32", "%m")
    assert not _alike(add, ("%m = arith.mulf %a, %b : f32", "%m"))
    assert not _alike(add, ("%m = arith.addf %b, %a : f32", "%m"))
    assert not _alike(add, ("%m = arith.addf %a, %b : f32", "%a"))
    assert not _alike(("%m = arith.addf %a, %one : f32", "%m"), ("%m = arith.addf %a, %two : f32", "%m"))
    assert not _alike(("%m = arith.addf %a, %one : f32", "%m"), ("%m = arith.addf %a, %s : f32", "%m"))
    compare = "%c = arith.cmpf {}, %a, %b : f32\n %m = arith.select %c, %a, %b : f32"
    assert not _alike((compare.format("oge"), "%m"), (compare.format("olt"), "%m"))


def test_scalar_operands_count_by_the_constants_that_they_are():
    module = parse(f"""func.func @f(%y : {TYPE}, %s : f32) {{
  %one = arith.constant 1.0 : f32
  %uno = arith.constant 1.0 : f32
  %0 = linalg.fill ins(%one : f32) outs(%y : {TYPE}) -> {TYPE}
  %1 = linalg.fill ins(%uno : f32) outs(%y : {TYPE}) -> {TYPE}
  %2 = linalg.fill ins(%s : f32) outs(%y : {TYPE}) -> {TYPE}
  func.return
}}""")
    first, again, unknown = (class_key(op) for op in module.walk() if op.name == "linalg.fill")
    assert first == again != unknown


def test_negative_an_unpack_may_look_at_the_pack_before_it():
    module = parse_program("""func.func @f(%x : tensor<4x6xf32>, %d : tensor<2x6x2xf32>) {
  %y = linalg.pack %x inner_dims_pos = [0] inner_tiles = [2] into %d : tensor<4x6xf32> -> tensor<2x6x2xf32>
  func.return
}""")
    assert [class_key_of(op) for op in module.walk() if op.name == "linalg.pack"] == [None]
