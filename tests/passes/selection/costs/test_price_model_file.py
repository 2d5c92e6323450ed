"""Price models as files, those that come with the package among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from layout_ir.errors import LayoutError
from layout_ir.passes.selection.costs import price_model_file
from layout_ir.passes.selection.costs.cost_model import SHIPPED
from layout_ir.passes.selection.costs.cost_table import load_costs
from layout_ir.passes.selection.costs.measured_costs import End, MeasuredCosts, Origin
from layout_ir.passes.selection.costs.price_keys import PriceKey, TensorKey
from layout_ir.passes.selection.costs.price_model import EXTENTS, GroupModel, PriceModel
from layout_ir.passes.selection.costs.price_model_file import (
    model_from_json,
    model_text,
    shipped_model,
)
from layout_ir.passes.selection.costs.price_table import PriceSource
from tests.passes.selection.costs.priced_problems import priced

SOURCE = PriceSource("an-abacus", "beads 1.0", 2)
MODEL = PriceModel(
    {
        ("nn.relu", "", "row-major"): GroupModel(100.0, 0.0125, 0.0, 1.25, 1.125, 40),
        ("nn.conv", "dense", "channels last"): GroupModel(
            0.0,
            0.0,
            0.0075,
            2.0,
            1.5,
            9,
            "1,8,49,1,16,49,1152,1.25, 2,8,49,2,16,49,1152,0.5",
        ),
    }
)


def test_what_is_written_is_read_back() -> None:
    data = json.loads(model_text(MODEL, SOURCE))
    model, source = model_from_json(data)
    assert dict(model.groups) == dict(MODEL.groups) and source == SOURCE


def test_coefficients_are_rounded_to_what_is_not_noise() -> None:
    fit = GroupModel(123456.789, 1 / 3, 0.0, 1.23456, 1.1, 12, "1,2,3,4,5,6,7,1.23456")
    model, _ = model_from_json(json.loads(model_text(PriceModel({("a", "b", "c"): fit}), SOURCE)))
    assert model.groups["a", "b", "c"] == GroupModel(
        123500.0, 0.3333, 0.0, 1.235, 1.1, 12, "1,2,3,4,5,6,7,1.23"
    )


def _data(**changes: Any) -> Any:
    data = json.loads(model_text(MODEL, SOURCE))
    data["groups"][0] |= changes
    return data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({**_data(), "format": "layout-ir price model 9"}, "format = 'layout-ir price model 9' is not"),
        ({**_data(), "more": 1}, "unknown key 'more'"),
        ({**_data(), "machine": 5}, "^machine = 5 is no name"),
        ({**_data(), "threads": -1}, "^threads = -1 is no whole number"),
        ({**_data(), "groups": [_data()["groups"][0]] * 2}, r"groups\[1\]: a second fit of nn.conv, dense"),
        (_data(call=-1), r"groups\[0\]: call = -1 is no number from 0"),
        (_data(per_byte=float("nan")), r"groups\[0\]: per_byte = nan is no number"),
        (_data(per_byte=float("inf")), r"groups\[0\]: per_byte = inf is no number"),
        (_data(per_operation=2**70), r"groups\[0\]: per_operation = 1180591620717411303424 is no number"),
        (_data(factor=0.5), r"groups\[0\]: factor = 0.5 is no number from 1 to 4"),
        (_data(factor=1e9), r"groups\[0\]: factor = 1000000000.0 is no number from 1 to 4"),
        (_data(count=True), r"groups\[0\]: count = True is no number"),
        (_data(ratios=[]), r"groups\[0\]: ratios = \[\] is no text"),
        (_data(op=None), r"groups\[0\]: op = None is no text"),
    ],
)
def test_negative_a_damaged_model_is_refused_with_its_place(data: Any, reason: str) -> None:
    with pytest.raises(LayoutError, match=reason):
        model_from_json(data)


@pytest.mark.parametrize(
    ("ratios", "reason"),
    [
        ("1,2", "ratios are no rows of 7 extents and a ratio"),
        ("1,2,3,4,5,6,seven,1.0", "ratios are no rows of 7 extents and a ratio"),
        ('1,2,3,4,5,6,"seven",1.0', "ratios are no rows of 7 extents and a ratio: .*seven"),
        ('{"a": 1},2,3,4,5,6,7,8', "ratios are no rows of 7 extents and a ratio"),
        ("[1,2],3,4,5,6,7,8,9", "ratios are no rows of 7 extents and a ratio"),
        ("1,2,3,4,5,6,7,1.0, 1,2,3,4,5,6,-7,1.5", "ratios: 1, 2, 3, 4, 5, 6, -7, 1.5 are no 7 whole numbers"),
        ("1,2,3,4,5,6,7.5,1.0", "are no 7 whole numbers"),
        (f"1,2,3,4,5,6,{2**70},1.0", "are no 7 whole numbers"),
        ("1,2,3,4,5,6,Infinity,1.0", "are no 7 whole numbers"),
        ("1,2,3,4,5,6,7,0", "ratios: 1, 2, 3, 4, 5, 6, 7, 0 are no .* and a number from 0.001 to 1000"),
        ("1,2,3,4,5,6,7,NaN", "and a number from 0.001 to 1000"),
    ],
)
def test_negative_damaged_ratios_are_refused_where_they_are_asked_for(ratios: str, reason: str) -> None:
    model, _ = model_from_json(_data(ratios=ratios))
    with pytest.raises(LayoutError, match=reason):
        model.groups["nn.conv", "dense", "channels last"].corrected_ns(1, 1, (1,) * EXTENTS)


def test_negative_damaged_ratios_are_refused_with_the_group_whose_they_are() -> None:
    x, w, y = (TensorKey(shape, "f32", "nhwc") for shape in ((1, 8, 7, 7), (16, 8, 3, 3), (1, 16, 7, 7)))
    model, _ = model_from_json(_data(ratios="1,2"))
    with pytest.raises(LayoutError, match=r"the fit of nn\.conv, dense, channels last: ratios are no rows"):
        model.price(PriceKey("nn.conv", "", (x, w), (y,)))


# Those of the package -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_models_are_of_one_thread_and_of_the_instructions_that_they_are_named_after(
    name: str,
) -> None:
    model, source = shipped_model(name)
    assert source.threads == 1 and f", {name.removeprefix('onednn-')}" in source.runtime
    assert {"nn.conv", "nn.relu", "nn.add", "nn.max_pool", "nn.matmul", "nn.concat", "layout.reorder"} <= {
        op for op, _, _ in model.groups
    }
    path = Path(price_model_file.__file__).with_name(f"{name}.json")
    assert path.stat().st_size < 500_000
    assert model_text(model, source) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SHIPPED)
def test_by_a_shipped_model_most_prices_are_fitted(name: str) -> None:
    costs = load_costs(name)
    assert isinstance(costs, MeasuredCosts) and costs.source == name
    origins = priced("residual", costs=costs).origins()
    assert origins[Origin.FITTED] > 4 * origins[Origin.BUILT_IN]


def test_wider_vectors_are_faster() -> None:
    side = TensorKey((1, 256, 28, 28), "f32", "nhwc")
    conv = PriceKey("nn.conv", "", (side, TensorKey((256, 256, 3, 3), "f32", "constant")), (side,))
    narrow, wide = (load_costs(name) for name in SHIPPED)
    assert isinstance(narrow, MeasuredCosts) and isinstance(wide, MeasuredCosts)
    assert wide.at_end(conv, 0, End.MIDDLE) < narrow.at_end(conv, 0, End.MIDDLE)


def test_negative_a_model_that_is_not_shipped() -> None:
    with pytest.raises(
        LayoutError, match="no price model 'onednn-mmx' is shipped: onednn-avx2, onednn-avx512 are"
    ):
        shipped_model("onednn-mmx")
