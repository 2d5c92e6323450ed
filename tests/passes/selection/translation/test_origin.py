"""A certificate is checked against the program that it says it is of."""

from __future__ import annotations

import json
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

from layout_ir.certificate.checking import ATTRIBUTE
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.costs.cost_table import parse_costs
from layout_ir.passes.selection.options.targets import target_named
from layout_ir.passes.selection.translation.from_ir import build
from layout_ir.passes.selection.translation.origin import check_problem, origin_of, text_of
from layout_ir.passes.selection.translation.program_solution import certify_program
from tests.programs import parse

ANY = "tensor<1x16x8x8xf32, #layout.any>"


def _program(channels: int = 16) -> ModuleOp:
    type = ANY.replace("16", str(channels))
    return parse(f"""func.func @f(%x : {type}) -> {type} {{
  %0 = nn.relu %x : {type}
  %1 = nn.add %0, %x : {type}
  func.return %1 : {type}
}}""")


def _certificate(module: ModuleOp) -> dict[str, Any]:
    _, certificate = certify_program(build(module, target_named("blocked8")), None, {})
    return json.loads(json.dumps(certificate))


def test_the_certificate_of_a_program_is_its_own():
    check_problem(_certificate(_program()), _program(), "blocked8", None)


def test_a_program_where_nothing_is_open_has_the_empty_problem():
    closed = parse("func.func @f(%x : tensor<4xf32>) { func.return }")
    check_problem({"problem": {"ops": [], "values": []}}, closed, "blocked8", None)


def test_negative_a_program_of_other_shapes():
    with pytest.raises(LayoutError, match="other options, costs or uses"):
        check_problem(_certificate(_program()), _program(channels=24), "blocked8", None)


def test_negative_a_program_of_more_ops():
    longer = parse(f"""func.func @f(%x : {ANY}) -> {ANY} {{
  %0 = nn.relu %x : {ANY}
  %1 = nn.add %0, %x : {ANY}
  %2 = nn.relu %1 : {ANY}
  func.return %2 : {ANY}
}}""")
    with pytest.raises(LayoutError, match=r"has \d+ ops, that of the certificate \d+"):
        check_problem(_certificate(_program()), longer, "blocked8", None)


def test_negative_another_cost_model():
    costs = parse_costs(
        {"op": [{"name": "nn.relu", "ins": ["nchw"], "outs": ["nchw"], "cost": 12345}]}, "test"
    )
    with pytest.raises(LayoutError, match="has other options, costs or uses"):
        check_problem(_certificate(_program()), _program(), "blocked8", costs)


@pytest.mark.parametrize("part", ["ops", "values"])
def test_negative_a_changed_weight_is_named(part: str):
    certificate = _certificate(_program())
    certificate["problem"][part][1]["weight"] += 1
    with pytest.raises(LayoutError, match=f"{part[:-1]} 1 has other"):
        check_problem(certificate, _program(), "blocked8", None)


def test_text_is_that_of_the_program_without_its_certificate():
    bare, carrying = _program(), _program()
    carrying.attributes[ATTRIBUTE] = StringAttr("{}")
    assert text_of(carrying) == text_of(bare)
    assert carrying.attributes[ATTRIBUTE] == StringAttr("{}")
    assert parse(text_of(bare)).is_structurally_equivalent(bare)


def _constant(first: int, count: int) -> str:
    numbers = ", ".join(f"{k}.0" for k in range(first, first + count))
    type = f"tensor<{count}xf32>"
    return text_of(
        parse(
            f"func.func @f() -> {type} {{ %0 = nn.constant dense<[{numbers}]> : {type} func.return %0 : {type} }}"
        )
    )


def test_numbers_of_large_constants_are_left_out_and_negative_those_of_small_ones_are_not():
    assert _constant(0, 17) == _constant(5, 17)
    assert _constant(0, 16) != _constant(5, 16)


def test_origin_names_the_table_and_the_program_where_it_has_one():
    costs = parse_costs({}, "mine.json")
    assert origin_of("blocked8", costs, "text", "some-pass") == {
        "target": "blocked8",
        "costs": costs.source,
        "pass": "some-pass",
        "program": "text",
    }
    assert origin_of("blocked8", None, None, "some-pass") == {"target": "blocked8", "costs": None}
