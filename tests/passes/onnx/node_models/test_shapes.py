"""Operators that change the shape: what they cannot do in another order."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
import pytest

import layout_ir as li
from tests.passes.onnx.optimized import (
    Feeds,
    check_optimized,
    initializer,
    model_of,
    op_types,
    transpose,
    value,
)


@pytest.mark.parametrize("axis", range(-4, 5))
def test_flatten_with_dims_of_one_element_and_axes_from_both_ends(axis: int):
    for shape in ((2, 4, 5, 1), (2, 4, 1, 5), (2, 1, 4, 1)):
        split = axis + 4 if axis < 0 else axis
        result = [int(np.prod(shape[:split])), int(np.prod(shape[split:]))]
        for perm in permutations(range(4)):
            given = [0] * 4
            for place, dim in enumerate(perm):
                given[dim] = shape[place]
            nodes = [transpose("x", "t", *perm), oh.make_node("Flatten", ["t"], ["y"], axis=axis)]
            check_optimized(model_of(nodes, [value("x", *given)], [value("y", *result)]))


def test_a_reshape_says_what_only_the_run_time_knows():
    nodes = [
        transpose("x", "t", 0, 2, 3, 1),
        oh.make_node("Reshape", ["t", "s"], ["r"]),
        transpose("r", "y", 0, 2, 1),
    ]
    model = model_of(
        nodes, [value("x", "N", 3, "H", "W")], [value("y", "N", 3, "L")], [initializer("s", [0, -1, 3])]
    )
    result = check_optimized(model, {"x": np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)})
    assert op_types(result.model) == ["Reshape"]
    assert onnx.numpy_helper.to_array(result.model.graph.initializer[-1]).tolist() == [0, 3, -1]


def test_a_reshape_keeps_what_is_said_of_it():
    nodes = [transpose("x", "t", 0, 2, 3, 1), oh.make_node("Relu", ["t"], ["u"])]
    nodes += [oh.make_node("Reshape", ["u", "s"], ["r"], name="join", doc_string="joined")]
    nodes += [oh.make_node("Neg", ["r"], ["n"]), transpose("n", "y", 0, 2, 1)]
    model = model_of(nodes, [value("x", 2, 3, 4, 5)], [value("y", 2, 3, 20)], [initializer("s", [0, -1, 3])])
    new = check_optimized(model).model.graph.node
    assert [(node.op_type, node.name, node.doc_string) for node in new][1] == ("Reshape", "join", "joined")


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [
        (1, 2, ["Shape"]),
        (1, 3, ["Shape"]),
        (-2, 9, ["Shape", "Gather"]),
        (-9, 2, ["Shape", "Gather"]),
        (3, 3, ["Shape"]),
    ],
)
def test_a_part_of_the_extents_is_that_of_another_order(start: int, end: int, left: list[str]):
    nodes = [transpose("x", "t", 0, 2, 3, 1), oh.make_node("Shape", ["t"], ["y"], start=start, end=end)]
    count = len(range(4)[start:end])
    model = model_of(nodes, [value("x", "N", 3, "H", "W")], [value("y", count, dtype=onnx.TensorProto.INT64)])
    assert op_types(check_optimized(model, {"x": np.ones((2, 3, 4, 5), np.float32)}).model) == left


def test_negative_scales_of_more_dims_than_are_normalized_stay_with_theirs():
    for scale, free in (((5,), True), ((3, 1, 5), False)):
        weights = [initializer("s", np.ones(scale, np.float32)), initializer("b", np.ones(5, np.float32))]
        norm = oh.make_node("LayerNormalization", ["t", "s", "b"], ["n"])
        nodes = [transpose("x", "t", 1, 0, 2), norm, transpose("n", "y", 1, 0, 2)]
        result = check_optimized(model_of(nodes, [value("x", 2, 3, 5)], [value("y", 2, 3, 5)], weights))
        assert (result.after.count == 0) == free


def test_negative_a_skip_that_is_broadcast_stays_where_it_is():
    for skip, free in (((2, 3, 8), True), ((2, 1, 8), False)):
        op = oh.make_node("SkipLayerNormalization", ["t", "k", "g"], ["n"], domain="com.microsoft")
        nodes = [transpose("x", "t", 1, 0, 2), transpose("z", "k", 1, 0, 2), op, transpose("n", "y", 1, 0, 2)]
        weights = [initializer("g", np.ones(8, np.float32))]
        model = model_of(nodes, [value("x", 2, 3, 8), value("z", *skip)], [value("y", 2, 3, 8)], weights)
        model.graph.value_info.append(value("n", 3, 2, 8))
        assert (check_optimized(model, target="ort-cpu").after.count == 0) == free


def test_negative_reductions_and_lookups_of_unknown_rank_stay():
    for op in (oh.make_node("ReduceSum", ["t", "axes"], ["y"]), oh.make_node("Gather", ["t", "axes"], ["y"])):
        nodes = [oh.make_node("Thing", ["x"], ["u"], domain="my"), transpose("u", "t", 1, 0), op]
        model = model_of(
            nodes, [value("x", 2, 3)], [oh.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
        )
        model.graph.initializer.append(initializer("axes", [1]))
        assert li.optimize_onnx(model).after.count == 1


def test_a_flatten_to_rows_and_columns_that_change_places_is_a_reshape():
    nodes = [
        transpose("x", "t", 0, 2, 1),
        oh.make_node("Flatten", ["t"], ["f"], axis=2),
        transpose("f", "y", 1, 0),
    ]
    result = check_optimized(model_of(nodes, [value("x", 1, 4, 3)], [value("y", 4, 3)]))
    assert (result.after.count, op_types(result.model)) == (0, ["Reshape"])


def test_negative_a_flatten_that_keeps_its_result_stays():
    nodes = [transpose("x", "t", 1, 0, 2), oh.make_node("Flatten", ["t"], ["y"], axis=2)]
    result = check_optimized(model_of(nodes, [value("x", 3, 1, 4)], [value("y", 3, 4)]))
    assert op_types(result.model)[-1] == "Flatten"


def test_negative_a_flatten_of_extents_that_the_run_time_knows_keeps_its_order():
    nodes = [
        transpose("x", "t", 0, 2, 1),
        oh.make_node("Flatten", ["t"], ["f"], axis=2),
        transpose("f", "y", 1, 0),
    ]
    model = model_of(nodes, [value("x", "N", 4, 3)], [value("y", 4, "M")])
    result = check_optimized(
        model, {"x": np.random.default_rng(1).uniform(size=(2, 4, 3)).astype(np.float32)}
    )
    assert "Flatten" in op_types(result.model)


def _relative_positions(heads: int) -> onnx.ModelProto:
    """Rows of a table, one element for each head, by the distance of two words, added to the scores of each head."""
    nodes = [
        oh.make_node("Gather", ["table", "distances"], ["rows"]),
        transpose("rows", "bias", 2, 0, 1),
        oh.make_node("Add", ["scores", "bias"], ["y"]),
    ]
    table = initializer("table", np.random.default_rng(0).standard_normal((32, heads)))
    distances = value("distances", 128, 128, dtype=onnx.TensorProto.INT64)
    scores = value("scores", heads, 128, 128)
    return model_of(nodes, [distances, scores], [value("y", heads, 128, 128)], [table])


@pytest.mark.parametrize(("target", "left"), [("ort-cpu", 1), ("onnx", 0)])
def test_rows_are_looked_up_rather_than_elements_where_each_is_copied_by_itself(target: str, left: int):
    model = _relative_positions(4)
    rng = np.random.default_rng(0)
    feeds: Feeds = {
        "distances": rng.integers(0, 32, (128, 128)),
        "scores": rng.standard_normal((4, 128, 128)).astype(np.float32),
    }
    assert check_optimized(model, feeds, target).after.count == left


def test_negative_what_is_as_long_behind_the_axis_is_looked_up_in_any_order():
    nodes = [
        transpose("x", "t", 1, 0, 2),
        oh.make_node("Gather", ["t", "places"], ["g"], axis=1),
        transpose("g", "y", 1, 0, 2),
    ]
    places = initializer("places", [3, 1, 2])
    model = model_of(nodes, [value("x", 8, 16, 64)], [value("y", 3, 16, 64)], [places])
    assert check_optimized(model, target="ort-cpu").after.count == 0
