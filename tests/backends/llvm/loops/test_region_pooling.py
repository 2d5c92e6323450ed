"""RoiAlign by machine code, beside NumPy; that beside ONNX Runtime is in `tests/backends/reference`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.backends.llvm.loops.compiled_loop import LOOP_SIGNATURE
from layout_ir.backends.llvm.loops.loop_calls import check_indices
from layout_ir.backends.llvm.loops.region_pooling import RegionPooling
from layout_ir.backends.reference.roi_align import pooled_regions
from layout_ir.dialects.nn.regions import Regions
from layout_ir.errors import LayoutError

RNG = np.random.default_rng(0)


def found(
    x: Any, regions: Any, batches: Any, made: Regions, *, parts: int = 1, count: int | None = None
) -> Any:
    """The results, computed in parts as threads do."""
    rows = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    kernel = RegionPooling(rows.shape, count, "f32" if x.dtype == np.float32 else "f64", made)
    result = np.full((len(regions), x.shape[1], *made.extents), np.nan, x.dtype)
    arguments = kernel.arguments(len(regions))
    arguments[:4] = [array.ctypes.data for array in (rows, regions, batches, result)]
    for part in range(parts):
        LOOP_SIGNATURE(kernel.address)(int(arguments.ctypes.data), 0, part, parts)
    check_indices(arguments, "RoiAlign")
    return result


@pytest.mark.parametrize("half_pixel", [False, True])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(
    ("channels", "dtype", "ratio"), [(1, "f4", 2), (3, "f8", 0), (70, "f4", 0), (37, "f8", 3), (9, "f4", 1)]
)
def test_regions_as_numpy_has_them(channels: int, dtype: str, ratio: int, largest: bool, half_pixel: bool):
    x = RNG.standard_normal((2, channels, 9, 11)).astype(dtype)
    regions = RNG.uniform(-30, 140, (10, 4)).astype(dtype)  # some turned round, some outside
    batches = RNG.integers(0, 2, 10)
    made = Regions((3, 2), ratio, 0.11, half_pixel, largest)
    expected = pooled_regions(x, regions, batches, made)
    for parts, count in ((1, None), (3, None), (2, 10)):
        np.testing.assert_allclose(
            found(x, regions, batches, made, parts=parts, count=count), expected, rtol=0, atol=1e-5
        )


@pytest.mark.parametrize("far", [1e30, 3e9, np.inf, np.nan])
@pytest.mark.parametrize("largest", [False, True])
def test_regions_of_any_size_end(far: float, largest: bool):
    x = RNG.standard_normal((1, 3, 5, 6)).astype(np.float32)
    regions = np.array(
        [[far, 0, far, 5], [0, -far, 3, far], [0, 0, far, far], [-far, -far, far, far], [far, far, 0, 0]],
        np.float32,
    )
    for ratio in (0, 3):
        for half_pixel in (False, True):
            made = Regions((2, 2), ratio, 1.0, half_pixel, largest)
            with np.errstate(all="ignore"):
                expected = pooled_regions(x, regions, np.zeros(5, np.int64), made)
            np.testing.assert_allclose(
                found(x, regions, np.zeros(5, np.int64), made), expected, rtol=0, atol=1e-5
            )


def test_what_is_no_number_is_read_where_a_position_is_beside_it_alone():
    x = np.zeros((1, 1, 6, 6), np.float32)
    x[0, 0, 0, 0], x[0, 0, 5, 5] = np.nan, np.inf
    made = Regions((3, 3), 1, 1.0, half_pixel=True, largest=False)
    for y in (
        found(x, np.array([[0, 0, 6, 6]], np.float32), np.zeros(1, np.int64), made),
        pooled_regions(x, np.array([[0, 0, 6, 6]], np.float32), np.zeros(1, np.int64), made),
    ):
        assert np.isnan(y[0, 0, 0, 0]) and np.isinf(y[0, 0, 2, 2])
        assert np.isfinite(y).sum() == 7


@pytest.mark.parametrize("batch", [-1, 2, 1 << 40])
def test_negative_a_batch_that_is_not_there_is_an_error_and_reads_nothing(batch: int):
    x, regions = np.ones((2, 3, 4, 4), np.float32), np.array([[0, 0, 4, 4]] * 3, np.float32)
    made = Regions((1, 1), 2, 1.0, half_pixel=True, largest=False)
    with pytest.raises(LayoutError, match=f"index {batch} of RoiAlign is outside of its dim"):
        found(x, regions, np.array([0, batch, 1]), made)
    with pytest.raises(LayoutError, match="outside of its 2"):
        pooled_regions(x, regions, np.array([0, batch, 1]), made)


def test_no_regions_are_no_results():
    made = Regions((2, 2), 2, 1.0, half_pixel=True, largest=False)
    x, none = np.ones((2, 3, 4, 4), np.float32), np.zeros((0, 4), np.float32)
    assert found(x, none, np.zeros(0, np.int64), made).shape == (0, 3, 2, 2)


@pytest.mark.parametrize(("shape", "dtype"), [((1, 0, 4, 3), "f32"), ((1, 4, 4, 3), "f16")])
def test_negative_there_is_no_code(shape: tuple[int, ...], dtype: str):
    with pytest.raises(LayoutError, match="no code for regions"):
        RegionPooling(shape, 1, dtype, Regions((1, 1), 2, 1.0, half_pixel=True, largest=False))
