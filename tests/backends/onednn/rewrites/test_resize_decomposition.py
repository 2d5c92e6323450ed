"""Cubic, linear and antialiased resizing, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.elements.numpy_types import Array
from tests.backends.onednn.node_models import compare_node
from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.rewrites.test_node_decomposition import opaque_nodes
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


def resized(
    shape: tuple[int, ...], extents: dict[str, Any], mode: str = "cubic", **attributes: Any
) -> tuple[Any, dict[str, Any]]:
    inputs = {"x": numbers(shape)}
    names = ("x", "", "scales") if "scales" in extents else ("x", "", "", "sizes")
    return model([node("Resize", names, "y", mode=mode, **attributes)], inputs, extents, "y"), inputs


@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize(
    "extents",
    [
        {"sizes": np.array([1, 3, 20, 9])},
        {"sizes": np.array([1, 3, 7, 1])},
        {"scales": np.array([1, 1, 1.7, 0.6], np.float32)},
        {"scales": np.array([1, 1, 1, 2], np.float32)},
    ],
)
def test_a_picture(coordinates: str, exclude: int, extents: dict[str, Any]):
    attributes: dict[str, Any] = {"coordinate_transformation_mode": coordinates, "exclude_outside": exclude}
    made, inputs = resized((1, 3, 13, 11), extents, cubic_coeff_a=-0.5, **attributes)
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners"])
@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize(
    "extents",
    [
        {"sizes": np.array([1, 3, 26, 4])},
        {"sizes": np.array([1, 3, 1, 5])},
        {"scales": np.array([1, 1, 0.7, 0.3], np.float32)},
    ],
)
def test_an_antialiased_picture(coordinates: str, exclude: int, mode: str, extents: dict[str, Any]):
    inputs = {"x": numbers((1, 3, 13, 11)), "roi": None, "scales": None, "sizes": None} | extents
    compare_node(
        "Resize", inputs, constants=[*extents], opset=18, mode=mode, antialias=1,
        coordinate_transformation_mode=coordinates, exclude_outside=exclude,
    )  # fmt: skip


@pytest.mark.parametrize("coordinates", ["align_corners", "asymmetric"])
@pytest.mark.parametrize(
    "extents",
    [
        {"sizes": np.array([1, 3, 26, 9])},
        {"sizes": np.array([1, 3, 1, 24])},
        {"scales": np.array([1, 1, 1.7, 0.6], np.float32)},
    ],
)
def test_a_picture_between_its_corners(coordinates: str, extents: dict[str, Any]):
    attributes = {"coordinate_transformation_mode": coordinates}
    made, inputs = resized((1, 3, 13, 11), extents, "linear", **attributes)
    executable = compare(made, inputs)
    assert "nn.resize" not in [op for time in executable.profile(inputs) for op in time.ops]


@pytest.mark.parametrize("channels", [3, 16, 24])
@pytest.mark.parametrize("coordinates", ["align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("extents", [(26, 9), (1, 24), (13, 30), (40, 11)])
def test_a_picture_between_convolutions_is_interpolated_by_a_loop(
    channels: int, coordinates: str, extents: tuple[int, int]
):
    """In the layouts of the convolutions, whichever these are."""
    inputs = {"x": numbers((2, channels, 13, 11))}
    constants = {"sizes": np.array([2, channels, *extents]), "w": numbers((channels, channels, 1, 1)) / 4}
    nodes = [
        node("Conv", ("x", "w"), "a"),
        node(
            "Resize", ("a", "", "", "sizes"), "b", mode="linear", coordinate_transformation_mode=coordinates
        ),
        node("Conv", ("b", "w"), "y"),
    ]
    executable = compare(model(nodes, inputs, constants, "y"), inputs)
    if coordinates != "pytorch_half_pixel" or 1 in extents:
        by = [time.implementation for time in executable.profile(inputs) if "nn.resize" in time.ops]
        assert by == ["loop"]


def test_negative_volumes_are_multiplied_by_matrices():
    inputs = {"x": numbers((1, 4, 5, 6, 7))}
    constants = {"sizes": np.array([1, 4, 9, 11, 10]), "w": numbers((4, 4, 1, 1, 1))}
    nodes = [
        node(
            "Resize",
            ("x", "", "", "sizes"),
            "a",
            mode="linear",
            coordinate_transformation_mode="align_corners",
        ),
        node("Conv", ("a", "w"), "y"),
    ]
    executable = compare(model(nodes, inputs, constants, "y"), inputs)
    assert "nn.resize" not in [op for time in executable.profile(inputs) for op in time.ops]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("extents", [{"sizes": np.array([1, 3, 13, 11])}, {"scales": np.ones(4, np.float32)}])
def test_a_picture_of_the_same_size_is_the_picture(mode: str, coordinates: str, extents: dict[str, Any]):
    attributes = {"coordinate_transformation_mode": coordinates}
    made, inputs = resized((1, 3, 13, 11), extents, mode, **attributes)
    executable = compare(made, inputs)
    assert "nn.resize" not in [op for time in executable.profile(inputs) for op in time.ops]
    np.testing.assert_array_equal(executable(inputs)[0], inputs["x"])


@pytest.mark.parametrize("shape", [(1, 3, 13, 11), (2, 5, 64, 3), (1, 2, 3, 4, 5)])
def test_a_small_result_is_multiplied_by_matrices(shape: tuple[int, ...]):
    sizes = np.array([*shape[:2], *(2 * extent + 1 for extent in shape[2:])])
    made, inputs = resized(shape, {"sizes": sizes}, "linear")
    executable = compare(made, inputs)
    assert "nn.resize" not in [op for time in executable.profile(inputs) for op in time.ops]


@pytest.mark.parametrize("extents", [(26, 22), (5, 40)])
def test_negative_what_the_library_resamples_stays_with_it(extents: tuple[int, int]):
    """Between convolutions, and where it is a large result."""
    inputs = {"x": numbers((1, 16, 13, 11))}
    constants = {"sizes": np.array([1, 16, *extents]), "w": numbers((16, 16, 1, 1))}
    nodes = [
        node("Conv", ("x", "w"), "a"),
        node("Resize", ("a", "", "", "sizes"), "b", mode="linear"),
        node("Conv", ("b", "w"), "y"),
    ]
    between = model(nodes, inputs, constants, "y"), inputs
    for made, given in (
        between,
        resized((1, 3, 13, 65), {"sizes": np.array([1, 3, *extents])}, "linear"),
    ):
        profile = compare(made, given).profile(given)
        assert [time.ops for time in profile if "nn.resize" in time.ops] == [("nn.resize",)]
        assert all(time.implementation != "loop" for time in profile)


@pytest.mark.parametrize(
    "attributes",
    [
        {"coordinate_transformation_mode": "tf_crop_and_resize"},
        {"mode": "cubic", "coordinate_transformation_mode": "half_pixel_symmetric"},
    ],
)
def test_negative_other_coordinates_stay_opaque(attributes: dict[str, Any]):
    from onnx import TensorProto, helper, numpy_helper

    attributes = {"mode": "cubic"} | attributes
    graph = helper.make_graph(
        [node("Resize", ("x", "roi", "", "sizes"), "y", **attributes)],
        "resize",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, 4, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 1, 6, 6))],
        [
            numpy_helper.from_array(np.array([1, 1, 6, 6]), "sizes"),
            numpy_helper.from_array(np.array([0, 0, 0, 0, 1, 1, 1, 1], np.float32), "roi"),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    assert opaque_nodes(made) == ["Resize"]


def test_negative_a_long_row_is_not_multiplied_by_a_matrix():
    made, _ = resized(
        (1, 1, 900),
        {"sizes": np.array([1, 1, 1800])},
        "cubic",
        coordinate_transformation_mode="align_corners",
    )
    assert li.compile(made).fallbacks == {"Resize": 1}


def test_a_long_row_is_interpolated_by_a_loop():
    attributes = {"coordinate_transformation_mode": "align_corners"}
    made, inputs = resized((1, 1, 900), {"sizes": np.array([1, 1, 1800])}, "linear", **attributes)
    executable = li.compile(made)
    assert [time.implementation for time in executable.profile(inputs)] == ["loop"]
    # ONNX Runtime has positions in f32, 5e-5 beside these.
    x: Array = inputs["x"][0, 0]
    row: Array = np.interp(np.linspace(0, 899, 1800), np.arange(900), x)
    np.testing.assert_allclose(executable(inputs)[0][0, 0], row, rtol=0, atol=1e-6 * np.abs(row).max())


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners"])
def test_a_picture_of_integers_is_resampled_as_floats_that_are_exact(dtype: type, coordinates: str):
    sizes = [1, 3, 9, 17] if coordinates == "align_corners" else [1, 3, 10, 36]
    made, inputs = _of_integers(dtype, sizes, coordinates)
    executable = li.compile(made)
    assert not executable.fallbacks
    found = executable(inputs)[0]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, _cut_off(inputs["x"], sizes, coordinates))


@pytest.mark.parametrize(("dtype", "sizes"), [(np.uint8, [1, 3, 7, 9]), (np.int32, [1, 3, 10, 18])])
def test_negative_integers_that_floats_would_round_are_left_to_the_reference(dtype: type, sizes: list[int]):
    made, _ = _of_integers(dtype, sizes, "half_pixel")
    assert li.compile(made).fallbacks == {"nn.resize": 1}


def _of_integers(dtype: type, sizes: list[int], coordinates: str) -> tuple[Any, dict[str, Any]]:
    low = 0 if dtype is np.uint8 else -128
    inputs = {"x": np.random.default_rng(0).integers(low, low + 256, (1, 3, 5, 9)).astype(dtype)}
    attributes: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    resize = node("Resize", ("x", "", "", "sizes"), "y", **attributes)
    return model([resize], inputs, {"sizes": np.array(sizes)}, "y"), inputs


def _cut_off(x: Any, sizes: list[int], coordinates: str) -> Array:
    """The linear interpolation of the last two dims in double precision, cut off."""
    for dim in (2, 3):
        places = np.arange(sizes[dim], dtype=np.float64)
        extent = int(x.shape[dim])
        if coordinates == "align_corners":
            places *= (extent - 1) / (sizes[dim] - 1)
        elif coordinates == "asymmetric":
            places *= extent / sizes[dim]
        else:
            places = (places + 0.5) * extent / sizes[dim] - 0.5
        rows: Any = np.moveaxis(x, dim, -1)
        made: Any = [np.interp(places, range(extent), row) for row in rows.reshape(-1, extent)]
        x = np.moveaxis(np.reshape(made, (*rows.shape[:-1], sizes[dim])), -1, dim)
    return np.trunc(x)
