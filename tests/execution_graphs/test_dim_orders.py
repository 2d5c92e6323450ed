"""Values whose dims are the same have the same names for them, and ONNX Runtime says where the elements lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra 'onnx'")

from layout_ir.algebra.format import Format
from layout_ir.execution_graphs.dim_orders import DimOrders, same_values
from layout_ir.execution_graphs.execution_graph import ExecutionGraph
from layout_ir.execution_graphs.onnx_model import read_onnx
from layout_ir.passes.onnx.optimize_model import optimize_orders
from tests.execution_graphs.graphs import graph
from tests.execution_graphs.onnx_models import HEAD, LAST, NORM, computed, parsed, random_inputs
from tests.zoo import NETWORKS


def texts(orders: DimOrders, number: int = 0) -> dict[str, str]:
    """The layouts of the values of a graph, by name."""
    values = orders.graphs[number].values
    found = {value.name: orders.layout(number, k) for k, value in enumerate(values)}
    return {name: layout.text for name, layout in found.items() if layout is not None}


def read(text: str) -> ExecutionGraph:
    return read_onnx(parsed(text), {})


def test_a_convolution_names_the_dims_of_all_values_around_it():
    found = texts(DimOrders([read(LAST)]))
    assert {name: found[name] for name in "xabcdefy"} == dict(
        zip("xabcdefy", ["nhwc", "nchw", "nchw", "nhwc", "nhwc", "nchw", "nchw", "nhwc"], strict=True)
    )


def test_a_shape_is_that_of_the_dims_and_not_of_the_tensor():
    orders = DimOrders([read(LAST)])
    for name in ("x", "a"):
        (number,) = [k for k, value in enumerate(orders.graphs[0].values) if value.name == name]
        layout = orders.layout(0, number)
        assert layout is not None and layout.shape == (1, 8, 6, 10)
        assert layout.format == Format.from_tag(layout.text)


def test_without_an_op_that_knows_its_dims_the_first_value_names_them():
    text = (
        HEAD + "m (float[4,6,5] x) => (float[5,4,6] y) { z = Relu(x)\n y = Transpose<perm = [2, 0, 1]>(z) }"
    )
    assert texts(DimOrders([read(text)])) == {"x": "abc", "z": "abc", "y": "cab"}


def test_negative_an_op_with_dims_of_its_own_ties_nothing():
    text = HEAD + (
        "m (float[4,6,5] x) => (float[6,4,5] y) { z = Transpose<perm = [1, 0, 2]>(x)\n"
        ' y = Einsum<equation = "abc->abc">(z) }'
    )
    assert texts(DimOrders([read(text)])) == {"x": "abc", "z": "bac", "y": "abc"}


def test_negative_what_was_tied_first_stays():
    """A square added to its own transpose: its dims are in both orders at once."""
    text = HEAD + "m (float[4,4] x) => (float[4,4] y) { z = Transpose(x)\n y = Add(x, z) }"
    assert texts(DimOrders([read(text)])) == {"x": "ab", "z": "ba", "y": "ab"}


def test_a_layout_that_the_file_names_keeps_its_name():
    found = graph(("input", "", "x", "abcd"), ("reorder", "x", "y", "aBcd8b"), ("relu", "y", "z", "aBcd8b"))
    assert texts(DimOrders([found])) == {"x": "abcd", "y": "aBcd8b", "z": "aBcd8b"}


@pytest.mark.parametrize("text", [LAST, NORM])
def test_a_value_in_another_order_than_in_the_model_shows_it(text: str):
    _check(parsed(text), random_inputs(parsed(text)))


@pytest.mark.parametrize("name", ["unet_resized-nhwc", "levit", "shufflenet_v2", "swin_tiny"])
def test_values_of_networks_are_those_of_the_model_in_the_orders_stated(name: str):
    pytest.importorskip("torch", reason="needs the extra 'oracles'")
    _check(NETWORKS[name].build(), NETWORKS[name].inputs())


def _check(model: Any, inputs: dict[str, Any]) -> None:
    """What ONNX Runtime computes before and after is equal, the one moved into the order that is stated; and the
    layouts of both are the same order of the same dims."""
    result = optimize_orders(model, "ort-cpu")
    before, after = read_onnx(model, {}), read_onnx(result.model, {})
    pairs = list(same_values(before, after, result.places))
    orders = DimOrders([before, after], pairs)
    old, new = computed(model, inputs), computed(result.model, inputs)
    moved = 0
    for (_, k), (_, m), order in pairs:
        first, second = before.values[k].name, after.values[m].name
        if first not in old or second not in new:
            continue
        expected = np.asarray(old[first]).transpose(order)
        assert expected.shape == new[second].shape, (first, second, order)
        assert np.allclose(expected, new[second], rtol=1e-3, atol=1e-4, equal_nan=True), (first, second)
        one, other = orders.layout(0, k), orders.layout(1, m)
        if one is not None and other is not None and one.shape == other.shape:
            moved += one.text != other.text
            assert (one.text == other.text) == (one.format == other.format)
            axes = [[factor.dim for factor in layout.format.factors] for layout in (one, other)]
            assert [axes[0][d] for d in order] == axes[1], (first, second, order)
    assert moved or result.after == result.before
