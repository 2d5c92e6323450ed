"""GridSample, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.backends.reference.grid_sample import grid_sample

onnx: Any = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")


def theirs(x: Any, grid: Any, mode: str, padding: str, align: bool) -> Any:
    helper = onnx.helper
    node = helper.make_node(
        "GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding, align_corners=int(align)
    )
    values = [helper.make_tensor_value_info(k, 1, v.shape) for k, v in (("x", x), ("grid", grid))]
    graph = helper.make_graph([node], "sample", values, [helper.make_tensor_value_info("y", 1, None)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x, "grid": grid})[0]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (1, 2, 1, 6), (2, 2, 3, 4, 5)])
def test_positions_inside_and_outside(mode: str, padding: str, align: bool, shape: tuple[int, ...]):
    batch, _, *spatial = shape
    if mode == "cubic" and len(spatial) > 2:
        pytest.skip("cubic interpolation is of pictures")
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, shape).astype(np.float32)
    where = [batch, *[3] * (len(spatial) - 1), 7, len(spatial)]
    grid = random.uniform(-1.8, 1.8, where).astype(np.float32)
    wanted = theirs(x, grid, mode, padding, align)
    np.testing.assert_allclose(grid_sample(x, grid, mode, padding, align), wanted, atol=2e-5)


def test_old_names_of_modes():
    x, grid = np.ones((1, 1, 2, 2), np.float32), np.zeros((1, 1, 1, 2), np.float32)
    for mode in ("bilinear", "bicubic"):
        np.testing.assert_array_equal(grid_sample(x, grid, mode, "border", True), [[[[1]]]])


def test_negative_positions_that_are_no_numbers_read_nothing_outside():
    x = np.ones((1, 1, 2, 2), np.float32)
    grid = np.array([[[[np.nan, np.inf], [-np.inf, 0]]]], np.float32)
    for padding in ("zeros", "border", "reflection"):
        with np.errstate(invalid="ignore"):
            assert grid_sample(x, grid, "nearest", padding, False).shape == (1, 1, 1, 2)
