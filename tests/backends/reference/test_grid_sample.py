"""GridSample, beside ONNX Runtime, and beside PyTorch where that reads outside its tensor."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from layout_ir.backends.reference.grid_sample import grid_sample

onnx: Any = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
torch: Any = pytest.importorskip("torch", reason="torch is not installed")


def theirs(x: Any, grid: Any, mode: str, padding: str, align: bool) -> Any:
    helper = onnx.helper
    node = helper.make_node(
        "GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding, align_corners=int(align)
    )
    values = [helper.make_tensor_value_info(k, 1, v.shape) for k, v in (("x", x), ("grid", grid))]
    graph = helper.make_graph([node], "sample", values, [helper.make_tensor_value_info("y", 1, None)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x, "grid": grid})[0]


def of_pytorch(x: Any, grid: Any, mode: str, padding: str, align: bool) -> Any:
    named = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return torch.nn.functional.grid_sample(
        torch.from_numpy(x), torch.from_numpy(grid), named, padding, align
    ).numpy()


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
    # Between the centers of one element there is nothing to reflect: ONNX Runtime divides by zero there, and reads
    # whatever lies beyond its tensor.
    oracle = of_pytorch if padding == "reflection" and align and 1 in spatial else theirs
    wanted = oracle(x, grid, mode, padding, align)
    np.testing.assert_allclose(grid_sample(x, grid, mode, padding, align), wanted, atol=2e-5)


@pytest.mark.parametrize(("old", "new"), [("bilinear", "linear"), ("bicubic", "cubic")])
def test_old_names_of_modes(old: str, new: str):
    random = np.random.default_rng(1)
    x, grid = (random.uniform(-1, 1, shape).astype(np.float32) for shape in ((1, 2, 5, 4), (1, 3, 7, 2)))
    np.testing.assert_array_equal(
        grid_sample(x, grid, old, "border", True), grid_sample(x, grid, new, "border", True)
    )


def test_negative_modes_differ():
    random = np.random.default_rng(1)
    x, grid = (random.uniform(-1, 1, shape).astype(np.float32) for shape in ((1, 2, 5, 4), (1, 3, 7, 2)))
    found = [grid_sample(x, grid, mode, "border", True) for mode in ("nearest", "linear", "cubic")]
    assert not any(np.allclose(a, b) for a, b in combinations(found, 2))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_negative_positions_that_are_no_numbers_read_nothing_outside(mode: str, padding: str):
    # What they read nobody defines; they do not change what others read.
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    place = (0.25, -0.5)
    grid = np.array([[[place, (np.nan, np.inf), (-np.inf, 0), place]]], np.float32)
    with np.errstate(invalid="ignore"):
        found = grid_sample(x, grid, mode, padding, False)
    alone = grid_sample(x, grid[:, :, :1], mode, padding, False)
    np.testing.assert_array_equal(found[..., [0, 3]], alone[..., [0, 0]])
