"""The attributes of RoiAlign."""

from __future__ import annotations

from typing import Any

import pytest

from layout_ir.dialects.nn.regions import MOST_RATIO, Regions
from layout_ir.errors import LayoutError


def test_what_a_node_leaves_out():
    attributes: dict[str, Any] = {}
    assert Regions.of_node(attributes.get, 16) == Regions((1, 1), 0, 1.0, half_pixel=True, largest=False)


def test_before_opset_16_coordinates_are_not_moved():
    attributes: dict[str, Any] = {
        "mode": "MAX",
        "output_width": 3,
        "sampling_ratio": -1,
        "spatial_scale": 0.5,
    }
    assert Regions.of_node(attributes.get, 10) == Regions((1, 3), 0, 0.5, half_pixel=False, largest=True)


@pytest.mark.parametrize("attributes", [{"mode": "sum"}, {"coordinate_transformation_mode": "asymmetric"}])
def test_negative_modes_that_are_not_known(attributes: dict[str, Any]):
    with pytest.raises(LayoutError, match="a RoiAlign has no mode"):
        Regions.of_node(attributes.get, 16)


def test_negative_more_samples_than_a_call_has_time_for():
    assert Regions.of_node({"sampling_ratio": MOST_RATIO}.get, 16).ratio == MOST_RATIO
    with pytest.raises(LayoutError, match="sampling_ratio = 2147483647, supported are 1024 at most"):
        Regions.of_node({"sampling_ratio": (1 << 31) - 1}.get, 16)
