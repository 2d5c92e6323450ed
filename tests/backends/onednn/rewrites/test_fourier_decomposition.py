"""DFT and STFT nodes as products, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.rewrites.test_node_decomposition import opaque_nodes
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


def transform(
    shape: tuple[int, ...], length: int | None = None, **attributes: Any
) -> tuple[Any, dict[str, Any]]:
    """A DFT, and its input."""
    inputs = {"x": numbers(shape)}
    names = ("x",) if length is None else ("x", "length")
    made = model([node("DFT", names, "y", **attributes)], inputs, {"length": np.int64(length or 0)}, "y")
    return made, inputs


@pytest.mark.parametrize("length", [None, 20, 24, 31])
@pytest.mark.parametrize(
    ("parts", "attributes"),
    [(1, {"onesided": 1}), (1, {}), (2, {}), (1, {"inverse": 1}), (2, {"inverse": 1})],
)
def test_a_transform(parts: int, attributes: dict[str, int], length: int | None):
    made, inputs = transform((3, 24, parts), length, **attributes)
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize("axis", [0, 2, -3])
def test_a_transform_along_another_dim(axis: int):
    made, inputs = transform((5, 8, 6, 2), axis=axis)
    assert not opaque_nodes(made)
    compare(made, inputs)


def test_a_transform_whose_axis_is_an_input():
    from onnx import helper, numpy_helper

    made, inputs = transform((4, 6, 5, 2))
    made.opset_import[0].version = 20
    made.graph.initializer.append(numpy_helper.from_array(np.array(2), "axis"))
    made.graph.node[0].CopyFrom(helper.make_node("DFT", ["x", "", "axis"], ["y"]))
    assert not opaque_nodes(made)
    compare(made, inputs)


def test_negative_a_transform_whose_matrix_no_cache_holds():
    made, _ = transform((1, 20_000, 1))
    assert opaque_nodes(made) == ["DFT"]


def frames(
    shape: tuple[int, ...], step: int, length: int, window: bool, **attributes: Any
) -> tuple[Any, dict[str, Any]]:
    """An STFT, and its input."""
    inputs = {"x": numbers(shape)}
    given = {
        "step": np.int64(step),
        "length": np.int64(length),
        "window": np.hanning(length).astype(np.float32),
    }
    names = ("x", "step", "window" if window else "", "length")
    return model([node("STFT", names, "y", **attributes)], inputs, given, "y"), inputs


@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize(
    ("shape", "attributes"), [((2, 90, 1), {}), ((1, 90), {}), ((2, 90, 1), {"onesided": 0})]
)
@pytest.mark.parametrize(("step", "length"), [(5, 16), (16, 16), (7, 15), (20, 8)])
def test_frames(shape: tuple[int, ...], attributes: dict[str, int], step: int, length: int, window: bool):
    made, inputs = frames(shape, step, length, window, **attributes)
    assert not opaque_nodes(made)
    compare(made, inputs)


def test_frames_of_complex_numbers():
    made, inputs = frames((2, 50, 2), 6, 12, True, onesided=0)
    assert not opaque_nodes(made)
    compare(made, inputs)


def test_negative_frames_whose_window_is_computed():
    inputs = {"x": numbers((1, 50, 1)), "window": numbers((8,))}
    given = {"step": np.int64(4)}
    made = model([node("STFT", ("x", "step", "window"), "y")], inputs, given, "y")
    assert opaque_nodes(made) == ["STFT"]
