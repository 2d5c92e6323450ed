"""Programs as graphs to draw: what the report counts is what is drawn."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.api.program_text import context
from layout_ir.dialects.layout import ReorderOp
from layout_ir.drawing.drawn_graph import DrawnGraph, DrawnNode
from layout_ir.frontends.mlir.locations import LocatedParser
from layout_ir.passes.reorder_report import compare
from layout_ir.tools.program_graph import drawn_program, program_pictures

CHAIN = """\
!open = tensor<1x16x8x8xf32, #layout.any>
!weight = tensor<16x16x3x3xf32, #layout.any>
func.func @main(%x: tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32> {
  %w = nn.constant dense<1.0> : !weight loc("weight")
  %y = layout.reorder %x : tensor<1x16x8x8xf32> -> !open
  %a = nn.conv %y, %w {pads = array<i64: 1, 1, 1, 1>} : (!open, !weight) -> !open loc("first")
  %b = nn.relu %a : !open loc("act")
  %c = nn.conv %b, %w {pads = array<i64: 1, 1, 1, 1>} : (!open, !weight) -> !open loc("second")
  %z = layout.reorder %c : !open -> tensor<1x16x8x8xf32>
  func.return %z : tensor<1x16x8x8xf32>
}
"""


def parse(text: str, unregistered: bool = False) -> ModuleOp:
    return LocatedParser(context(allow_unregistered=unregistered), text, "p.mlir").parse_program()


def node(graph: DrawnGraph, label: str, name: str = "") -> DrawnNode:
    (found,) = [node for node in graph.nodes if (node.label, node.name) == (label, name)]
    return found


def arrows(graph: DrawnGraph) -> set[tuple[str, str]]:
    """The edges by the labels and names of their ends."""
    texts = [f"{node.label} {node.name}".strip() for node in graph.nodes]
    return {(texts[source], texts[target]) for source, target in graph.ends}


@pytest.mark.parametrize("target", ["blocked8", "blocked16", "channels-last", "ort-nchwc"])
def test_the_copies_are_those_of_the_report(target: str):
    report, naive, optimized = compare(parse(CHAIN), target)
    for module, traffic in ((naive, report.naive), (optimized, report.optimized)):
        copies = drawn_program(module).copies
        assert len(copies) == traffic.count
        assert sum(copy.nbytes or 0 for copy in copies) == traffic.nbytes
    assert report.naive.count > report.optimized.count


def test_a_copy_lies_between_its_two_formats():
    _, naive, _ = compare(parse(CHAIN), "blocked8")
    graph = drawn_program(naive)
    for copy in graph.copies:
        into = {edge.layout for edge in graph.edges if edge.target == copy.id}
        out = {edge.layout for edge in graph.edges if edge.source == copy.id}
        assert [f"{a} → {b}" for a in into for b in out] == [copy.label]
        assert "makes the one and" in copy.reason


def test_a_reason_that_is_known_is_told():
    _, naive, _ = compare(parse(CHAIN), "blocked8")
    ops = [op for op in naive.walk() if isinstance(op, ReorderOp)]
    found = [copy.reason for copy in drawn_program(naive, {ops[0]: "the one reason"}).copies]
    assert found.count("the one reason") == 1 < len(found)


def test_an_op_has_the_same_id_before_and_after():
    _, naive, optimized = compare(parse(CHAIN), "blocked8")
    before, after = drawn_program(naive), drawn_program(optimized)
    for label, name in (("nn.conv", "first"), ("nn.conv", "second"), ("nn.relu", "act"), ("input", "x")):
        assert node(before, label, name).id == node(after, label, name).id


def test_constants_are_told_with_the_ops_that_use_them():
    graph = drawn_program(parse(CHAIN))
    assert arrows(graph) == {
        ("input x", "nchw → ?"),
        ("nchw → ?", "nn.conv first"),
        ("nn.conv first", "nn.relu act"),
        ("nn.relu act", "nn.conv second"),
        ("nn.conv second", "? → nchw"),
        ("? → nchw", "the result of @main"),
    }
    assert "constant %w 16x16x3x3 f32" in node(graph, "nn.conv", "first").detail
    assert "pads = [1, 1, 1, 1]" in node(graph, "nn.conv", "first").detail


def test_a_constant_that_is_moved_is_a_node():
    _, naive, optimized = compare(parse(CHAIN), "blocked8")
    assert [n.kind for n in drawn_program(naive).nodes].count("constant") == 1
    # Reorders of constants happen when the program is optimized.
    assert [n.kind for n in drawn_program(optimized).nodes].count("constant") == 0


def test_edges_say_shape_type_and_format():
    edge = drawn_program(parse(CHAIN)).edges[0]
    assert (edge.value, edge.shape, edge.element_type, edge.layout) == ("%x", "1x16x8x8", "f32", "nchw")


REGIONS = """\
func.func @loop(%x: tensor<4x8xf32>, %n: index) -> tensor<4x8xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %r = scf.for %i = %zero to %n step %one iter_args(%s = %x) -> (tensor<4x8xf32>) {
    %t = nn.relu %s : tensor<4x8xf32>
    scf.yield %t : tensor<4x8xf32>
  }
  func.return %r : tensor<4x8xf32>
}
func.func @branch(%x: tensor<4x8xf32>, %p: i1) -> tensor<4x8xf32> {
  cf.cond_br %p, ^bb1(%x : tensor<4x8xf32>), ^bb2
^bb1(%y: tensor<4x8xf32>):
  %z = nn.sigmoid %y : tensor<4x8xf32>
  cf.br ^bb1(%z : tensor<4x8xf32>)
^bb2:
  func.return %x : tensor<4x8xf32>
}
"""


def test_values_are_followed_into_loops_and_branches():
    found = arrows(drawn_program(parse(REGIONS)))
    assert {
        ("input x", "scf.for"),
        ("scf.for", "nn.relu"),
        ("nn.relu", "scf.yield"),
        ("scf.for", "the result of @loop"),
        ("cf.cond_br", "block argument y"),
        ("block argument y", "nn.sigmoid"),
        ("nn.sigmoid", "cf.br"),
        ("cf.br", "block argument y"),
        ("input x", "the result of @branch"),
    } <= found


UNKNOWN = """\
func.func @main(%x: tensor<4x8xf32>, %d: tensor<?x8xf32>) -> (tensor<4x8xf32>, tensor<?x8xf32>) {
  %a = "theirs.op"(%x) {long = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901"}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = layout.reorder %a : tensor<4x8xf32> -> tensor<4x8xf32, #layout.tag<ba>>
  %c = layout.reorder %b : tensor<4x8xf32, #layout.tag<ba>> -> tensor<4x8xf32>
  %e = "theirs.op"(%d) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %c, %e : tensor<4x8xf32>, tensor<?x8xf32>
}
"""


def test_ops_that_nobody_registered_and_shapes_that_are_open_are_drawn():
    graph = drawn_program(parse(UNKNOWN, unregistered=True))
    unknown = [node for node in graph.nodes if node.label == "theirs.op"]
    assert [node.kind for node in unknown] == ["opaque", "opaque"] and unknown[0].detail == ""
    assert len({node.id for node in unknown}) == 2
    assert [(edge.shape, edge.layout) for edge in graph.edges if edge.source == unknown[1].id] == [
        ("?x8", "")
    ]
    assert [copy.nbytes for copy in graph.copies] == [256, 256]


def test_negative_a_reorder_that_leaves_memory_as_it_is_is_no_copy():
    text = """
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32, #layout.tag<ba>> {
  %y = layout.reorder %x : tensor<1x8xf32> -> tensor<1x8xf32, #layout.tag<ba>>
  func.return %y : tensor<1x8xf32, #layout.tag<ba>>
}
"""
    graph = drawn_program(parse(text))
    assert graph.copies == [] and node(graph, "layout.reorder", "nc → ba").kind == "view"


def test_every_format_of_a_value_has_a_picture():
    _, naive, optimized = compare(parse(CHAIN), "blocked8")
    pictures = program_pictures([naive, optimized])
    formats = {edge.layout for module in (naive, optimized) for edge in drawn_program(module).edges}
    assert formats <= pictures.keys() and len(formats) > 2
    for svg in pictures.values():
        assert ElementTree.fromstring(svg).tag.endswith("svg")


def test_the_picture_of_a_format_is_of_a_tensor_that_shows_it():
    text = """
func.func @main(%x: tensor<1x8x1x1xf32>, %y: tensor<2x3x4x5xf32>, %z: tensor<2x30x40x50xf32>) {
  %a = nn.relu %x : tensor<1x8x1x1xf32>
  %b = nn.relu %y : tensor<2x3x4x5xf32>
  %c = nn.relu %z : tensor<2x30x40x50xf32>
  func.return
}
"""
    assert "shape 2x3x4x5," in program_pictures([parse(text)])["nchw"]
