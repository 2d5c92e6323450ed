"""ScatterND, ScatterElements and MaxUnpool, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from tests.backends.onednn.node_models import compare_node, node_model
from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.rewrites.test_node_decomposition import opaque_nodes
from tests.backends.onednn.small_programs import needs_library, numbers

onnx = pytest.importorskip("onnx")

pytestmark = needs_library

SHAPE = 2, 5, 7, 6


def places(*ranges: range) -> Any:
    """All vectors of one number of each range, in row-major order."""
    return np.stack(np.meshgrid(*ranges, indexing="ij"), -1).astype(np.int64)


def scattered(indices: Any, **attributes: Any) -> tuple[Any, dict[str, Any]]:
    """A model that updates `SHAPE` at these places."""
    updates = (*indices.shape[:-1], *SHAPE[indices.shape[-1] :])
    inputs = {"x": numbers(SHAPE), "u": numbers(updates, 1)}
    nodes = [node("ScatterND", ("x", "i", "u"), "z", **attributes), node("Neg", ("z",), "y")]
    return model(nodes, inputs, {"i": indices}, "y"), inputs


@pytest.mark.parametrize(
    "indices",
    [
        places(range(2), range(1, 4), range(2, 7), range(5)),
        places(range(1, 2), range(1, 4)),
        places(range(2), range(5), range(7), range(2, 6)),
        places(range(2), range(5), range(7), range(6)),
        places(range(-1, 0)),
        places(range(2), range(0, 5, 2)),  # with steps
        places(range(2), range(4, -1, -1)),  # backwards
        np.array([[1, 3], [0, 2], [1, 0]]),
        np.array([[1, -1, 2, -6]]),
        np.zeros((0, 2), np.int64),
    ],
    ids=str,
)
def test_places_that_are_updated(indices: Any):
    made, inputs = scattered(indices)
    assert not opaque_nodes(made)
    compare(made, inputs)


REDUCTIONS = ("none", "add", "mul", "max", "min")


def drawn(rows: int, extents: tuple[int, ...], reduction: str) -> Any:
    """Vectors of indices in a row, some from the end; without a reduction no two are equal."""
    draw = np.random.default_rng(0)
    places = np.stack(np.unravel_index(np.arange(np.prod(extents)), extents), -1)
    found = draw.permutation(places)[:rows] if reduction == "none" else draw.choice(places, rows)
    return np.where(draw.random(found.shape) < 0.3, found - np.array(extents), found)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("length", [1, 2, 4])
@pytest.mark.parametrize("constant", [False, True])
def test_slices_at_computed_places(length: int, reduction: str, constant: bool):
    indices = drawn(4 if length == 2 else 2, SHAPE[:length], reduction).reshape(2, -1, length)
    made, inputs = scattered(indices, **({} if reduction == "none" else {"reduction": reduction}))
    if not constant:
        (tensor,) = made.graph.initializer
        made.graph.initializer.remove(tensor)
        made.graph.input.append(onnx.helper.make_tensor_value_info("i", 7, indices.shape))
        inputs["i"] = indices
    compare(made, inputs)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("shape", "places", "axis"),
    [((5, 7), (5, 3), 1), ((5, 7), (2, 6), 0), ((4, 3, 9), (2, 3, 5), -1), ((9,), (6,), 0)],
)
def test_elements_at_computed_places(
    shape: tuple[int, ...], places: tuple[int, ...], axis: int, reduction: str
):
    extent, draw = shape[axis], np.random.default_rng(0)
    indices = np.moveaxis(np.zeros(places, np.int64), axis, -1)
    for row in np.ndindex(indices.shape[:-1]):
        count = indices.shape[-1]
        indices[row] = (
            draw.permutation(extent)[:count] if reduction == "none" else draw.integers(-extent, extent, count)
        )
    indices = np.ascontiguousarray(np.moveaxis(indices, -1, axis))
    inputs = {"x": numbers(shape), "i": indices, "u": numbers(places, 1)}
    attributes = {"axis": axis} | ({} if reduction == "none" else {"reduction": reduction})
    nodes = [node("ScatterElements", ("x", "i", "u"), "z", **attributes), node("Neg", ("z",), "y")]
    compare(model(nodes, inputs, {}, "y"), inputs)


@pytest.mark.parametrize(("op", "places"), [("ScatterND", (0, 2)), ("ScatterElements", (0, 7))])
def test_no_updates_at_computed_places(op: str, places: tuple[int, ...]):
    updates = (0,) if op == "ScatterND" else places
    inputs = {"x": numbers((5, 7)), "i": np.zeros(places, np.int64), "u": numbers(updates, 1)}
    compare(model([node(op, ("x", "i", "u"), "z"), node("Neg", ("z",), "y")], inputs, {}, "y"), inputs)


def test_elements_at_places_of_32_bits():
    indices = np.array([[4, -1, 0], [1, 2, -3]], np.int32)
    inputs = {"x": numbers((2, 5)), "i": indices, "u": numbers((2, 3), 1)}
    made = model([node("ScatterElements", ("x", "i", "u"), "y", axis=1)], inputs, {}, "y")
    compare(made, inputs)
    compare(model([node("GatherElements", ("x", "i"), "y", axis=1)], inputs, {}, "y"), inputs)


@pytest.mark.parametrize(
    ("shape", "kernel", "strides", "pads"),
    [
        ((2, 3, 8, 6), (2, 2), (2, 2), (0, 0, 0, 0)),
        ((1, 2, 9), (3,), (2,), (1, 1)),
        ((1, 2, 4, 4), (2, 2), None, None),
    ],
)
def test_elements_of_a_pool_are_put_back(
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
):
    runtime = pytest.importorskip("onnxruntime")
    options: dict[str, Any] = {name: value for name, value in (("strides", strides), ("pads", pads)) if value}
    inputs: dict[str, Any] = {"x": numbers(shape)}
    pool = node_model("MaxPool", inputs, outputs=2, opset=12, kernel_shape=kernel, **options)
    session = runtime.InferenceSession(pool.SerializeToString())
    values, indices = session.run(None, inputs)
    inputs = {"v": values, "i": indices}
    [found] = compare_node("MaxUnpool", inputs, opset=11, kernel_shape=kernel, **options)
    assert found.shape == shape
    executable = li.compile(node_model("MaxUnpool", inputs, opset=11, kernel_shape=kernel, **options))
    indices[0, -1, -1] = found.size
    with pytest.raises(li.LayoutError, match="index"):
        executable(inputs)


@pytest.mark.parametrize("used_later", [False, True])
def test_the_data_are_written_over_where_nobody_needs_them_later(used_later: bool):
    inputs = {"x": numbers((40, 50)), "i": np.array([[3], [-1]]), "u": numbers((2, 50), 1)}
    nodes = [
        node("Neg", ("x",), "data"),
        node("ScatterND", ("data", "i", "u"), "z"),
        node("MatMul", ("z", "data" if used_later else "x"), "y"),
    ]
    inputs["x"] = numbers((50, 50))
    made = model(nodes, inputs, {}, "y")
    executable = compare(made, inputs)
    moved = [time for time in executable.profile(inputs) if time.ops == ("ScatterND",)]
    assert [time.implementation for time in moved] == (["reorder", "loop"] if used_later else ["loop"])


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.bool_])
def test_updates_of_integers(dtype: Any):
    inputs: dict[str, Any] = {
        "x": np.arange(12).reshape(4, 3).astype(dtype),
        "i": np.array([[2]]),
        "u": np.ones((1, 3), dtype),
    }
    nodes = [node("ScatterND", ("x", "i", "u"), "z"), node("Cast", ("z",), "y", to=1)]
    compare(model(nodes, inputs, {}, "y"), inputs)


def test_updates_on_several_threads_come_one_after_the_other():
    inputs = {"x": numbers((30, 700)), "i": np.arange(600).reshape(-1, 1) % 7, "u": numbers((600, 700), 1)}
    made = model([node("ScatterND", ("x", "i", "u"), "y", reduction="add")], inputs, {}, "y")
    (one,), (two,) = li.compile(made)(inputs), li.compile(made, threads=2)(inputs)
    np.testing.assert_array_equal(one, two)
    expected = inputs["x"].astype(np.float64)
    np.add.at(expected, inputs["i"][:, 0], inputs["u"])
    np.testing.assert_allclose(one, expected, atol=1e-3)


@pytest.mark.parametrize(
    ("op", "wrong"),
    [("ScatterND", [[4, 0]]), ("ScatterND", [[0, 5]]), ("ScatterND", [[-5, 4]]), ("ScatterElements", [[4]])],
)
def test_negative_an_index_outside_of_its_dim_is_an_error(op: str, wrong: list[list[int]]):
    indices = np.zeros_like(wrong, dtype=np.int64)
    updates = (1,) if op == "ScatterND" else (1, 1)
    inputs = {"x": numbers((4, 5)), "i": indices, "u": numbers(updates, 1)}
    executable = li.compile(model([node(op, ("x", "i", "u"), "y")], inputs, {}, "y"))
    assert not executable.fallbacks
    executable(inputs)
    with pytest.raises(li.LayoutError, match="index"):
        executable(inputs | {"i": np.array(wrong)})


@pytest.mark.parametrize(
    ("x", "i", "u", "attributes"),
    [
        ((4, 3), (2, 1), (2, 3), 'reduction = "most"'),
        ((4, 3), (2, 1), (2, 3), "reduction = 1 : i64"),
        ((4, 3), (2, 1), (3, 2), ""),
        ((4, 3), (2, 3), (2, 3), ""),
        ((0, 3), (2, 1), (2, 3), ""),
    ],
)
def test_negative_attributes_and_shapes_of_no_scatter(
    x: tuple[int, ...], i: tuple[int, ...], u: tuple[int, ...], attributes: str
):
    def tensor(shape: tuple[int, ...], element: str) -> str:
        return f"tensor<{'x'.join(map(str, shape))}x{element}>"

    data, places, updates = tensor(x, "f32"), tensor(i, "i64"), tensor(u, "f32")
    program = f"""func.func @main(%x: {data}, %i: {places}, %u: {updates}) -> {data} {{
      %y = nn.opaque "ScatterND" opset 18 (%x, %i, %u) {{{attributes}}} : ({data}, {places}, {updates}) -> {data}
      func.return %y : {data}
    }}"""
    assert li.compile(li.parse(program)).fallbacks == {"ScatterND": 1}
