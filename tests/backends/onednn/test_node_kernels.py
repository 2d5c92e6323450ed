"""Operators evaluated with compiled code, beside the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.node_kernels import node_kernels
from layout_ir.backends.reference.node_evaluation import NodeEvaluation
from layout_ir.backends.reference.operator_kernels import IN_NUMPY, NodeKernels
from layout_ir.errors import LayoutError
from tests.backends.onednn.small_programs import needs_library

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")

pytestmark = needs_library

RNG = np.random.default_rng(0)


def evaluated(op: str, inputs: dict[str, Any], kernels: NodeKernels, **attributes: Any) -> Any:
    node = onnx.helper.make_node(op, list(inputs), ["y"], **attributes)
    [found] = NodeEvaluation([node], {"": 16}, kernels=kernels)(inputs)
    return found


def test_boxes_are_selected_by_compiled_code(monkeypatch: pytest.MonkeyPatch):
    inputs = {
        "boxes": RNG.random((1, 90, 4), np.float32),
        "scores": RNG.random((1, 2, 90), np.float32),
        "most": np.array([50]),
        "overlap": np.array([0.3], np.float32),
    }
    expected = evaluated("NonMaxSuppression", inputs, IN_NUMPY)
    # By NumPy there is nothing left to run.
    monkeypatch.delattr("layout_ir.backends.reference.non_max_suppression._selected")
    np.testing.assert_array_equal(evaluated("NonMaxSuppression", inputs, node_kernels(1)), expected)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("count", [0, 5])
def test_regions(count: int, dtype: str):
    inputs = {
        "x": RNG.standard_normal((2, 3, 8, 9)).astype(dtype),
        "regions": RNG.uniform(0, 9, (count, 4)).astype(dtype),
        "batches": RNG.integers(0, 2, count),
    }
    options = {"output_height": 2, "output_width": 3, "mode": "max"}
    found = evaluated("RoiAlign", inputs, node_kernels(1), **options)
    np.testing.assert_allclose(found, evaluated("RoiAlign", inputs, IN_NUMPY, **options), rtol=0, atol=1e-5)


def test_negative_regions_of_a_batch_that_is_not_there():
    inputs = {
        "x": np.ones((2, 3, 8, 9), np.float32),
        "regions": np.ones((2, 4), np.float32),
        "batches": np.array([0, 2]),
    }
    for kernels in (IN_NUMPY, node_kernels(1)):
        with pytest.raises(LayoutError, match="outside"):
            evaluated("RoiAlign", inputs, kernels)


@pytest.mark.parametrize("shape", [(2, 5), (3, 4)])
def test_negative_regions_that_do_not_fit(shape: tuple[int, ...]):
    inputs = {
        "x": np.ones((2, 3, 8, 9), np.float32),
        "regions": np.ones(shape, np.float32),
        "batches": np.zeros(2, np.int64),
    }
    for kernels in (IN_NUMPY, node_kernels(1)):
        with pytest.raises(LayoutError, match="do not fit"):
            evaluated("RoiAlign", inputs, kernels)


def matrices(shape: tuple[int, ...], form: str) -> Any:
    """Numbers of this shape that lie row-major, with rows apart, transposed, or backwards."""
    if form == "transposed":
        return RNG.standard_normal((*shape[:-2], shape[-1], shape[-2]), np.float32).swapaxes(-1, -2)
    if form == "apart":
        return RNG.standard_normal((*shape[:-1], shape[-1] + 3), np.float32)[..., : shape[-1]]
    made = RNG.standard_normal(shape, np.float32)
    return made[..., ::-1] if form == "backwards" else made


FORMS = ("plain", "transposed", "apart", "backwards")


@pytest.mark.parametrize("left", FORMS)
@pytest.mark.parametrize("right", FORMS)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((40, 33), (33, 50)),
        ((3, 20, 33), (33, 50)),
        ((2, 1, 40, 33), (3, 33, 50)),
        ((1, 64), (64, 1000)),
        ((700, 64), (64, 1)),
        ((2, 4, 5), (5, 3)),
        ((0, 64), (64, 64)),
        ((2, 3, 0), (0, 5)),
        ((0, 50, 64), (64, 64)),
        ((0, 50, 64), (1, 64, 64)),
    ],
)
def test_products_of_matrices_however_they_lie(left: str, right: str, a: tuple[int, ...], b: tuple[int, ...]):
    x, y = matrices(a, left), matrices(b, right)
    found = evaluated("MatMul", {"a": x, "b": y}, node_kernels(1))
    expected = x.astype(np.float64) @ y.astype(np.float64)
    assert found.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_products_run_on_the_threads_that_are_asked_for(monkeypatch: pytest.MonkeyPatch):
    onednn = library()
    if not onednn.sets_threads:
        pytest.skip("this build of oneDNN takes all CPUs")
    onednn.use_threads(3)
    asked: list[int] = []
    monkeypatch.setattr(onednn, "use_threads", asked.append)
    x = matrices((64, 64), "plain")
    evaluated("MatMul", {"a": x, "b": x}, node_kernels(2))
    assert asked == [2, 3]


def test_negative_products_that_are_no_f32_or_of_vectors_are_those_of_numpy():
    for a, b in (((64,), (64, 64)), ((64, 64), (64,)), ((64,), (64,))):
        x, y = RNG.standard_normal(a, np.float32), RNG.standard_normal(b, np.float32)
        np.testing.assert_array_equal(evaluated("MatMul", {"a": x, "b": y}, node_kernels(1)), x @ y)
    x = RNG.standard_normal((64, 64))
    np.testing.assert_array_equal(evaluated("MatMul", {"a": x, "b": x}, node_kernels(1)), x @ x)
    with pytest.raises(LayoutError, match="MatMul"):
        evaluated("MatMul", {"a": np.zeros((64, 64), "f4"), "b": np.zeros((63, 64), "f4")}, node_kernels(1))
