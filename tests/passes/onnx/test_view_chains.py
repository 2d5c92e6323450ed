"""Chains of Transposes and Reshapes."""

from __future__ import annotations

import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from tests.passes.onnx.optimized import check_optimized, initializer, model_of, transpose, value


def _reshape(x: str, y: str, *shape: int) -> tuple[onnx.NodeProto, onnx.TensorProto]:
    return oh.make_node("Reshape", [x, f"{y}_shape"], [y]), initializer(f"{y}_shape", list(shape))


def test_windows_that_are_cut_and_put_back_are_nothing():
    cut, cut_shape = _reshape("r", "a", 2, 2, 4, 3, 4, 5)
    flat, flat_shape = _reshape("b", "c", 12, 4, 4, 5)
    back, back_shape = _reshape("c", "d", 2, 2, 3, 4, 4, 5)
    whole, whole_shape = _reshape("e", "y", 2, 8, 12, 5)
    nodes = [oh.make_node("Relu", ["x"], ["r"]), cut, transpose("a", "b", 0, 1, 3, 2, 4, 5), flat, back]
    nodes += [transpose("d", "e", 0, 1, 3, 2, 4, 5), whole]
    shapes = [cut_shape, flat_shape, back_shape, whole_shape]
    result = check_optimized(model_of(nodes, [value("x", 2, 8, 12, 5)], [value("y", 2, 8, 12, 5)], shapes))
    assert (result.before.count, result.after.count) == (2, 0)


def test_two_transposes_around_a_cut_are_one():
    cut, shape = _reshape("a", "b", 4, 3, 2, 5)
    nodes = [transpose("x", "a", 1, 0), cut, transpose("b", "y", 2, 0, 3, 1)]
    result = check_optimized(model_of(nodes, [value("x", 10, 12)], [value("y", 2, 4, 5, 3)], [shape]))
    assert (result.before.count, result.after.count) == (2, 1)


@pytest.mark.parametrize("used", ["b", "c"])
def test_negative_what_is_used_inside_of_a_chain_stays(used: str):
    cut, cut_shape = _reshape("a", "b", 4, 3, 10)
    back, back_shape = _reshape("b", "c", 12, 10)
    nodes = [
        transpose("x", "a", 1, 0),
        cut,
        back,
        transpose("c", "d", 1, 0),
        oh.make_node("Relu", ["d"], ["y"]),
    ]
    outputs = [value("y", 10, 12), value(used, *([4, 3, 10] if used == "b" else [12, 10]))]
    result = check_optimized(model_of(nodes, [value("x", 10, 12)], outputs, [cut_shape, back_shape]))
    assert result.after.count == 1


def test_negative_cuts_that_do_not_divide_one_another():
    cut, cut_shape = _reshape("a", "b", 4, 6)
    again, again_shape = _reshape("c", "d", 8, 3)
    nodes = [
        transpose("x", "a", 1, 0),
        cut,
        transpose("b", "c", 1, 0),
        again,
        oh.make_node("Relu", ["d"], ["y"]),
    ]
    model = model_of(nodes, [value("x", 2, 12)], [value("y", 8, 3)], [cut_shape, again_shape])
    assert check_optimized(model).after.count > 0


def test_negative_a_cut_into_more_elements_than_there_are():
    """No runtime gets through such a model; exporters write some all the same."""
    cut, shape = _reshape("a", "b", 1, 8, 8, 8, 8)
    nodes = [transpose("x", "a", 0, 2, 3, 1), cut, transpose("b", "y", 0, 1, 3, 2, 4)]
    model = model_of(nodes, [value("x", 1, 64, 2, 2)], [value("y", None, None, None, None, None)], [shape])
    model.graph.value_info.append(value("b", 1, 8, 8, 8, 8))
    result = li.optimize_onnx(model)
    assert result.model.graph.output[0].name == "y" and result.after.count <= 2
