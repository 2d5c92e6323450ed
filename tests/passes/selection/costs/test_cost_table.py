"""Cost tables, and everything that can be wrong with one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from layout_ir.algebra.format import Format
from layout_ir.diagnostics import PassError
from layout_ir.errors import LayoutError
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.costs.cost_model import (
    CostModel,
)
from layout_ir.passes.selection.costs.cost_table import load_costs, parse_costs
from layout_ir.selection.solver.selection_problem import FORBIDDEN

NCHW, BLOCKED, LAST = (Format.from_tag(tag) for tag in ("nchw", "nChw8c", "nhwc"))
SHAPE = (1, 60, 7, 5)
ENTRY = {"from": "nchw", "to": "nChw8c", "cost": 7}


def _reorder(costs: CostModel, source: Format, destination: Format, shape: tuple[int, ...] = SHAPE) -> int:
    return costs.reorder(source.bind(shape), destination.bind(shape), "f32")


def test_an_entry_replaces_the_built_in_cost() -> None:
    costs = parse_costs({"reorder": [ENTRY]}, "t")
    assert _reorder(costs, NCHW, BLOCKED) == 7
    assert _reorder(costs, BLOCKED, NCHW) == _reorder(CostModel(), BLOCKED, NCHW)


def test_an_entry_with_a_shape_holds_for_that_shape() -> None:
    costs = parse_costs({"reorder": [{**ENTRY, "shape": [1, 60, 7, 5]}, {**ENTRY, "cost": 9}]}, "t")
    assert _reorder(costs, NCHW, BLOCKED) == 7
    assert _reorder(costs, NCHW, BLOCKED, (1, 60, 5, 7)) == 9


def test_formats_are_compared_by_the_bytes_at_the_shape() -> None:
    # One row of one image: nhwc has the bytes of nwhc.
    costs = parse_costs({"reorder": [{"from": "nchw", "to": "nhwc", "cost": 3}]}, "t")
    other = Format.parse("(n, c, h, w) : [n, w, h, c]")
    assert _reorder(costs, NCHW, other, (1, 8, 1, 5)) == 3
    assert _reorder(costs, NCHW, other, (1, 8, 2, 5)) != 3


def test_what_is_not_listed_can_be_forbidden() -> None:
    costs = parse_costs({"reorder": [ENTRY], "missing": "forbid"}, "t")
    assert _reorder(costs, NCHW, BLOCKED) == 7
    assert _reorder(costs, NCHW, LAST) == FORBIDDEN
    assert _reorder(costs, NCHW, NCHW) == 0


def test_formats_of_the_table_may_be_passed_through() -> None:
    costs = parse_costs(
        {"reorder": [ENTRY, {"from": "nhwc", "to": "nchw", "shape": [1, 1, 1, 1], "cost": 1}]}, "t"
    )
    assert set(costs.formats(SHAPE)) == {NCHW, BLOCKED}
    assert set(costs.formats((1, 1, 1, 1))) == {NCHW, BLOCKED, LAST}
    assert costs.formats((3, 3)) == []


def test_an_op_entry_prices_its_option_whatever_stands_at_the_end() -> None:
    entry = {"name": "nn.conv", "ins": ["nChw8c", "OIhw8i8o"], "outs": ["nChw8c"], "cost": 11}
    costs = parse_costs({"op": [entry], "unit": "us"}, "t")
    w, bias = Format.from_tag("OIhw8i8o"), Format.row_major(("o",))
    shapes = [(1, 8, 4, 4), (8, 8, 1, 1), (8,), (1, 8, 4, 4)]
    with_bias = LayoutOption((BLOCKED, w, bias), (BLOCKED,), 500)
    assert costs.op("nn.conv", with_bias, shapes) == 11
    assert costs.op("nn.conv", LayoutOption((BLOCKED, w), (BLOCKED,), 500), [*shapes[:2], shapes[3]]) == 11
    assert costs.op("nn.other", with_bias, shapes) == 500
    # With one block of channels, blocks are nhwc: the same bytes, so the entry counts; with two they are not.
    assert costs.op("nn.conv", LayoutOption((LAST, w, bias), (LAST,), 500), shapes) == 11
    wide = [(1, 16, 4, 4), (16, 16, 1, 1), (16,), (1, 16, 4, 4)]
    assert costs.op("nn.conv", LayoutOption((LAST, w, bias), (LAST,), 500), wide) == 500
    assert costs.unit == "us"


MALFORMED: list[tuple[Any, str]] = [
    ([], "expected an object, found list"),
    ({"reorders": []}, "unknown key 'reorders': the keys are missing, op, reorder, unit"),
    (
        {"format": "layout-ir price model 3", "groups": []},
        "a file of format 'layout-ir price model 3': costs are a cost table .* 'layout-ir prices 1'",
    ),
    ({"missing": "maybe"}, "missing = 'maybe' is neither model nor forbid"),
    ({"unit": 5}, "unit = 5 is no name"),
    ({"reorder": {}}, "reorder is no list but dict"),
    ({"reorder": [ENTRY, 4]}, r"reorder\[1\]: expected an object, found int"),
    ({"reorder": [{**ENTRY, "price": 1}]}, r"reorder\[0\]: unknown key 'price': the keys are cost, from, shape, to"),
    ({"reorder": [{"to": "nchw", "cost": 1}]}, r"reorder\[0\]: 'from' is missing"),
    ({"reorder": [{"from": "nchw", "cost": 1}]}, r"reorder\[0\]: 'to' is missing"),
    ({"reorder": [{"from": "nchw", "to": "nhwc"}]}, r"reorder\[0\]: 'cost' is missing"),
    ({"reorder": [{**ENTRY, "cost": -1}]}, r"reorder\[0\]: cost = -1 is not in \[0, 2\^48\)"),
    ({"reorder": [{**ENTRY, "cost": 1 << 48}]}, r"reorder\[0\]: cost = 281474976710656 is not in"),
    ({"reorder": [{**ENTRY, "cost": 1.5}]}, r"reorder\[0\]: cost = 1.5 is no whole number"),
    ({"reorder": [{**ENTRY, "cost": True}]}, r"reorder\[0\]: cost = True is no whole number"),
    ({"reorder": [{**ENTRY, "to": 5}]}, r"reorder\[0\]: to: 5 is no format: expected a tag or a format text"),
    ({"reorder": [{**ENTRY, "to": "nchz?"}]}, r"reorder\[0\]: to: "),
    ({"reorder": [{**ENTRY, "to": "nc"}]}, r"reorder\[0\]: rank mismatch between from and to: 4 != 2"),
    ({"reorder": [{**ENTRY, "shape": [1, 2]}]}, r"reorder\[0\]: from: rank mismatch"),
    ({"reorder": [{**ENTRY, "shape": "1x2x3x4"}]}, r"reorder\[0\]: shape = '1x2x3x4' is no list of extents"),
    ({"reorder": [{**ENTRY, "shape": [1, -2, 3, 4]}]}, r"reorder\[0\]: shape = .* is no list of extents"),
    (
        {"reorder": [ENTRY, {**ENTRY, "shape": [1, 8, 1, 1]}, {**ENTRY, "cost": 8}]},
        r"reorder\[2\] contradicts reorder\[0\]: cost 8 != 7",
    ),
    ({"op": [{"ins": ["nchw"], "cost": 1}]}, r"op\[0\]: name = None is no name of an op"),
    ({"op": [{"name": "nn.relu", "cost": 1}]}, r"op\[0\]: neither ins nor outs"),
    ({"op": [{"name": "nn.relu", "ins": "nchw", "cost": 1}]}, r"op\[0\]: ins is no list but str"),
    ({"op": [{"name": "nn.relu", "ins": ["nchw", "?"], "cost": 1}]}, r"op\[0\]: ins\[1\]: "),
    ({"op": [{"name": "nn.relu", "ins": ["nchw"], "outs": ["nchw"], "cost": -3}]}, r"op\[0\]: cost = -3 is not in"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "message"), MALFORMED, ids=[message for _, message in MALFORMED])
def test_a_malformed_table_is_refused_with_the_entry(table: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match=f"^somewhere: {message}"):
        parse_costs(table, "somewhere")
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(table))
    with pytest.raises(PassError, match=f"^{message}") as caught:
        load_costs(str(path))
    assert str(caught.value.location) == str(path)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ('{"reorder": [\n  {"from": }]}', ":2:12", "not JSON: Expecting value"),
        ("", ":1:1", "not JSON: Expecting value"),
        ('{"unit": "ns"} {', ":1:16", "not JSON: Extra data"),
        ('{"unit": "ns", "unit": "us"}', "", "key 'unit' stands twice in one object"),
        (
            '{"reorder": [{"from": "nchw", "to": "nhwc", "cost": 1e3}]}',
            "",
            r"reorder\[0\]: cost = 1000.0 is no",
        ),
        ('{"reorder": [{"from": "nchw", "to": "nhwc", "cost": NaN}]}', "", r"reorder\[0\]: cost = nan is no"),
        ("[" * 100_000, "", "not a cost table: "),
    ],
)
def test_text_that_is_no_table_is_refused_at_its_place(
    text: str, place: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(PassError, match=f"^{message}") as caught:
        load_costs(str(path))
    assert str(caught.value.location) == f"{path}{place}"


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(PassError, match=r"^cannot be read: No such file or directory") as caught:
        load_costs(str(tmp_path / "none.json"))
    assert str(caught.value.location) == str(tmp_path / "none.json")
    (tmp_path / "latin.json").write_bytes(b'{"unit": "\xe9"}')
    with pytest.raises(PassError, match=r"^not UTF-8 text"):
        load_costs(str(tmp_path / "latin.json"))


def test_negative_files_without_end_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse.json"
    path.touch()
    os.truncate(path, 1 << 38)
    with pytest.raises(PassError, match=r"^larger than 67108864 bytes") as caught:
        load_costs(str(path))
    assert str(caught.value.location) == str(path)


def test_negative_the_example_of_the_contract_is_a_table(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(
        '{"unit": "ns", "reorder": [{"from": "nchw", "to": "nChw8c", "shape": [1, 64, 56, 56], "cost": 5600}], '
        '"op": [{"name": "nn.conv", "ins": ["nChw8c", "OIhw8i8o"], "outs": ["nChw8c"], "cost": 90000}], '
        '"missing": "model"}'
    )
    costs = load_costs(str(path))
    assert _reorder(costs, NCHW, BLOCKED, (1, 64, 56, 56)) == 5600


@pytest.mark.parametrize("backwards", [False, True])
def test_an_entry_with_a_shape_goes_before_one_without(backwards: bool):
    general = {"from": "nchw", "to": "nChw8c", "cost": 5}
    entries = [general, {**general, "shape": [1, 16, 4, 4], "cost": 7}]
    costs = parse_costs({"reorder": entries[::-1] if backwards else entries}, "table")
    for shape, cost in (((1, 16, 4, 4), 7), ((1, 8, 4, 4), 5)):
        source, result = (Format.from_tag(tag).bind(shape) for tag in ("nchw", "nChw8c"))
        assert costs.reorder(source, result, "f32") == cost
