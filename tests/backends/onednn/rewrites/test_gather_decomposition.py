"""Nodes that only move elements, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.rewrites.test_node_decomposition import opaque_nodes
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


@pytest.mark.parametrize(
    ("shape", "places", "axis"),
    [((4, 5, 6), (4, 5, 9), 2), ((4, 5, 6), (2, 7, 3), 1), ((4, 5, 6), (8, 1, 6), -3), ((7,), (3,), 0)],
)
@pytest.mark.parametrize("constant", [False, True])
def test_elements(shape: tuple[int, ...], places: tuple[int, ...], axis: int, constant: bool):
    extent = shape[axis]
    indices = np.random.default_rng(0).integers(-extent, extent, places)
    inputs = {"x": numbers(shape)} | ({} if constant else {"i": indices})
    nodes = [node("GatherElements", ("x", "i"), "z", axis=axis), node("Neg", ("z",), "y")]
    made = model(nodes, inputs, {"i": indices} if constant else {}, "y")
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize(
    ("shape", "places", "batch"),
    [
        ((4, 5, 6), (3, 1), 0),
        ((4, 5, 6), (2, 3, 2), 0),
        ((4, 5, 6), (7, 3), 0),
        ((4, 5, 6), (4, 3, 1), 1),
        ((4, 5, 6), (4, 2, 3, 2), 1),
        ((4, 5, 6), (4, 5, 1), 2),
    ],
)
@pytest.mark.parametrize("constant", [False, True])
def test_slices(shape: tuple[int, ...], places: tuple[int, ...], batch: int, constant: bool):
    indices = np.random.default_rng(0).integers(-4, 4, places)
    inputs = {"x": numbers(shape)} | ({} if constant else {"i": indices})
    nodes = [node("GatherND", ("x", "i"), "z", batch_dims=batch), node("Neg", ("z",), "y")]
    made = model(nodes, inputs, {"i": indices} if constant else {}, "y")
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize(
    ("op", "places", "wrong"),
    [
        ("GatherND", (3, 2), [0, 5]),
        ("GatherND", (3, 2), [-5, 0]),
        ("GatherND", (3, 2), [4, -1]),
        ("GatherND", (3, 1), [4]),
        ("GatherElements", (4, 2), [5, 0]),
        ("GatherElements", (4, 2), [0, -6]),
    ],
)
def test_negative_an_index_outside_of_its_dim_is_an_error(op: str, places: tuple[int, ...], wrong: list[int]):
    indices = np.zeros(places, np.int64)
    attributes = {"axis": 1} if op == "GatherElements" else {}
    inputs = {"x": numbers((4, 5)), "i": indices}
    executable = li.compile(model([node(op, ("x", "i"), "y", **attributes)], inputs, {}, "y"))
    assert not executable.fallbacks
    executable(inputs)
    indices[1] = wrong
    with pytest.raises(li.LayoutError, match="of node 'y' is outside of its dim"):
        executable(inputs)


def patches(window: tuple[int, ...], image: tuple[int, ...], **attributes: Any) -> tuple[Any, dict[str, Any]]:
    from onnx import TensorProto, helper, numpy_helper

    steps = attributes.get("strides", (1,) * len(window))
    pads = attributes.get("pads", (0,) * (2 * len(window)))
    gaps = attributes.get("dilations", (1,) * len(window))
    counts = [
        (size + pads[d] + pads[d + len(window)] - (extent - 1) * gaps[d] - 1) // step + 1
        for d, (size, extent, step) in enumerate(zip(image, window, steps, strict=True))
    ]
    shape = (2, 3 * int(np.prod(window)), int(np.prod(counts)))
    graph = helper.make_graph(
        [node("Col2Im", ("x", "image", "window"), "y", **attributes)],
        "patches",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3, *image))],
        [numpy_helper.from_array(np.array(v), k) for k, v in (("image", image), ("window", window))],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return made, {"x": numbers(shape)}


@pytest.mark.parametrize(("window", "image"), [((2, 2), (6, 4)), ((3, 1), (9, 5)), ((2,), (8,))])
def test_patches_side_by_side(window: tuple[int, ...], image: tuple[int, ...]):
    made, inputs = patches(window, image, strides=window)
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize(
    ("window", "image", "attributes"),
    [
        ((2, 2), (6, 6), {}),
        ((3, 3), (8, 9), {"strides": [2, 1], "pads": [1, 0, 1, 2]}),
        ((2, 2), (6, 7), {"strides": [2, 2], "dilations": [1, 2]}),
        ((2, 3, 2), (5, 5, 4), {}),
        ((4,), (10,), {"strides": [3], "pads": [1, 1]}),
    ],
)
def test_patches_that_overlap_or_leave_gaps(
    window: tuple[int, ...], image: tuple[int, ...], attributes: dict[str, Any]
):
    made, inputs = patches(window, image, **attributes)
    assert not opaque_nodes(made)
    compare(made, inputs)


def test_negative_patches_of_integers_that_overlap_stay_opaque():
    made, _ = patches((2, 2), (6, 6))
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.elem_type = 6
    assert opaque_nodes(made) == ["Col2Im"]


@pytest.mark.parametrize(("shape", "axis"), [("4x5x", '"first"'), ("4x5x", "array<i64: 1>"), ("", "0 : i64")])
def test_negative_attributes_and_shapes_of_no_gather(shape: str, axis: str):
    data, places = f"tensor<{shape}f32>", f"tensor<{shape}i64>"
    program = f"""func.func @main(%x: {data}, %i: {places}) -> {data} {{
      %y = nn.opaque "GatherElements" opset 18 (%x, %i) {{axis = {axis}}} : ({data}, {places}) -> {data}
      func.return %y : {data}
    }}"""
    assert li.compile(li.parse(program)).fallbacks == {"GatherElements": 1}
